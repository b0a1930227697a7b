"""``omniccl`` and ``omniccl.fp16``: what a user passes as ``compression=``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from . import hook
from .errors import UnsupportedDtypeError
from .mark import SUPPORTED_DTYPES, marked


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


class _MarkingCompressor:
    """What both compressors have in common: they mark the tensor that is reduced.

    There is one instance of each; it has no state and compares and hashes by identity, because
    Horovod keys its cache of reduce functions on it.
    """

    __slots__ = ()
    _name: ClassVar[str]

    def compress(self, tensor: Any) -> tuple[Any, TensorContext]:
        """Mark a tensor for the engine.

        Parameters
        ----------
        tensor
            A ``tf.Tensor`` or ``tf.Variable``.

        Returns
        -------
        tuple
            The tensor to reduce, marked, and the context for :meth:`decompress`.

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
        reduced = self._in_reduced_dtype(tensor)
        _check_dtype(reduced.dtype)
        return marked(reduced, named_after=tensor), TensorContext(tensor.dtype, tensor.shape)

    def decompress(self, tensor: Any, ctx: TensorContext) -> Any:
        """Return the reduced tensor with the dtype and the static shape that the input had.

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
        return _cast(tensor, ctx.dtype)

    def _in_reduced_dtype(self, tensor: Any) -> Any:
        """Return ``tensor`` in the dtype in which it is to be reduced."""
        return tensor

    def __repr__(self) -> str:
        return f"hvd_omniccl.{self._name}"

    def __reduce__(self) -> str:
        return self._name  # unpickled and copied as the one instance


class OmnicclFp16Compressor(_MarkingCompressor):
    """Block-sparse allreduce in half precision: half the bytes, and no longer exact.

    Floating-point tensors travel as float16, are summed in single precision in rank order, rounded
    once, and cast back; others are as with :class:`OmnicclCompressor`.
    """

    __slots__ = ()
    _name = "omniccl.fp16"

    def _in_reduced_dtype(self, tensor: Any) -> Any:
        import tensorflow as tf

        return _cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor


class OmnicclCompressor(_MarkingCompressor):
    """Exact block-sparse allreduce, as a compressor for Horovod's ``compression=`` argument.

    It changes nothing in the tensor: it marks it, and the operation that reduces it sends only
    blocks that are not zero.

    Attributes
    ----------
    fp16
        The compressor that also casts floating-point tensors to float16.
    """

    __slots__ = ()
    _name = "omniccl"
    fp16: ClassVar[OmnicclFp16Compressor] = OmnicclFp16Compressor()


def _cast(tensor: Any, dtype: Any) -> Any:
    import tensorflow as tf

    return tensor if tensor.dtype == dtype else tf.cast(tensor, dtype)


def _check_dtype(dtype: Any) -> None:
    if dtype.name in SUPPORTED_DTYPES:
        return
    raise UnsupportedDtypeError(
        f"Horovod's allreduce has no {dtype.name}; it has {', '.join(SUPPORTED_DTYPES)}. "
        f"Cast first: tf.cast(tensor, tf.float32)"
    )


omniccl = OmnicclCompressor()
