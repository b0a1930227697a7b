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
        huge_pages: bool,
        kernels: str,
        loopback_only: bool,
        transport: str,
        congestion_control: str,
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

class kernels:  # noqa: N801  (a submodule)
    @staticmethod
    def scan(kernels: str, data: int, bytes: int, element_size: int, block_elements: int) -> int: ...
    @staticmethod
    def fill_zero(kernels: str, destination: int, bytes: int) -> None: ...
    @staticmethod
    def reduce(kernels: str, dtype: str, destination: int, sources: Sequence[int], elements: int) -> None: ...
    @staticmethod
    def gather(kernels: str, dtype: str, destination: int, source: int, elements: int, block_elements: int) -> None: ...
    @staticmethod
    def plain_read(data: int, bytes: int) -> int: ...
    @staticmethod
    def plain_copy(destination: int, source: int, bytes: int) -> None: ...
    @staticmethod
    def plain_write(destination: int, bytes: int) -> None: ...
