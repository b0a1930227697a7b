"""The mark on a tensor object that is to reach the engine, for the wrapper around Horovod's calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from .tag import Block, default_block_elements

# What Horovod's TensorFlow operation has.
SUPPORTED_DTYPES = ("uint8", "int8", "int32", "int64", "float16", "float32", "float64")

_ATTRIBUTE = "_omniccl_mark"


@dataclass(frozen=True)
class Mark:
    """What is known of a tensor that is to be reduced.

    Attributes
    ----------
    block
        How it is cut, and whether it is marked.
    source_name
        The name by which Horovod would know it; empty in eager mode.
    """

    block: Block
    source_name: str


def marked(tensor: Any, named_after: Any) -> Any:
    """Return a tensor with the same values and a mark.

    Parameters
    ----------
    tensor
        A ``tf.Tensor`` or what converts to one.
    named_after
        The tensor by whose name Horovod would know it.
    """
    import tensorflow as tf

    result = tf.identity(tensor)
    # An eager tensor inside of a graph function has no name; its identity there has.
    setattr(result, _ATTRIBUTE, Mark(_block_of(result, True), _name_of(named_after) or _name_of(result)))
    return result


def without_mark(tensor: Any) -> Mark:
    """Return what there is to know of a tensor that nobody marked."""
    return Mark(_block_of(tensor, False), _name_of(tensor))


def _block_of(tensor: Any, is_marked: bool) -> Block:
    import tensorflow as tf

    shape = tf.TensorShape(tensor.shape)  # of an array too
    return Block(default_block_elements(shape[-1] if shape.rank else None), is_marked)


def _name_of(tensor: Any) -> str:
    return str(getattr(tensor, "name", None) or "")


def mark_of(tensor: Any) -> Optional[Mark]:
    """Return the mark on ``tensor``, or None."""
    mark = getattr(tensor, _ATTRIBUTE, None)
    return mark if isinstance(mark, Mark) else None
