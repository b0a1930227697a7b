"""``omniccl``: what a user passes as ``compression=``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import hook
from .errors import UnsupportedDtypeError
from .mark import Mark, set_mark
from .tag import default_block_elements

# What Horovod's TensorFlow operation has, and the engine too.
SUPPORTED_DTYPES = ("uint8", "int8", "int32", "int64", "float16", "float32", "float64")


@dataclass(frozen=True)
class TensorContext:
    """What ``decompress`` gets from ``compress``.

    Attributes
    ----------
    dtype
        The tensor's dtype.
    shape
        Its static shape.
    """

    dtype: Any
    shape: Any


class OmnicclCompressor:
    """Exact block-sparse allreduce, as a compressor for Horovod's ``compression=`` argument.

    It changes nothing in the tensor: it marks it, and the operation that reduces it sends only
    blocks that are not zero. There is one instance, :data:`hvd_omniccl.omniccl`; it has no state
    and compares and hashes by identity, because Horovod keys its cache of reduce functions on it.
    """

    __slots__ = ()

    def compress(self, tensor: Any) -> tuple[Any, TensorContext]:
        """Mark a tensor for the engine.

        Parameters
        ----------
        tensor
            A ``tf.Tensor`` or ``tf.Variable``.

        Returns
        -------
        tuple
            The same values as a marked tensor, and the context for :meth:`decompress`.

        Raises
        ------
        NotHookedError
            When Horovod is not hooked, unless ``OMNICCL_INTERCEPT=off``.
        ForkedProcessError
            In a process that was forked after ``hvd.init()``.
        UnsupportedDtypeError
            For a dtype that Horovod's allreduce does not have.
        """
        hook.require()
        import tensorflow as tf

        _check_dtype(tensor.dtype)
        shape = tensor.shape
        row_elements = shape[-1] if shape.rank else None
        marked = tf.identity(tensor)
        set_mark(marked, Mark(default_block_elements(row_elements), _name_of(tensor, marked)))
        return marked, TensorContext(tensor.dtype, shape)

    def decompress(self, tensor: Any, ctx: TensorContext) -> Any:
        """Return the reduced tensor as it is, with the static shape that the input had.

        Parameters
        ----------
        tensor
            What the reduction returned.
        ctx
            The context from :meth:`compress`.
        """
        # A reducescatter's result has another first dimension.
        if tensor.shape.is_compatible_with(ctx.shape):
            tensor.set_shape(ctx.shape)
        return tensor

    def __repr__(self) -> str:
        return "hvd_omniccl.omniccl"

    def __reduce__(self) -> str:
        return "omniccl"  # unpickled and copied as the one instance


def _check_dtype(dtype: Any) -> None:
    if dtype.name in SUPPORTED_DTYPES:
        return
    raise UnsupportedDtypeError(
        f"Horovod's allreduce has no {dtype.name}; it has {', '.join(SUPPORTED_DTYPES)}. "
        f"Cast first: tf.cast(tensor, tf.float32)"
    )


def _name_of(tensor: Any, marked: Any) -> str:
    """Return the name by which Horovod would know ``tensor``; empty in eager mode.

    An eager tensor inside of a graph function has no name; its identity there has.
    """
    return str(getattr(tensor, "name", None) or getattr(marked, "name", ""))


omniccl = OmnicclCompressor()
