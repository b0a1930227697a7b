"""What a reduction sends and copies."""

from __future__ import annotations

import os

import horovod.tensorflow as hvd
import numpy as np
from case import case
from support import Array, allreduce, assert_same_bits, counted, kernel_bytes_sent, rank_order_sum

BLOCK = 256
BLOCKS = 32 * 1024  # 32 MiB of float32
DENSITY = 0.01


def masks(shared: bool) -> Array:
    """Which blocks each rank holds, as (rank, block)."""
    rows = []
    for rank in range(hvd.size()):
        rng = np.random.default_rng((11, 0 if shared else rank))
        rows.append(rng.random(BLOCKS) < DENSITY)
    return np.stack(rows)


def sent_at_most(held: Array, rank: int) -> float:
    """The bound of the design: d, u and o are shares of blocks held here, anywhere and only here."""
    size = BLOCKS * BLOCK * 4
    ranks = len(held)
    here = held[rank].mean()
    union = held.any(axis=0).mean()
    only_here = (held[rank] & (held.sum(axis=0) == 1)).mean()
    return float(1.1 * size * (ranks - 1) / ranks * (here + union - only_here) + 0.001 * size + 64 * 1024)


def check_traffic(shared: bool) -> None:
    held = masks(shared)
    values = [np.random.default_rng((13, rank)).standard_normal(BLOCKS * BLOCK) for rank in range(hvd.size())]
    inputs = [np.where(np.repeat(mask, BLOCK), one, 0).astype(np.float32) for mask, one in zip(held, values)]
    allreduce(np.ones(1, np.float32))  # connections and handshakes are not the subject
    kernel = kernel_bytes_sent()
    with counted() as change:
        result = allreduce(inputs[hvd.rank()])
    kernel = kernel_bytes_sent() - kernel
    assert_same_bits(result, rank_order_sum(inputs))
    assert change.blocks == BLOCKS
    assert change.nonzero_blocks == int(held[hvd.rank()].sum())
    assert change.bytes_reduced == BLOCKS * BLOCK * 4
    bound = sent_at_most(held, hvd.rank())
    assert change.bytes_sent <= bound, (change.bytes_sent, bound)
    if os.environ["OMNICCL_TRANSPORT"] == "tcp":
        assert kernel <= bound, (kernel, bound)
        assert abs(change.bytes_sent - kernel) <= 0.05 * kernel, (change.bytes_sent, kernel)
    else:
        assert kernel < 0.01 * change.bytes_sent, kernel  # shared memory is no network


@case(2, 3, 4)
def traffic_with_random_blocks() -> None:
    check_traffic(shared=False)


@case(2, 3, 4)
def traffic_with_equal_blocks() -> None:
    check_traffic(shared=True)


@case(2, 3, 4)
def zeros_send_next_to_nothing() -> None:
    with counted() as change:
        allreduce(np.zeros(BLOCKS * BLOCK, np.float32))
    assert change.bytes_sent <= 64 * 1024
    assert change.nonzero_blocks == 0


@case(2, 3)
def dense_data_are_not_copied() -> None:
    size = 100 << 20
    mine = np.random.default_rng(hvd.rank()).standard_normal(size // 4).astype(np.float32)
    with counted() as change:
        allreduce(mine)
    assert change.bytes_reduced == size
    assert change.bytes_copied_send < 0.01 * size, change.bytes_copied_send
    assert change.bytes_copied_receive < 0.01 * size, change.bytes_copied_receive


@case(1)
def one_rank_sends_nothing() -> None:
    with counted() as change:
        assert allreduce(np.float32([1, 2])).tolist() == [1.0, 2.0]
    assert change.operations == 1
    assert change.bytes_sent == 0
