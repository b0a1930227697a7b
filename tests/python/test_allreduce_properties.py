"""Whatever is reduced, however it is cut, spread and scaled: the bits of the plain sum in rank order."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from aggregator_daemon import Daemon, daemon
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import Ranks

from hvd_omniccl import _native

Array = npt.NDArray[Any]

CANONICAL_NAN = {"float16": 0x7E00, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 6e-8, 65504.0, 1.0]


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("aggregator"), "--threads", "2", "--slot-memory", "1G") as one:
        yield one


class Groups:
    """Connected groups, used again for all examples that want the same."""

    def __init__(self, aggregator: Daemon) -> None:
        self._aggregator = aggregator
        self._groups: dict[Any, Ranks] = {}

    def get(self, size: int, shards: int, **options: Any) -> Ranks:
        key = (size, shards, *sorted(options.items()))
        if key not in self._groups:
            extra = self._aggregator.shards(shards) if shards else {}
            self._groups[key] = Ranks(size, **options, **extra)
        return self._groups[key]

    def close(self) -> None:
        for ranks in self._groups.values():
            ranks.close()


@pytest.fixture(scope="module")
def groups(aggregator: Daemon) -> Iterator[Groups]:
    made = Groups(aggregator)
    yield made
    made.close()


def blocks_of(rng: np.random.Generator, dtype: np.dtype[Any], elements: int, block: int, density: float) -> Array:
    """Random values, special ones among them; about `density` of the blocks are not zero."""
    keep = np.repeat(rng.random(-(-elements // block)) < density, block)[:elements]
    if dtype == np.bool_:
        return (rng.random(elements) < 0.5) & keep
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, elements, dtype=dtype, endpoint=True)
        return np.where(keep, values, dtype.type(0))
    values = rng.standard_normal(elements).astype(dtype)
    special = rng.random(elements) < 0.05
    with np.errstate(over="ignore"):
        values[special] = rng.choice(SPECIAL, special.sum()).astype(dtype)
    # Any bits: NaNs with payloads and signs, denormals, huge values.
    raw = rng.random(elements) < 0.05
    values[raw] = np.frombuffer(rng.bytes(elements * dtype.itemsize), dtype)[raw]
    return np.where(keep, values, dtype.type(0))


def canonical(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    bits = array.copy().view(f"u{array.dtype.itemsize}")
    bits[np.isnan(array)] = CANONICAL_NAN[array.dtype.name]
    return bits.view(array.dtype)


def scaled(array: Array, factor: float) -> Array:
    """One multiplication, rounded to the dtype; integers by a double, truncated toward zero."""
    if factor == 1.0:
        return array
    if array.dtype.kind in "iu":
        product = np.trunc(array.astype(np.float64) * factor)
        info = np.iinfo(np.int64 if array.dtype.itemsize == 8 else np.int32)
        lowest = product.copy()
        lowest[~((product >= info.min) & (product < -float(info.min)))] = info.min
        return lowest.astype(info.dtype).astype(array.dtype)
    if array.dtype == np.float16:
        return (array.astype(np.float32) * np.float32(factor)).astype(np.float16)
    return array * array.dtype.type(factor)


def rank_order_sum(arrays: list[Array], prescale: float, postscale: float) -> Array:
    dtype = arrays[0].dtype
    with np.errstate(all="ignore"):
        if dtype == np.bool_:
            return np.logical_or.reduce(arrays)
        terms = [scaled(array, prescale) for array in arrays]
        if dtype == np.float16:
            terms = [term.astype(np.float32) for term in terms]
        total = functools.reduce(np.add, terms).astype(dtype)
        return canonical(scaled(total, postscale))


def check(ranks: Ranks, dtype: str, elements: list[int], block: int, density: float, seed: int, **options: Any) -> None:
    kind = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    size = len(ranks.communicators)
    inputs = [[blocks_of(rng, kind, count, block, density) for count in elements] for _ in range(size)]
    in_place = bool(seed % 2)
    copies = [[array.copy() for array in arrays] for arrays in inputs]
    results = ranks.run(
        lambda one: one.allreduce(copies[one.rank], copies[one.rank] if in_place else None, block_size=block, **options)
    )
    for index in range(len(elements)):
        expected = rank_order_sum(
            [arrays[index] for arrays in inputs],
            options.get("prescale_factor", 1.0),
            options.get("postscale_factor", 1.0) / (size if options.get("op") == "average" else 1),
        )
        for result in results:
            assert result[index].tobytes() == expected.tobytes()


counts = st.lists(
    st.one_of(st.integers(0, 300), st.integers(0, 20_000), st.sampled_from([255, 256, 257, 4096])),
    min_size=1,
    max_size=4,
)
densities = st.sampled_from([0.0, 0.02, 0.3, 1.0])
few = settings(max_examples=80, deadline=None, derandomize=True)


@few
@given(
    dtype=st.sampled_from(_native.dtypes()),
    elements=counts,
    size=st.integers(1, 8),
    block=st.sampled_from([1, 16, 33, 256, 4096]),
    density=densities,
    seed=st.integers(0, 2**32),
)
def test_embedded(
    groups: Groups, dtype: str, elements: list[int], size: int, block: int, density: float, seed: int
) -> None:
    check(groups.get(size, 0), dtype, elements, block, density, seed)


@few
@given(
    dtype=st.sampled_from(_native.dtypes()),
    elements=counts,
    size=st.sampled_from([1, 2, 3, 5]),
    shards=st.integers(1, 3),
    block=st.sampled_from([16, 256]),
    density=densities,
    seed=st.integers(0, 2**32),
)
def test_dedicated(
    groups: Groups, dtype: str, elements: list[int], size: int, shards: int, block: int, density: float, seed: int
) -> None:
    check(groups.get(size, shards), dtype, elements, block, density, seed)


@few
@given(
    dtype=st.sampled_from([name for name in _native.dtypes() if name.startswith("float")]),
    elements=counts,
    size=st.integers(1, 4),
    shards=st.integers(0, 1),
    density=densities,
    prescale=st.sampled_from([1.0, 0.5, 0.3, 1e-3, 7.0]),
    postscale=st.sampled_from([1.0, 0.25, 0.1, 3.0]),
    op=st.sampled_from(["sum", "average"]),
    seed=st.integers(0, 2**32),
)
def test_scaled_floats(
    groups: Groups,
    dtype: str,
    elements: list[int],
    size: int,
    shards: int,
    density: float,
    prescale: float,
    postscale: float,
    op: str,
    seed: int,
) -> None:
    factors = {"prescale_factor": prescale, "postscale_factor": postscale}
    check(groups.get(size, shards), dtype, elements, 64, density, seed, op=op, **factors)


@few
@given(
    dtype=st.sampled_from([name for name in _native.dtypes() if "int" in name]),
    elements=counts,
    size=st.integers(1, 4),
    shards=st.integers(0, 1),
    density=densities,
    postscale=st.sampled_from([1.0, 0.5, 0.1, 3.0]),
    op=st.sampled_from(["sum", "average"]),
    seed=st.integers(0, 2**32),
)
def test_scaled_integers(
    groups: Groups,
    dtype: str,
    elements: list[int],
    size: int,
    shards: int,
    density: float,
    postscale: float,
    op: str,
    seed: int,
) -> None:
    check(groups.get(size, shards), dtype, elements, 64, density, seed, op=op, postscale_factor=postscale)


@few
@given(
    dtype=st.sampled_from(_native.dtypes()),
    elements=counts,
    kernels=st.sampled_from(_native.available_kernels()),
    slot_memory=st.sampled_from([8 << 10, 64 << 10, 2 << 20]),
    checksum=st.booleans(),
    density=densities,
    seed=st.integers(0, 2**32),
)
def test_settings_do_not_change_the_bits(
    groups: Groups,
    dtype: str,
    elements: list[int],
    kernels: str,
    slot_memory: int,
    checksum: bool,
    density: float,
    seed: int,
) -> None:
    ranks = groups.get(2, 0, kernels=kernels, slot_memory=slot_memory, checksum=checksum)
    check(ranks, dtype, elements, 64, density, seed)
