"""One case of the benchmark: how large the tensor is, where it is not zero, and over how many ranks."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Masks = npt.NDArray[np.bool_]

TRANSPORTS = ("auto", "tcp", "shm")
PLACEMENTS = ("random", "overlapping", "disjoint", "clustered")

# A block holds small integers, whose sums are exact in every dtype and any order: peers do not add in rank order.
_PATTERN = 3


@dataclass(frozen=True)
class Case:
    """What is reduced.

    Attributes
    ----------
    ranks
        How many there are.
    size
        Bytes of the tensor at each rank.
    density
        Share of its blocks that are not zero, from 0 to 1.
    placement
        Where they are: ``random``, at each rank for itself; ``overlapping``, the same at all; ``disjoint``, at no two
        ranks the same while they suffice; ``clustered``, as in a vocabulary sorted by frequency (Zipf's law).
    dtype
        NumPy's name of it.
    block_size
        Elements of a block.
    aggregators
        How many dedicated ones there are; 0 for embedded shards.
    tensors
        Into how many equal ones it is cut; together they are one operation where a program can do that.
    transport
        How omniccl reaches its aggregators: ``auto``, ``tcp`` or ``shm``.
    """

    ranks: int
    size: int
    density: float
    placement: str = "random"
    dtype: str = "float32"
    block_size: int = 256
    aggregators: int = 0
    tensors: int = 1
    transport: str = "auto"

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return self.size // np.dtype(self.dtype).itemsize

    @property
    def blocks(self) -> int:
        """Blocks of the tensor, a short last one included."""
        return -(-self.elements // self.block_size)

    def to_json(self) -> dict[str, Any]:
        """Return the attributes."""
        return dataclasses.asdict(self)


@functools.lru_cache(maxsize=4)
def masks_of(case: Case, seed: int) -> Masks:
    """Return which blocks are not zero, as an array of shape (ranks, blocks). The same for the same arguments."""
    # Not of the whole case: a tensor is the same with one dtype and another, and with any aggregators and transport.
    generator = np.random.default_rng((seed, case.ranks, case.blocks, round(case.density * 1e6)))
    count = round(case.density * case.blocks)
    masks = np.zeros((case.ranks, case.blocks), np.bool_)
    if case.placement == "clustered":
        masks[:] = generator.random(masks.shape) < _zipf_shares(case.blocks, case.density)
    elif case.placement == "random":
        for mask in masks:
            mask[generator.permutation(case.blocks)[:count]] = True
    else:
        order = generator.permutation(case.blocks)
        for rank, mask in enumerate(masks):
            shift = rank * count if case.placement == "disjoint" else 0
            mask[np.roll(order, -shift)[:count]] = True
    return masks


def _zipf_shares(blocks: int, density: float) -> npt.NDArray[np.float64]:
    """Return how probable each block is: c / (its place), at most 1, with c such that the mean is ``density``."""
    inverse_place = 1.0 / np.arange(1, blocks + 1)
    low, high = 0.0, float(blocks)
    for _ in range(60):
        middle = (low + high) / 2
        if np.minimum(1.0, middle * inverse_place).mean() < density:
            low = middle
        else:
            high = middle
    return np.minimum(1.0, high * inverse_place)


def _pattern(case: Case) -> Array:
    return (np.arange(case.block_size) % _PATTERN + 1).astype(case.dtype)


def _spread(per_block: Array, case: Case, pattern: Array, out: Array) -> None:
    """Write ``per_block[b] * pattern`` into block b of ``out``, whose last may be short."""
    whole = case.elements // case.block_size
    np.multiply(per_block[:whole, None], pattern, out=out[: whole * case.block_size].reshape(whole, case.block_size))
    rest = case.elements - whole * case.block_size
    if rest:
        out[-rest:] = per_block[-1] * pattern[:rest]


def cut(case: Case, array: Array) -> list[Array]:
    """Return views of the case's tensors in ``array``, which has its elements; each begins with a block."""
    ends = np.arange(1, case.tensors) * case.blocks // case.tensors * case.block_size
    return np.split(array, ends)


def fill_input(case: Case, seed: int, rank: int, out: Array) -> None:
    """Write the tensor of ``rank`` into ``out``, a flat array of the case's dtype and elements."""
    scale = masks_of(case, seed)[rank].astype(case.dtype) * np.dtype(case.dtype).type(rank + 1)
    _spread(scale, case, _pattern(case), out)


def fill_expected(case: Case, seed: int, out: Array) -> None:
    """Write the sum over all ranks into ``out``."""
    weights = np.arange(1, case.ranks + 1, dtype=np.int64)
    scale = (masks_of(case, seed) * weights[:, None]).sum(axis=0).astype(case.dtype)
    _spread(scale, case, _pattern(case), out)
