"""Horovod with its own operation and with omniccl, in turns: ``hvd.allreduce`` of a variable in a ``tf.function``.

The result is a fresh tensor each time, as TensorFlow makes it.
"""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ... import omniccl
from ..case import Array, Case, cut
from . import Job, Peer


class _Horovod:
    def __init__(self, job: Job) -> None:
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()
        name = str(job.options["name"])
        self._compressions = {name: hvd.Compression.none, f"omniccl in {name}": omniccl}
        self.modes = tuple(self._compressions)
        self._functions: dict[str, Any] = {}
        self._result: Any = None

    def prepare(self, case: Case, data: Array) -> None:
        self._functions.clear()
        self._result = None
        variables = [tf.Variable(_in_rows(case, one), trainable=False) for one in cut(case, data)]
        for mode, compression in self._compressions.items():
            self._functions[mode] = _function(variables, compression, f"{mode.replace(' ', '_')}_{data.size}")

    def reduce(self, mode: str) -> None:
        self._result = None  # what TensorFlow gives back to the system it has to ask for again
        self._result = self._functions[mode]()

    def result(self) -> Array:
        return np.concatenate([np.asarray(one).reshape(-1) for one in self._result])

    def close(self) -> None:
        hvd.shutdown()


def _in_rows(case: Case, tensor: Array) -> Array:
    """Return ``tensor`` in rows of one block, where that is possible: the plug-in's blocks follow the rows."""
    return tensor.reshape((-1, case.block_size)) if tensor.size % case.block_size == 0 else tensor


def _function(variables: list[Any], compression: Any, name: str) -> Any:
    def reduce() -> Any:
        if len(variables) == 1:
            return [hvd.allreduce(variables[0], op=hvd.Sum, compression=compression, name=name)]
        return hvd.grouped_allreduce(variables, op=hvd.Sum, compression=compression, name=name)

    return tf.function(reduce)


def open_peer(job: Job) -> Peer:
    """Return this rank."""
    return _Horovod(job)
