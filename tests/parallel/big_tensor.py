"""One rank that reduces a tensor of more than 2^31 elements: a 32-bit count would not do."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hvd_omniccl import omniccl, stats

ELEMENTS = (1 << 31) + 16
PIECE = 1 << 26


def main() -> None:
    hvd.init()
    zeros = tf.zeros(ELEMENTS - 1, tf.int8)
    value = tf.concat([zeros, tf.constant([hvd.rank() + 1], tf.int8)], axis=0)
    del zeros
    total = hvd.allreduce(value, compression=omniccl, op=hvd.Sum).numpy()
    assert total.shape == (ELEMENTS,)
    assert total[-1] == hvd.size() * (hvd.size() + 1) / 2
    assert sum(np.count_nonzero(total[begin : begin + PIECE]) for begin in range(0, ELEMENTS, PIECE)) == 1
    assert stats().bytes_reduced == ELEMENTS
    assert stats().nonzero_blocks == 1
    print("DONE", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
