"""One rank that reduces 480 elements and says in how many blocks."""

from __future__ import annotations

import os

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_omniccl import omniccl, stats


def main() -> None:
    hvd.init()
    assert hvd.allreduce(tf.ones(480), compression=omniccl, op=hvd.Sum).numpy().tolist() == [hvd.size()] * 480
    print(f"{stats().blocks} BLOCKS ON {os.environ['HOROVOD_HOSTNAME']}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
