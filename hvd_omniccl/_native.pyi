from collections.abc import Callable, Sequence

PROTOCOL_VERSION: int

class EngineError(RuntimeError): ...

def available_kernels() -> list[str]: ...
def dtypes() -> list[str]: ...
def random_session() -> tuple[bytes, bytes]: ...
def probe_aggregator(place: str, secret_file: str, timeout: float) -> str: ...

class Communicator:
    def __init__(
        self,
        *,
        rank: int,
        size: int,
        session_id: bytes,
        key: bytes,
        generation: int,
        aggregators: Sequence[str],
        secret_file: str,
        slot_memory: int,
        timeout: float,
        connect_timeout: float,
        checksum: bool,
        kernels: str,
        loopback_only: bool,
        interface: str,
        first_port: int,
        last_port: int,
        log: Callable[[int, str], None],
    ) -> None: ...
    def endpoint(self) -> bytes: ...
    def connect(self, endpoints: Sequence[bytes]) -> None: ...
    def allreduce(
        self,
        dtype: str,
        tensors: Sequence[tuple[int, int, int, int]],
        prescale: float,
        postscale: float,
        name: str,
    ) -> None: ...
    def stats(self) -> dict[str, int | float]: ...
