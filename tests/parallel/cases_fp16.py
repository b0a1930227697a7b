"""`omniccl.fp16`: half the bytes, summed in single precision."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from case import case
from support import Array, assert_same_bits, counted, on_each_rank, rank_order_sum

from hvd_omniccl import omniccl


def values(rank: int, dtype: str, shape: tuple[int, ...] = (40, 24)) -> Array:
    """Numbers of many magnitudes, some too large and some too small for half precision, half of the rows zero."""
    generator = np.random.default_rng(rank)
    array = generator.standard_normal(shape) * 10.0 ** generator.integers(-8, 5, shape)
    array[rank % 2 :: 2] = 0
    return array.astype(dtype)


@case(2, 3, 4, mpi=True)
def fp16_sums_in_single_precision_in_rank_order_and_rounds_once() -> None:
    for dtype in ("float32", "float64", "float16"):
        arrays = on_each_rank(lambda rank, dtype=dtype: values(rank, dtype))
        with np.errstate(over="ignore"):
            expected = rank_order_sum([array.astype(np.float16) for array in arrays]).astype(dtype)
        for eager in (True, False):

            def reduce(tensor: tf.Tensor) -> tf.Tensor:
                return hvd.allreduce(tensor, op=hvd.Sum, compression=omniccl.fp16)

            with counted() as change:
                result = (reduce if eager else tf.function(reduce))(tf.constant(arrays[hvd.rank()]))
            assert_same_bits(result.numpy(), expected)
            assert result.shape == (40, 24)
            assert change.bytes_reduced == 40 * 24 * 2
            assert change.blocks == 40  # a block is a row


@case(2, 3)
def fp16_leaves_integers_exact() -> None:
    array = np.full(100, 70000 + hvd.rank(), np.int32)
    result = hvd.allreduce(tf.constant(array), op=hvd.Sum, compression=omniccl.fp16).numpy()
    assert_same_bits(result, np.full(100, sum(range(70000, 70000 + hvd.size())), np.int32))


@case(2, 3)
def fp16_in_a_group_and_in_a_tape() -> None:
    arrays = [values(hvd.rank(), "float32", (8, size)) for size in (3, 24)]
    expected = [
        rank_order_sum([values(rank, "float32", (8, size)).astype(np.float16) for rank in range(hvd.size())]).astype(
            np.float32
        )
        for size in (3, 24)
    ]
    with counted() as change:
        results = hvd.grouped_allreduce([tf.constant(one) for one in arrays], op=hvd.Sum, compression=omniccl.fp16)
    for result, wanted in zip(results, expected):
        assert_same_bits(result.numpy(), wanted)
    assert change.tensors == 2

    variable = tf.Variable(tf.zeros(30))
    with tf.GradientTape() as plain:
        loss = (hvd.rank() + 1.0) * tf.reduce_sum(variable)
    tape = hvd.DistributedGradientTape(plain, compression=omniccl.fp16)
    [gradient] = tape.gradient(loss, [variable])
    assert gradient.dtype == tf.float32
    assert np.all(gradient.numpy() == (hvd.size() + 1) / 2)
