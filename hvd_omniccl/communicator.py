"""The engine for NumPy arrays: no Horovod, no TensorFlow.

A group of processes (or threads) makes one :class:`Communicator` each, hands the endpoints around by any
means, and reduces. Arrays are read and written where they lie. What connects and what is slow goes to
the logger ``hvd_omniccl``.
"""

from __future__ import annotations

import logging
import operator
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union, overload

import numpy as np
import numpy.typing as npt

try:
    from . import _native
except ImportError as error:
    raise ImportError(
        f"the native part of hvd_omniccl is not beside {__file__}: install the package (pip install .), "
        "and leave the folder of its sources"
    ) from error
from .config import MAX_BLOCK_ELEMENTS
from .errors import (
    CommunicatorError,
    ForkedProcessError,
    InvalidArgumentError,
    OmnicclError,
    PeerFailureError,
    SettingError,
    UnsupportedDtypeError,
)
from .statistics import Stats
from .tag import default_block_elements

Array = npt.NDArray[Any]

_LOGGER = logging.getLogger("hvd_omniccl")

_MAX_RANKS = 2**32 - 1  # that fit into a call; the engine says how many it takes
_MAX_SLOT_MEMORY = 1 << 40  # bytes; this and the next as for the environment variables
_MIN_SECONDS, _MAX_SECONDS = 0.001, 86400.0

_ID_BYTES = 16
_KEY_BYTES = 32
_GENERATION_BYTES = 8


def available_kernels() -> list[str]:
    """Return the names of the inner loops that this processor can run, the fastest first."""
    return _native.available_kernels()


@dataclass(frozen=True)
class Session:
    """What the ranks of one group share: an id and a secret key.

    Make one with :meth:`random` and hand it to all ranks over a channel that nobody else reads.

    Attributes
    ----------
    session_id
        16 bytes, not secret.
    key
        32 bytes, secret; not shown.
    generation
        Tells several groups of one session apart.
    """

    session_id: bytes
    key: bytes = field(repr=False)
    generation: int = 0

    @classmethod
    def random(cls) -> Session:
        """Return a fresh session from the system's random source."""
        return cls(*_native.random_session())

    def next_generation(self) -> Session:
        """Return the session for another group of the same ranks, such as the one after a failure."""
        return replace(self, generation=self.generation + 1)

    def to_bytes(self) -> bytes:
        """Return the session, its key included, as bytes for :meth:`from_bytes`."""
        return self.session_id + self.key + self.generation.to_bytes(_GENERATION_BYTES, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> Session:
        """Return the session that :meth:`to_bytes` wrote.

        Raises
        ------
        ValueError
            For anything else.
        """
        if len(data) != _ID_BYTES + _KEY_BYTES + _GENERATION_BYTES:
            raise ValueError("these bytes are no session of this version")
        end = _ID_BYTES + _KEY_BYTES
        return cls(data[:_ID_BYTES], data[_ID_BYTES:end], int.from_bytes(data[end:], "little"))


class Communicator:
    """One rank's handle to a fixed group of ranks that reduce together.

    Every rank makes the same calls in the same order. A call blocks until it is done and releases the GIL
    meanwhile; Ctrl-C ends it. A failure is final: later calls raise it again. Not for use in a process that
    was forked after it was made.

    Parameters
    ----------
    rank, size
        This rank, from 0, and how many there are.
    session
        Equal on all ranks.
    aggregators
        ``"host:port"`` of dedicated shards (``omniccl-aggregator``), equal on all ranks. By default each rank
        is a shard.
    secret_file
        The aggregators' secret; it takes the place of the session's key.
    block_size
        Elements of a block, 1 to 65536. By default a row for a last dimension under 256 (at least 16
        elements), else 256.
    slot_memory
        Bytes in which a shard sums, equal on all ranks. By default 512 KiB for each rank (and one more with
        aggregators).
    timeout
        Seconds without any progress inside a reduction that are a failure, 0.001 to 86400.
    connect_timeout
        Seconds for :meth:`connect`, likewise.
    checksum
        Whether the data carry a CRC32C, equal on all ranks. Headers always do.
    huge_pages
        Whether to ask the system for huge pages where an output of 4 MiB or more has no pages yet.
    kernels
        The inner loops: ``"auto"`` or one of ``available_kernels()``. All give the same bits.
    loopback_only
        Whether all ranks are on this host: listen on loopback only.
    transport
        What carries the data: ``"auto"`` for shared memory to peers on this host and TCP to others, ``"tcp"``, or
        ``"shm"``. Need not be equal on all ranks.
    congestion_control
        How connections find their rate: the name of an algorithm of the kernel, ``"system"`` for its default, or
        ``"auto"``: that, but between hosts not BBR.
    interface
        Listen and connect on this network interface only.
    port_range
        First and last port to listen on. By default any.

    Raises
    ------
    SettingError
        For a setting that cannot be used, such as an interface that does not exist.
    InvalidArgumentError
        For an impossible rank or size, or a number that is out of its range.
    CommunicatorError
        When the system refuses a socket.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        session: Session,
        *,
        aggregators: Sequence[str] = (),
        secret_file: Union[str, os.PathLike[str], None] = None,
        block_size: Optional[int] = None,
        slot_memory: Optional[int] = None,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        checksum: bool = True,
        huge_pages: bool = True,
        kernels: str = "auto",
        loopback_only: bool = False,
        transport: str = "auto",
        congestion_control: str = "auto",
        interface: Optional[str] = None,
        port_range: Optional[tuple[int, int]] = None,
    ) -> None:
        if isinstance(aggregators, str):
            raise TypeError('aggregators is a sequence of "host:port", not one text')
        if aggregators and secret_file is None:
            raise SettingError("aggregators need secret_file, the file with their secret")
        if not isinstance(session, Session):
            raise TypeError(f"session is a {type(session).__name__}; Session.from_bytes makes a Session of bytes")
        self._rank, self._size = operator.index(rank), operator.index(size)
        if not 0 <= self._rank < self._size <= _MAX_RANKS:
            raise InvalidArgumentError(f"rank {rank} of {size} is not possible")
        first_port, last_port = (0, 0) if port_range is None else port_range
        if port_range is not None and not 1 <= first_port <= last_port <= 65535:
            raise InvalidArgumentError(f"port_range is {port_range}; allowed are first and last of 1 to 65535")
        self._block_size = _block_elements(block_size)
        self._owner = os.getpid()
        self._busy = threading.Lock()
        with _translated():
            self._native: Optional[_native.Communicator] = _native.Communicator(
                rank=self._rank,
                size=self._size,
                session_id=session.session_id,
                key=session.key,
                generation=session.generation,
                aggregators=list(aggregators),
                secret_file=os.fspath(secret_file) if secret_file is not None else "",
                slot_memory=0 if slot_memory is None else _integer(slot_memory, "slot_memory", _MAX_SLOT_MEMORY),
                timeout=_seconds(timeout, "timeout"),
                connect_timeout=_seconds(connect_timeout, "connect_timeout"),
                checksum=checksum,
                huge_pages=huge_pages,
                kernels=kernels,
                loopback_only=loopback_only,
                transport=transport,
                congestion_control=congestion_control,
                interface=interface or "",
                first_port=first_port,
                last_port=last_port,
                log=_LOGGER.log,
            )
        self._last_stats: dict[str, Any] = self._native.stats()

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    @property
    def endpoint(self) -> bytes:
        """Where the other ranks reach this one, for their :meth:`connect`."""
        with self._in_use() as native:
            return native.endpoint()

    def connect(self, endpoints: Sequence[bytes] = ()) -> None:
        """Connect to all ranks, or to the aggregators.

        Parameters
        ----------
        endpoints
            The :attr:`endpoint` of each rank, in order; of no use with aggregators.

        Raises
        ------
        PeerFailureError
            When somebody is missing after ``connect_timeout``; the message says who.
        SettingError
            When a peer refuses: another session, secret, version or size.
        """
        with self._in_use() as native, _translated():
            native.connect(endpoints)

    @overload
    def allreduce(
        self,
        arrays: Array,
        out: Optional[Array] = None,
        *,
        op: str = ...,
        prescale_factor: float = ...,
        postscale_factor: float = ...,
        block_size: Optional[int] = ...,
        name: str = ...,
    ) -> Array: ...

    @overload
    def allreduce(
        self,
        arrays: Sequence[Array],
        out: Optional[Sequence[Array]] = None,
        *,
        op: str = ...,
        prescale_factor: float = ...,
        postscale_factor: float = ...,
        block_size: Optional[int] = ...,
        name: str = ...,
    ) -> list[Array]: ...

    def allreduce(
        self,
        arrays: Union[Array, Sequence[Array]],
        out: Union[Array, Sequence[Array], None] = None,
        *,
        op: str = "sum",
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        block_size: Optional[int] = None,
        name: str = "",
    ) -> Union[Array, list[Array]]:
        """Sum arrays over all ranks, in rank order: the same bits on every rank.

        Parameters
        ----------
        arrays
            A C-contiguous array in native byte order, or several of one dtype: int8, uint8, int16, uint16,
            int32, int64, float16, float32, float64 or bool (whose sum is "or"). Any shapes, equal on all ranks.
        out
            Where the results go: arrays of the same shapes and dtype, which may be the inputs themselves and
            must not overlap them otherwise. By default new ones.
        op
            ``"sum"`` or ``"average"``, which divides by the number of ranks (integers truncate toward zero).
        prescale_factor
            Multiplies each contribution, rounded to the dtype; only for floats.
        postscale_factor
            Multiplies the result, rounded to the dtype. For integers the product is truncated toward zero.
        block_size
            Elements of a block for these arrays, 1 to 65536, equal on all ranks; by default the communicator's.
        name
            What error messages call the operation.

        Returns
        -------
        ndarray or list of ndarray
            ``out``, or new arrays.

        Raises
        ------
        InvalidArgumentError
            For an array that cannot be used where it is, an unknown ``op``, a block size out of its range, or
            factors that are not positive and finite.
        UnsupportedDtypeError
            For a dtype that is not in the list.
        PeerFailureError
            When a peer dies, falls silent, or reduces something else. Results are unspecified then.
        """
        if op not in ("sum", "average"):
            raise InvalidArgumentError(f"op is {op!r}; allowed: 'sum', 'average'")
        single = isinstance(arrays, np.ndarray)
        inputs: list[Array] = [arrays] if isinstance(arrays, np.ndarray) else list(arrays)
        outputs = _outputs(inputs, out, single)
        _check(inputs, outputs)
        factor = postscale_factor / self._size if op == "average" else postscale_factor
        wanted = _block_elements(block_size) or self._block_size
        tensors = [
            (
                source.ctypes.data,
                target.ctypes.data,
                source.size,
                wanted or default_block_elements(source.shape[-1] if source.ndim else None),
            )
            for source, target in zip(inputs, outputs)
        ]
        dtype = inputs[0].dtype.name if inputs else "float32"  # no arrays are an operation too
        with self._in_use() as native, _translated():
            try:
                native.allreduce(dtype, tensors, float(prescale_factor), float(factor), name)
            finally:
                self._last_stats = native.stats()
        return outputs[0] if single else outputs

    def stats(self) -> Stats:
        """Return what this communicator counted, up to its last reduction."""
        self._check_process()
        return Stats(**self._last_stats)

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        self._check_process()
        if self._native is None:
            return
        with self._in_use():
            self._native = None

    def __enter__(self) -> Communicator:  # noqa: PYI034 Self needs Python 3.11
        return self

    def __exit__(self, *exception: object) -> None:
        if os.getpid() == self._owner:  # a forked child that leaves keeps its own exception
            self.close()

    def __repr__(self) -> str:
        state = "" if self._native is not None else ", closed"
        return f"<hvd_omniccl.Communicator rank {self._rank} of {self._size}{state}>"

    def _check_process(self) -> None:
        if os.getpid() != self._owner:
            raise ForkedProcessError(
                "this process was forked after the communicator was made, whose connections belong to the parent; "
                "make one here, or start the process with multiprocessing's 'spawn' method"
            )

    @contextmanager
    def _in_use(self) -> Iterator[_native.Communicator]:
        """Keep other threads out, and say why this one cannot get in."""
        self._check_process()
        if not self._busy.acquire(blocking=False):
            raise CommunicatorError("another thread is using this communicator; one call at a time")
        try:
            if self._native is None:
                raise CommunicatorError("this communicator is closed")
            yield self._native
        finally:
            self._busy.release()


def _integer(value: int, what: str, maximum: int) -> int:
    number = operator.index(value)
    if not 1 <= number <= maximum:
        raise InvalidArgumentError(f"{what} is {number}; allowed are 1 to {maximum}")
    return number


def _block_elements(value: Optional[int]) -> Optional[int]:
    return None if value is None else _integer(value, "block_size", MAX_BLOCK_ELEMENTS)


def _seconds(value: float, what: str) -> float:
    if not _MIN_SECONDS <= value <= _MAX_SECONDS:  # also refuses NaN
        raise InvalidArgumentError(f"{what} is {value}; allowed are {_MIN_SECONDS} to {_MAX_SECONDS:.0f} seconds")
    return float(value)


def _outputs(inputs: list[Array], out: Union[Array, Sequence[Array], None], single: bool) -> list[Array]:
    for array in inputs:
        if not isinstance(array, np.ndarray):
            raise InvalidArgumentError(f"a {type(array).__name__} is no NumPy array; numpy.asarray makes one")
    if out is None:
        return [np.empty_like(array, order="C", subok=False) for array in inputs]
    outputs: list[Any] = [out] if single else list(out)
    if len(outputs) != len(inputs):
        raise InvalidArgumentError(f"out has {len(outputs)} arrays for {len(inputs)} inputs")
    return outputs


def _check(inputs: list[Array], outputs: list[Array]) -> None:
    for source, target in zip(inputs, outputs):
        _check_dtype(source)
        if source.dtype != inputs[0].dtype:
            raise InvalidArgumentError(
                f"the arrays of one call have one dtype, not {inputs[0].dtype} and {source.dtype}"
            )
        if not source.flags.c_contiguous:
            raise InvalidArgumentError("an array is not C-contiguous; numpy.ascontiguousarray makes a copy that is")
        if not isinstance(target, np.ndarray) or target.dtype != source.dtype or target.shape != source.shape:
            raise InvalidArgumentError(
                f"out has to be an array of {source.dtype} and of shape {source.shape}, as its input"
            )
        if not target.flags.c_contiguous or not target.flags.writeable:
            raise InvalidArgumentError("out has to be C-contiguous and writeable")
    _check_overlaps(inputs, outputs)


def _check_dtype(array: Array) -> None:
    if array.dtype.name not in _native.dtypes() or array.dtype.hasobject:
        raise UnsupportedDtypeError(f"no allreduce of {array.dtype}; there is one of {', '.join(_native.dtypes())}")
    if not array.dtype.isnative:
        raise InvalidArgumentError(
            "an array is not in native byte order; array.astype(array.dtype.newbyteorder('=')) is"
        )


def _check_overlaps(inputs: list[Array], outputs: list[Array]) -> None:
    """Refuse an output that overlaps another array, unless it is just its own input."""
    spans = [(array.ctypes.data, array.nbytes, True) for array in outputs]
    spans += [
        (source.ctypes.data, source.nbytes, False)
        for source, target in zip(inputs, outputs)
        if source.ctypes.data != target.ctypes.data  # in place: it is the output, which is as large
    ]
    end_of_all = end_of_outputs = 0
    for begin, size, is_output in sorted(span for span in spans if span[1]):
        if begin < (end_of_all if is_output else end_of_outputs):
            raise InvalidArgumentError(
                "an output overlaps another array; it may be its own input as a whole, and nothing else"
            )
        end_of_all = max(end_of_all, begin + size)
        if is_output:
            end_of_outputs = max(end_of_outputs, begin + size)


@contextmanager
def _translated() -> Iterator[None]:
    """Give the engine's errors their class."""
    try:
        yield
    except _native.EngineError as error:
        kind, text = error.args
        raise _error_class(kind)(text) from None


def _error_class(kind: str) -> type[Exception]:
    classes: dict[str, type[OmnicclError]] = {
        "peer": PeerFailureError,
        "precondition": SettingError,
        "argument": InvalidArgumentError,
        "system": CommunicatorError,
    }
    return classes[kind]
