"""Gloo itself, as Horovod ships it; the result goes into an array that was written before."""

from __future__ import annotations

import ctypes
from typing import Optional

import numpy as np

from ..case import Array, Case, cut
from . import Job, Peer


class _Gloo:
    modes: tuple[str, ...] = ("gloo",)

    def __init__(self, job: Job) -> None:
        self.rank, self.size = job.rank, job.size
        self._library = _library(str(job.options["gloo_library"]))
        folder = job.folder / "gloo"
        folder.mkdir(exist_ok=True)
        interface = job.interface.encode() if job.interface else None
        self._context: Optional[int] = self._library.gloo_open(job.rank, job.size, str(folder).encode(), interface)
        if not self._context:
            raise self._error()
        self._output = np.empty(0)
        self._pairs: list[tuple[Array, Array]] = []

    def prepare(self, case: Case, data: Array) -> None:
        self._output = np.full_like(data, 77)
        self._pairs = list(zip(cut(case, data), cut(case, self._output)))

    def reduce(self, mode: str) -> None:
        for data, output in self._pairs:
            status = self._library.gloo_allreduce(
                self._context, data.dtype.name.encode(), data.ctypes.data, output.ctypes.data, data.size
            )
            if status != 0:
                raise self._error()

    def result(self) -> Array:
        return self._output

    def close(self) -> None:
        self._library.gloo_close(self._context)

    def _error(self) -> RuntimeError:
        return RuntimeError(f"Gloo: {self._library.gloo_error().decode()}")


def _library(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    library.gloo_error.restype = ctypes.c_char_p
    library.gloo_open.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p]
    library.gloo_open.restype = ctypes.c_void_p
    library.gloo_allreduce.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    ]
    library.gloo_close.argtypes = [ctypes.c_void_p]
    library.gloo_close.restype = None
    return library


def open_peer(job: Job) -> Peer:
    """Return this rank."""
    return _Gloo(job)
