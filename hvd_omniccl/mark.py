"""The mark on a tensor object that is to reach the engine, for the wrapper around Horovod's calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from .tag import default_block_elements

# What Horovod's TensorFlow operation has.
SUPPORTED_DTYPES = ("uint8", "int8", "int32", "int64", "float16", "float32", "float64")

_ATTRIBUTE = "_omniccl_mark"


@dataclass(frozen=True)
class Mark:
    """What is known of a marked tensor.

    Attributes
    ----------
    block_elements
        Its block size.
    source_name
        The name of the tensor that was compressed; empty in eager mode.
    """

    block_elements: int
    source_name: str


def marked(tensor: Any, named_after: Optional[Any] = None) -> Any:
    """Return a tensor with the same values and a mark.

    Parameters
    ----------
    tensor
        A ``tf.Tensor`` or what converts to one.
    named_after
        The tensor by whose name Horovod would know it; ``tensor`` itself if None.
    """
    import tensorflow as tf

    source = tensor if named_after is None else named_after
    result = tf.identity(tensor)
    row_elements = result.shape[-1] if result.shape.rank else None
    # An eager tensor inside of a graph function has no name; its identity there has.
    name = str(getattr(source, "name", None) or getattr(result, "name", ""))
    setattr(result, _ATTRIBUTE, Mark(default_block_elements(row_elements), name))
    return result


def mark_of(tensor: Any) -> Optional[Mark]:
    """Return the mark on ``tensor``, or None."""
    mark = getattr(tensor, _ATTRIBUTE, None)
    return mark if isinstance(mark, Mark) else None
