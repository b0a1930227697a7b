"""Every dtype of Horovod's allreduce, with every operation and factor, called in every way.

Integers are what stock Horovod makes of them; floats have the bits of the sum in rank order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from case import case
from support import Array, assert_same_bits, counted, on_each_rank, rank_order_sum, scaled

from hvd_omniccl import UnsupportedDtypeError, omniccl
from hvd_omniccl.compression import SUPPORTED_DTYPES

SHAPES = ((), (1,), (5, 20), (600,), (4, 256))
EMPTY_SHAPES = ((0,), (3, 0))
# TensorFlow's operation keeps factors in single precision.
PRESCALE, POSTSCALE = (float(np.float32(factor)) for factor in (0.3, 1.7))
INTEGERS = tuple(name for name in SUPPORTED_DTYPES if np.dtype(name).kind in "iu")
FLOATS = tuple(name for name in SUPPORTED_DTYPES if np.dtype(name).kind == "f")


def values(rank: int, dtype: str, shape: tuple[int, ...], wrap: bool = False) -> Array:
    """A third zeros. Integers use all their bits, sums wrap around, or else are too small for that."""
    rng = np.random.default_rng((29, rank, len(shape)))
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if wrap else (max(limits.min, -9), 9)
        made = rng.integers(low, high, size=shape, dtype=dtype, endpoint=True)
    else:
        made = rng.standard_normal(shape).astype(dtype)
    return np.where(rng.random(shape) < 0.33, np.dtype(dtype).type(0), made)


def reduce_all(inputs: list[Array], compression: Any, **options: Any) -> list[list[Array]]:
    """The inputs reduced eagerly and in a graph, with and without a name, alone and in a group.

    The way does not know of the dtype: all ways for two dtypes, two of them for the others.
    """

    def single(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return [hvd.allreduce(one, compression=compression, **options) for one in tensors]

    def named(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return [
            hvd.allreduce(one, compression=compression, name=f"named/{index}", **options)
            for index, one in enumerate(tensors)
        ]

    def grouped(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return list(hvd.grouped_allreduce(list(tensors), compression=compression, **options))

    def grouped_and_named(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return list(hvd.grouped_allreduce(list(tensors), compression=compression, name="a/group", **options))

    tensors = [tf.constant(one) for one in inputs]
    ways: list[Callable[..., Any]] = [single, tf.function(grouped, autograph=False)]
    if tensors[0].dtype in (tf.float32, tf.int32):
        ways += [grouped, tf.function(single, autograph=False)]
        for way in (named, grouped_and_named):
            ways += [way, tf.function(way, autograph=False)]
    return [[one.numpy() for one in way(*tensors)] for way in ways]


def check(
    dtype: str,
    expected: Callable[[list[Array]], Array] | None,
    wrap: bool = False,
    shapes: Sequence[tuple[int, ...]] = SHAPES,
    **options: Any,
) -> None:
    """Against `expected` of all ranks' inputs, or against stock Horovod. All is ours to reduce."""
    inputs = [on_each_rank(functools.partial(values, dtype=dtype, shape=shape, wrap=wrap)) for shape in shapes]
    mine = [of_ranks[hvd.rank()] for of_ranks in inputs]
    if expected is None:
        wanted = [hvd.allreduce(tf.constant(one), **options).numpy() for one in mine]
    else:
        wanted = [expected(of_ranks) for of_ranks in inputs]
    with counted() as change:
        all_ways = reduce_all(mine, omniccl, **options)
    for results in all_ways:
        for result, want in zip(results, wanted):
            assert_same_bits(result, want)
    assert change.reasons() == {}, (dtype, options)
    if shapes == SHAPES:
        assert change.tensors == len(shapes) * len(all_ways)


@case(2, 3, mpi=True)
def integers_are_those_of_stock() -> None:
    for dtype in INTEGERS:
        check(dtype, None, wrap=True, op=hvd.Sum)
        check(dtype, None, op=hvd.Average)
        for factor in (2.75, 1e9):  # most results do not fit
            check(dtype, None, wrap=True, op=hvd.Sum, postscale_factor=factor)


@case(2, 3, mpi=True)
def floats_are_those_of_the_sum_in_rank_order() -> None:
    size = hvd.size()
    for dtype in FLOATS:
        check(dtype, rank_order_sum, op=hvd.Sum)
        check(dtype, lambda inputs: scaled(rank_order_sum(inputs), 1.0 / size), op=hvd.Average)
        check(
            dtype,
            lambda inputs: scaled(rank_order_sum([scaled(one, PRESCALE) for one in inputs]), POSTSCALE / size),
            op=hvd.Average,
            prescale_factor=PRESCALE,
            postscale_factor=POSTSCALE,
        )


@case(2, 3)
def empty_tensors_of_all_dtypes() -> None:
    # In a graph TensorFlow may replace an operation whose result is known to be empty: nothing is counted.
    for dtype in SUPPORTED_DTYPES:
        check(dtype, lambda inputs: inputs[0], shapes=EMPTY_SHAPES, op=hvd.Average)


@case(2, 3)
def other_operations_of_all_dtypes_go_to_horovod() -> None:
    makers: dict[str, Callable[[list[Array]], Array]] = {
        "Min": lambda inputs: np.minimum.reduce(inputs),
        "Max": lambda inputs: np.maximum.reduce(inputs),
        "Product": lambda inputs: functools.reduce(np.multiply, inputs),
    }
    for dtype in SUPPORTED_DTYPES:
        inputs = [np.array([rank + 1, rank, 3, 2 - rank], dtype) for rank in range(hvd.size())]
        for name, make in makers.items():
            with counted() as change:
                result = hvd.allreduce(tf.constant(inputs[hvd.rank()]), compression=omniccl, op=getattr(hvd, name))
            assert_same_bits(result.numpy(), make(inputs))
            assert change.reasons() == {f"operation {name}": 1}
            assert change.operations == 0


@case(2, 3)
def prescaled_integers_go_to_horovod() -> None:
    for dtype in INTEGERS:
        mine = values(hvd.rank(), dtype, (50,))
        options = {"op": hvd.Sum, "prescale_factor": 3.0}
        stock = hvd.allreduce(tf.constant(mine), **options).numpy()
        with counted() as change:
            assert_same_bits(hvd.allreduce(tf.constant(mine), compression=omniccl, **options).numpy(), stock)
        assert change.operations == 0


@case(1, 2)
def types_that_horovod_lacks_are_refused_by_name() -> None:
    for dtype in (tf.bfloat16, tf.bool, tf.int16, tf.complex64):
        for call in (hvd.allreduce, lambda one, compression: hvd.grouped_allreduce([one], compression=compression)):
            try:
                call(tf.zeros(3, dtype), compression=omniccl)
            except UnsupportedDtypeError as error:
                assert dtype.name in str(error)
            else:
                raise AssertionError(f"{dtype.name} was taken")
