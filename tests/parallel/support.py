"""What several cases need: every rank's data, and the sum that NumPy makes of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from hvd_omniccl import Stats, omniccl, stats
from hvd_omniccl.sockets import tcp_bytes_sent_by_connection

Array = npt.NDArray[Any]

CANONICAL_NAN = {
    "float16": np.uint16(0x7E00),
    "float32": np.uint32(0x7FC00000),
    "float64": np.uint64(0x7FF8000000000000),
}


def bits(array: Array) -> Array:
    """The array's bits as unsigned integers."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def canonical(array: Array) -> Array:
    """The array with each NaN replaced by the canonical one."""
    if array.dtype.kind != "f":
        return array
    result = array.copy()
    bits(result)[np.isnan(array)] = CANONICAL_NAN[array.dtype.name]
    return result


def rank_order_sum(arrays: list[Array]) -> Array:
    """The sum in rank order; fp16 in single precision, rounded once."""
    dtype = arrays[0].dtype
    wide = [array.astype(np.float32) for array in arrays] if dtype == np.float16 else arrays
    with np.errstate(all="ignore"):
        return canonical(functools.reduce(np.add, wide).astype(dtype))


def scaled(array: Array, factor: float) -> Array:
    """The array scaled as Horovod's ScaleBuffer does it, which a factor of 1 does not call."""
    if factor == 1.0:
        return array
    with np.errstate(all="ignore"):
        if array.dtype.kind != "f":
            return np.trunc(array.astype(np.float64) * factor).astype(array.dtype)
        if array.dtype == np.float16:
            return canonical((array.astype(np.float32) * np.float32(factor)).astype(np.float16))
        return canonical(array * array.dtype.type(factor))


def on_each_rank(make: Callable[[int], Array]) -> list[Array]:
    """`make(rank)` for all ranks: data that every rank can make up for every other."""
    return [make(rank) for rank in range(hvd.size())]


def allreduce(array: Array, **options: Any) -> Array:
    options.setdefault("op", hvd.Sum)
    result: Array = hvd.allreduce(tf.constant(array), compression=omniccl, **options).numpy()
    return result


def assert_same_bits(actual: Array, expected: Array) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    different = np.flatnonzero(bits(actual).ravel() != bits(expected).ravel())
    if different.size:
        first = different[0]
        raise AssertionError(
            f"{different.size} of {actual.size} elements differ, first at {first}: "
            f"{actual.ravel()[first]!r} ({bits(actual).ravel()[first]:#x}) is not "
            f"{expected.ravel()[first]!r} ({bits(expected).ravel()[first]:#x})"
        )


class Counted:
    """The difference that a block of code makes to the counters."""

    before: Stats
    after: Stats

    def __getattr__(self, name: str) -> Any:
        return getattr(self.after, name) - getattr(self.before, name)

    def passed_on(self, reason: str) -> int:
        return self.after.passed_on.get(reason, 0) - self.before.passed_on.get(reason, 0)

    def reasons(self) -> dict[str, int]:
        """Why responses were passed on, and how many."""
        return {reason: count for reason in self.after.passed_on if (count := self.passed_on(reason))}


@contextmanager
def counted() -> Any:
    change = Counted()
    change.before = stats()
    yield change
    change.after = stats()


def same_on_all_ranks(data: bytes) -> bool:
    """Whether all ranks have the same bytes."""
    return len(set(hvd.allgather_object(data))) == 1


_horovods_connections: set[str] = set()


def remember_horovods_connections() -> None:
    """To be called after hvd.init() and before the first allreduce."""
    _horovods_connections.update(tcp_bytes_sent_by_connection())


def kernel_bytes_sent() -> int:
    """What the kernel sent over our connections; Horovod's own chatter every millisecond."""
    connections = tcp_bytes_sent_by_connection()
    return sum(sent for name, sent in connections.items() if name not in _horovods_connections)
