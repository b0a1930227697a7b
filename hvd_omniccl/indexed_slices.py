"""Sparse gradients that reach Horovod as ``tf.IndexedSlices``, which it gathers past any compression."""

from __future__ import annotations

import os
import threading
import warnings

_lock = threading.Lock()
_calls = 0
_warned = False


def count_call() -> None:
    """Count a call with such gradients; the first one of the process warns."""
    global _calls, _warned
    with _lock:
        _calls += 1
        warned, _warned = _warned, True
    if not warned:
        warnings.warn(
            "hvd_omniccl: Horovod gathers tf.IndexedSlices by a path that no compression sees. Pass "
            "sparse_as_dense=True to DistributedOptimizer or DistributedGradientTape "
            "(stats().indexed_slices counts these calls; this is said once)",
            stacklevel=3,
        )


def calls() -> int:
    """Return the calls since the process started or :func:`reset`."""
    with _lock:
        return _calls


def reset() -> None:
    """Count from zero again."""
    global _calls
    with _lock:
        _calls = 0


def _after_fork_in_child() -> None:
    global _lock, _calls
    _lock = threading.Lock()  # another thread of the parent may have held it
    _calls = 0


os.register_at_fork(after_in_child=_after_fork_in_child)
