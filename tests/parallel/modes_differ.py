"""One rank of a job in which rank 1 has another mode: `modes_differ.py MODE MODE_OF_RANK_1`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    others, second = sys.argv[1:]
    os.environ["OMNICCL_INTERCEPT"] = second if os.environ["HOROVOD_RANK"] == "1" else others

    import horovod.tensorflow as hvd
    import tensorflow as tf

    from hvd_omniccl import omniccl

    hvd.init()
    for _ in range(2):  # the failure is final, and says the same again
        try:
            hvd.allreduce(tf.ones(3), compression=omniccl)
        except tf.errors.FailedPreconditionError as error:
            print(f"REFUSED: {' '.join(error.message.split())}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
