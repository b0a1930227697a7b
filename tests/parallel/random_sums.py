"""One rank of a job that sums random sparse tensors and compares each result with the sum in rank order."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
from support import Array, allreduce, assert_same_bits, on_each_rank, rank_order_sum

from hvd_omniccl import stats

STEPS = 30


def main() -> None:
    hvd.init()
    for step in range(STEPS):

        def make(rank: int, step: int = step) -> Array:
            rng = np.random.default_rng((step, rank))
            values = rng.standard_normal((3000, 32)).astype(np.float32)
            values[rng.random(3000) < 0.9] = 0.0
            return values

        arrays = on_each_rank(make)
        assert_same_bits(allreduce(arrays[hvd.rank()], name=f"step{step % 3}"), rank_order_sum(arrays))
    assert stats().operations == STEPS
    assert not stats().passed_on
    print("DONE", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
