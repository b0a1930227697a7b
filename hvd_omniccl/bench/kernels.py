"""``omniccl bench kernels``: the inner loops beside plain loops over the same memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from .._native import available_kernels, kernels
from .limits import HostRates

_BLOCK = 256
_DTYPE = "float32"
_ITEM = 4
_PAGE = 4096
# Two arrays of this size are in the second-level cache of any processor that we know.
_CACHED_BYTES = 64 << 10


@dataclass(frozen=True)
class KernelRate:
    """What one loop does with memory that is too large for the caches.

    Attributes
    ----------
    kernels
        The name of its instruction set; ``plain`` for the loops that the others are compared with.
    operation
        What it does.
    seconds
        Of each repetition.
    bytes_touched
        Read and written by one repetition.
    plain
        Bytes per second of the plain loop to compare with, by its median.
    """

    kernels: str
    operation: str
    seconds: tuple[float, ...]
    bytes_touched: int
    plain: float

    @property
    def rate(self) -> float:
        """Bytes per second, by the median."""
        return self.bytes_touched / statistics.median(self.seconds)

    @property
    def share(self) -> float:
        """Of the plain loop's rate."""
        return self.rate / self.plain

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "kernels": self.kernels,
            "operation": self.operation,
            "seconds": list(self.seconds),
            "bytes_touched": self.bytes_touched,
            "bytes_per_second": self.rate,
            "share_of_plain": self.share,
        }


@dataclass(frozen=True)
class _Operation:
    name: str
    plain: str  # the plain loop that it is compared with
    bytes_touched: int
    run: Callable[[str], Any]  # takes the name of the kernels


class _Memory:
    """Arrays whose pages are there."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.elements = size // _ITEM
        self._arrays = [_aligned(size) for _ in range(3)]
        self._arrays[1].view(_DTYPE)[:] = 1.0
        self.zeros, self.values, self.target = (array.ctypes.data for array in self._arrays)


def _aligned(size: int) -> npt.NDArray[np.uint8]:
    """Return zeros that begin at a page."""
    whole = np.empty(size + _PAGE, np.uint8)
    start = -whole.ctypes.data % _PAGE
    array = whole[start : start + size]
    array[:] = 0
    return array


def _plain_operations(memory: _Memory) -> tuple[_Operation, ...]:
    size, target = memory.size, memory.target
    return (
        _Operation("read", "read", size, lambda _: kernels.plain_read(memory.zeros, size)),
        _Operation("copy", "copy", 2 * size, lambda _: kernels.plain_copy(target, memory.values, size)),
        _Operation("write", "write", size, lambda _: kernels.plain_write(target, size)),
    )


def _operations(memory: _Memory) -> tuple[_Operation, ...]:
    size, elements, target = memory.size, memory.elements, memory.target
    return (
        _Operation("scan", "read", size, lambda name: kernels.scan(name, memory.zeros, size, _ITEM, _BLOCK)),
        _Operation(
            "sum",
            "copy",
            3 * size,
            lambda name: kernels.reduce(name, _DTYPE, target, [target, memory.values], elements),
        ),
        _Operation(
            "gather",
            "copy",
            size,  # half of the blocks, read and written
            lambda name: kernels.gather(name, _DTYPE, target, memory.values, elements, _BLOCK),
        ),
        _Operation("fill", "write", size, lambda name: kernels.fill_zero(name, target, size)),
    )


def _seconds(action: Callable[..., Any], *arguments: object) -> float:
    begin = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - begin


def kernel_rates(size: int, repetitions: int, names: Sequence[str] = ()) -> Iterator[KernelRate]:
    """Measure the plain loops, and then those of each instruction set; in turns, operation by operation.

    Parameters
    ----------
    size
        Bytes of each of the three arrays, a multiple of 2048; should be larger than the caches.
    repetitions
        How often each loop runs.
    names
        Of ``available_kernels()``; by default all of them.
    """
    memory = _Memory(size)
    names = list(names) or available_kernels()
    plain = {operation.name: operation for operation in _plain_operations(memory)}
    for operation in _operations(memory):
        base = plain[operation.plain]
        turns: dict[str, list[float]] = {name: [] for name in ("plain", *names)}
        for _ in range(repetitions + 1):  # the first is a warm-up
            turns["plain"].append(_seconds(base.run, ""))
            for name in names:
                turns[name].append(_seconds(operation.run, name))
        base_rate = base.bytes_touched / statistics.median(turns["plain"][1:])
        yield KernelRate("plain", base.name, tuple(turns["plain"][1:]), base.bytes_touched, base_rate)
        for name in names:
            yield KernelRate(name, operation.name, tuple(turns[name][1:]), operation.bytes_touched, base_rate)


def host_rates(size: int = 64 << 20, repetitions: int = 5) -> HostRates:
    """Measure what the limits of a host are computed from, with the best kernels."""
    best = available_kernels()[0]
    rates = {rate.operation: rate.rate for rate in kernel_rates(size, repetitions, [best])}
    cores = len(os.sched_getaffinity(0))
    return HostRates(
        scan=rates["scan"], fill=rates["fill"], add=_cached_add_rate(best), copy=rates["copy"] / 2, cores=cores
    )


def _cached_add_rate(name: str, turns: int = 2000) -> float:
    """Return the bytes per second that are added to others in the cache."""
    memory = _Memory(_CACHED_BYTES)

    def add(times: int) -> None:
        for _ in range(times):
            kernels.reduce(name, _DTYPE, memory.target, [memory.target, memory.values], memory.elements)

    add(1)  # brings it into the cache
    return turns * _CACHED_BYTES / _seconds(add, turns)
