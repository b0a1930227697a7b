"""The wrappers around Horovod's Python calls that reduce.

``_allreduce`` and ``_grouped_allreduce`` get our tag into the names of what they reduce.
``allreduce`` and ``grouped_allreduce``, which call them, are watched for gradients that never get
there.

Horovod knows a tensor by the name of its graph node. In graph mode the tag goes into the ``name=``
of the call, for tensors without a mark too and whatever ``OMNICCL_INTERCEPT`` is: ranks whose modes
differ must give a tensor one name, or Horovod waits for ever instead of our saying what differs.
In eager mode Horovod's operation has no node and drops ``name=``, so the call for a marked tensor
goes through a small graph function with one node in it, kept for the next call of its kind.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, Callable, Optional

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.common.process_sets import _temp_process_set_object
from horovod.tensorflow.mpi_ops import _normalize_name
from horovod.tensorflow.util import _executing_eagerly

from . import hook, indexed_slices
from .compression import omniccl
from .mark import Mark, mark_of, without_mark
from .tag import tagged_name

# Graph functions that are kept. One per name and kind of tensor; a program that makes up a new name
# at each step traces at each step, and forgets the oldest.
_MAX_FUNCTIONS = 1024

_WRAPPED = "_omniccl_wrapped"


def wrap_horovod() -> None:
    """Wrap ``horovod.tensorflow``'s calls. Once, however often it is called."""
    wrappers = {
        "_allreduce": _wrap_single,
        "_grouped_allreduce": _wrap_grouped,
        "allreduce": _watch,
        "grouped_allreduce": _watch,
    }
    for name, wrap in wrappers.items():
        original = getattr(hvd, name)
        if getattr(original, _WRAPPED, False):
            continue
        wrapper = wrap(original)
        setattr(wrapper, _WRAPPED, True)
        setattr(hvd, name, wrapper)


def _wrap_single(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def allreduce(tensor: Any, name: Optional[str] = None, **options: Any) -> Any:
        _require_hook_for_all(options)
        mark = mark_of(tensor)
        if mark is None:
            if _executing_eagerly():
                return original(tensor, name=name, **options)
            mark = without_mark(tensor)
        tag = tagged_name(name or _stock_name("HorovodAllreduce", [mark]), [mark.block])
        if not _executing_eagerly():
            return original(tensor, name=tag, **options)
        return _call_as_function(original, tag, False, [tensor], options)

    return allreduce


def _wrap_grouped(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def grouped_allreduce(tensors: Any, name: Optional[str] = None, **options: Any) -> Any:
        _require_hook_for_all(options)
        if _executing_eagerly() and not any(map(mark_of, tensors)):
            return original(tensors, name=name, **options)
        marks = [mark_of(tensor) or without_mark(tensor) for tensor in tensors]
        tag = tagged_name(
            name or _stock_name("HorovodGroupedAllreduce", [marks[0], marks[-1]]), [mark.block for mark in marks]
        )
        if not _executing_eagerly():
            return original(tensors, name=tag, **options)
        return _call_as_function(original, tag, True, list(tensors), options)

    return grouped_allreduce


def _require_hook_for_all(options: dict[str, Any]) -> None:
    """Raise where ``OMNICCL_INTERCEPT=all`` would take a call and Horovod is not hooked."""
    if hook.state().config.intercept == "all" and options.get("op", hvd.Sum) in (hvd.Sum, hvd.Average):
        hook.require()


def _watch(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)
    count_indexed_slices = tf.autograph.experimental.do_not_convert(_count_indexed_slices)

    @functools.wraps(original)
    def allreduce(*args: Any, **options: Any) -> Any:
        count_indexed_slices(signature.bind(*args, **options).arguments)
        return original(*args, **options)

    return allreduce


def _count_indexed_slices(arguments: dict[str, Any]) -> None:
    """Count a call whose first argument is or has ``tf.IndexedSlices`` that we were to reduce."""
    intercept = hook.state().config.intercept
    ours = arguments.get("compression") in (omniccl, omniccl.fp16)
    if intercept == "off" or not (ours or intercept == "all"):
        return
    if any(isinstance(one, tf.IndexedSlices) for one in tf.nest.flatten(next(iter(arguments.values())))):
        indexed_slices.count_call()


def _stock_name(operation: str, marks: Sequence[Mark]) -> str:
    """Return the name that Horovod makes up for tensors."""
    if _executing_eagerly():
        return operation
    return "_".join([operation, *(_normalize_name(mark.source_name) for mark in marks)])


def _call_as_function(
    original: Callable[..., Any],
    name: str,
    grouped: bool,
    tensors: Sequence[Any],
    options: dict[str, Any],
) -> Any:
    process_set = options.get("process_set", hvd.global_process_set)
    plain = {key: value for key, value in options.items() if key != "process_set"}
    function = _function(
        original,
        name,
        grouped,
        tuple((tensor.dtype, tensor.shape.rank) for tensor in tensors),
        tuple(sorted(plain.items())),
        process_set.process_set_id,
    )
    return function(*tensors)


@functools.lru_cache(maxsize=_MAX_FUNCTIONS)
def _function(
    original: Callable[..., Any],
    name: str,
    grouped: bool,
    kinds: tuple[tuple[Any, int], ...],
    options: tuple[tuple[str, Any], ...],
    process_set_id: int,
) -> Callable[..., Any]:
    """Return the graph function for one kind of call.

    Shapes are left open: what depends on them, the block size, is in the name.
    """

    def reduce(*tensors: Any) -> Any:
        return original(
            list(tensors) if grouped else tensors[0],
            name=name,
            process_set=_temp_process_set_object(process_set_id),
            **dict(options),
        )

    signature = [tf.TensorSpec([None] * rank, dtype) for dtype, rank in kinds]
    function = tf.function(reduce, input_signature=signature, autograph=False)
    # Concrete: tf.config.run_functions_eagerly() must not undo it.
    concrete: Callable[..., Any] = function.get_concrete_function()
    return concrete
