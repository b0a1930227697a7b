"""Keras callbacks. Importing this module imports TensorFlow."""

from __future__ import annotations

import warnings
from typing import Any, Optional

import tensorflow as tf

from . import hook
from .statistics import stats


class ReductionWatch(tf.keras.callbacks.Callback):  # type: ignore[misc]  # TensorFlow has no types
    """Warns when a training goes on without anything being reduced, so that its ranks drift apart.

    That is what happens when the optimizer is not the distributed one: a model that was loaded without
    ``compression=omniccl``, or one that was compiled with the plain optimizer. Warns once for each time that
    ``fit`` is called; with ``OMNICCL_INTERCEPT=off``, where nothing is counted, never.

    Parameters
    ----------
    steps
        How many batches in a row without a reduction are too many; more than ``backward_passes_per_step``.

    Raises
    ------
    ValueError
        When ``steps`` is less than 1.
    """

    def __init__(self, steps: int = 10) -> None:
        super().__init__()
        if steps < 1:
            raise ValueError(f"steps is {steps}; it has to be at least 1")
        self._steps = steps
        self._idle_steps = 0
        self._last_tensors = 0
        self._has_warned = False

    def on_train_begin(self, logs: Optional[dict[str, Any]] = None) -> None:
        """Begin to count."""
        self._idle_steps = 0
        self._last_tensors = stats().tensors
        self._has_warned = hook.state().config.intercept == "off"

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None:
        """Count a step, and warn if it is one too many."""
        tensors = stats().tensors
        self._idle_steps = self._idle_steps + 1 if tensors == self._last_tensors else 0
        self._last_tensors = tensors
        if self._idle_steps < self._steps or self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"hvd_omniccl: nothing was reduced in the last {self._steps} steps, so each rank trains for itself. "
            "Is the optimizer hvd.DistributedOptimizer(..., compression=omniccl)? A model with its optimizer is loaded "
            "with hvd.load_model(path, compression=omniccl)",
            stacklevel=2,
        )
