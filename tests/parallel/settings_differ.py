"""One rank of a job in which rank 1 has another value of the setting that is given."""

from __future__ import annotations

import os
import sys

import tensorflow as tf


def one_line(message: str) -> str:
    """TensorFlow puts the place in the program, over several lines, before our text."""
    return " ".join(message.split())


def main() -> None:
    name, others, second = sys.argv[1:]
    os.environ[name] = second if os.environ["HOROVOD_RANK"] == "1" else others

    import horovod.tensorflow as hvd

    from hvd_omniccl import omniccl

    hvd.init()
    for _ in range(2):  # the failure is final, and says the same again
        try:
            hvd.allreduce(tf.ones(3), compression=omniccl)
        except tf.errors.FailedPreconditionError as error:
            print(f"REFUSED: {one_line(error.message)}", flush=True)
    assert hvd.allreduce(tf.ones(3), op=hvd.Sum).numpy().tolist() == [hvd.size()] * 3
    hvd.shutdown()


if __name__ == "__main__":
    main()
