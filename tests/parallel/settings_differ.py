"""One rank of a job in which rank 1 has another value: `settings_differ.py SETTING VALUE VALUE_OF_RANK_1`.

Says for each kind of call what it returned, or how it was refused.
"""

from __future__ import annotations

import os
import sys

import tensorflow as tf


def main() -> None:
    name, others, second = sys.argv[1:]
    os.environ[name] = second if os.environ["HOROVOD_RANK"] == "1" else others

    import horovod.tensorflow as hvd

    from hvd_omniccl import omniccl

    def compressed(value: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(value, op=hvd.Sum, compression=omniccl)

    def plain(value: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(value, op=hvd.Sum)

    @tf.function
    def plain_in_graph(value: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(value, op=hvd.Sum)

    hvd.init()
    for reduce in (compressed, compressed, plain, plain_in_graph):  # a failure is final, and says the same again
        what = getattr(reduce, "__name__", "plain_in_graph")
        try:
            print(f"{what} RETURNED {reduce(tf.ones(3)).numpy().tolist()}", flush=True)
        except tf.errors.FailedPreconditionError as error:
            # TensorFlow puts the place in the program, over several lines, before our text.
            print(f"{what} REFUSED {' '.join(error.message.split())}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
