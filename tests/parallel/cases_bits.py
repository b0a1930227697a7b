"""The bits of a sum are those of NumPy's sum in rank order."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from case import case
from support import Array, allreduce, assert_same_bits, on_each_rank, rank_order_sum, scaled

from hvd_omniccl import omniccl

BLOCK = 256  # of a tensor with one long dimension
FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.uint8, np.int32, np.int64)
ALL_SIZES = (1, 2, 3, 4)


def random_blocks(rank: int, size: int, density: float, dtype: type, seed: int) -> Array:
    """Random data in about `density` of the blocks, other blocks on each rank."""
    rng = np.random.default_rng((seed, rank))
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        data = rng.integers(limits.min, limits.max, size=size, dtype=dtype, endpoint=True)
    else:
        data = rng.standard_normal(size).astype(dtype)
    keep = np.repeat(rng.random(-(-size // BLOCK)) < density, BLOCK)[:size]
    return np.where(keep, data, dtype(0))


def check_sums(size: int, density: float, dtype: type, seed: int = 1) -> None:
    inputs = on_each_rank(lambda rank: random_blocks(rank, size, density, dtype, seed))
    assert_same_bits(allreduce(inputs[hvd.rank()]), rank_order_sum(inputs))


@case(*ALL_SIZES, mpi=True)
def sums_at_all_densities() -> None:
    for density in (0.0, 0.01, 0.1, 0.5, 0.9, 1.0):
        check_sums(64 * BLOCK + 17, density, np.float32)


@case(*ALL_SIZES, mpi=True)
def sums_of_all_sizes() -> None:
    for size in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1):
        for density in (0.5, 1.0):
            check_sums(size, density, np.float32, seed=size)


@case(*ALL_SIZES)
def sums_of_ten_million_elements() -> None:
    for density in (0.01, 1.0):
        check_sums(10_000_000, density, np.float32)


@case(*ALL_SIZES, mpi=True)
def sums_of_all_dtypes() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        for density in (0.1, 1.0):
            check_sums(20 * BLOCK + 5, density, dtype)


def special_values(rank: int, dtype: type) -> Array:
    """Blocks of zeros with, at random places, what is easily lost."""
    info = np.finfo(dtype)
    smallest = info.smallest_subnormal
    numbers = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, smallest, -smallest, info.tiny, info.max, -info.max, 1.0]
    values = np.array(numbers, dtype=dtype)
    rng = np.random.default_rng((7, rank))
    data = np.zeros(40 * BLOCK, dtype)
    places = rng.choice(data.size, size=800, replace=False)
    data[places] = rng.choice(values, size=places.size)
    # Whole blocks of one special value: dropped by a test that compares numbers and not bits.
    for index, value in enumerate(values):
        if rng.random() < 0.5:
            data[index * BLOCK : (index + 1) * BLOCK] = value
    return data


@case(*ALL_SIZES, mpi=True)
def sums_of_special_values() -> None:
    for dtype in FLOATS:
        inputs = on_each_rank(lambda rank, dtype=dtype: special_values(rank, dtype))  # type: ignore[misc]
        assert_same_bits(allreduce(inputs[hvd.rank()]), rank_order_sum(inputs))


@case(2, 3)
def an_absent_block_counts_as_positive_zero() -> None:
    minus_zero = np.full(BLOCK, -0.0, np.float32)
    absent = np.zeros(BLOCK, np.float32)
    assert_same_bits(allreduce(minus_zero), minus_zero)
    for holder in range(hvd.size()):
        mine = minus_zero if hvd.rank() == holder else absent
        assert_same_bits(allreduce(mine), absent)


@case(2)
def a_nan_stays_at_its_element() -> None:
    for holder in (0, 1):
        mine = np.zeros(4 * BLOCK, np.float32)
        if hvd.rank() == holder:
            mine[2 * BLOCK + 7] = np.nan
        result = allreduce(mine)
        assert np.flatnonzero(np.isnan(result)).tolist() == [2 * BLOCK + 7]


@case(2)
def infinities_add_up_at_their_element() -> None:
    for values, expected in (((np.inf, -np.inf), np.nan), ((-np.inf, 0.0), -np.inf), ((1.0, np.inf), np.inf)):
        mine = np.zeros(3 * BLOCK, np.float32)
        mine[BLOCK + 3] = values[hvd.rank()]
        wanted = np.zeros(3 * BLOCK, np.float32)
        wanted[BLOCK + 3] = expected
        assert_same_bits(allreduce(mine), wanted)


@case(3)
def addition_is_in_rank_order_and_does_not_depend_on_the_place() -> None:
    value = np.float32([1e8, 1.0, -1e8][hvd.rank()])
    rng = np.random.default_rng(5 + hvd.rank())
    data = rng.standard_normal(1000).astype(np.float32)
    alone = allreduce(data)
    for repeat in range(20):
        assert allreduce(np.full(3, value)).tolist() == [0.0, 0.0, 0.0]  # (1e8 + 1) - 1e8
        inside = np.zeros(1000 + 37 + repeat, np.float32)
        inside[37 : 37 + 1000] = data
        assert_same_bits(allreduce(inside)[37 : 37 + 1000], alone)


@case(3)
def fusion_does_not_change_a_bit() -> None:
    inputs = [
        on_each_rank(lambda rank, seed=seed: random_blocks(rank, 40 * seed + 1, 1.0, np.float32, seed))  # type: ignore[misc]
        for seed in range(1, 40)
    ]
    tensors = [tf.constant(of_ranks[hvd.rank()]) for of_ranks in inputs]

    @tf.function
    def together(values: list[tf.Tensor]) -> list[tf.Tensor]:
        return [hvd.allreduce(value, compression=omniccl, op=hvd.Sum) for value in values]

    for _ in range(5):  # what Horovod fuses differs from time to time
        for result, of_ranks in zip(together(tensors), inputs):
            assert_same_bits(result.numpy(), rank_order_sum(of_ranks))


@case(*ALL_SIZES, mpi=True)
def averages_and_factors() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        inputs = on_each_rank(lambda rank, dtype=dtype: random_blocks(rank, 3000, 0.5, dtype, 3))  # type: ignore[misc]
        mine = inputs[hvd.rank()]
        total = rank_order_sum(inputs)
        assert_same_bits(allreduce(mine, op=hvd.Average), scaled(total, 1.0 / hvd.size()))
        assert_same_bits(allreduce(mine, postscale_factor=0.5), scaled(total, 0.5))
        if dtype in FLOATS:
            prescaled = rank_order_sum([scaled(one, 0.25) for one in inputs])
            assert_same_bits(allreduce(mine, prescale_factor=0.25), prescaled)


@case(2)
def integer_averages_truncate() -> None:
    for one, other, average in ((1, 2, 1), (-1, -2, -1)):
        mine = np.array([one if hvd.rank() == 0 else other], np.int32)
        assert allreduce(mine, op=hvd.Average).tolist() == [average]


@case(2, 4)
def tensors_of_all_ranks_and_row_lengths() -> None:
    for shape in ((), (1,), (3, 5), (7, 16), (9, 32), (4, 255), (4, 256), (2, 3, 4, 8), (3, 0)):
        inputs = on_each_rank(lambda rank, shape=shape: np.full(shape, rank + 1, np.float32))  # type: ignore[misc]
        assert_same_bits(allreduce(inputs[hvd.rank()]), rank_order_sum(inputs))
