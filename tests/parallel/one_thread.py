"""One rank of a job in which TensorFlow has one thread for all operations and one inside of each."""

from __future__ import annotations

import threading
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hvd_omniccl import omniccl, stats

GRADIENTS = 32
STEPS = 5
LATE_SECONDS = 3.0
TICK_SECONDS = 0.01


def reduce_in_other_orders() -> None:
    """The last rank has the operations of its graph in the reverse order."""
    indices = list(range(1, GRADIENTS + 1))
    if hvd.rank() == hvd.size() - 1:
        indices.reverse()

    @tf.function
    def reduce(scale: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            str(index): hvd.allreduce(
                tf.fill((index, 20), scale * index), compression=omniccl, op=hvd.Sum, name=f"gradient/{index}"
            )
            for index in indices
        }

    ranks = hvd.size() * (hvd.size() + 1) / 2
    for step in range(1, STEPS + 1):
        results = reduce(tf.constant(float(step * (hvd.rank() + 1))))
        for index in indices:
            assert np.all(results[str(index)].numpy() == step * index * ranks)
    assert stats().tensors == STEPS * GRADIENTS


def count_while_waiting() -> None:
    """Other Python threads run on while one waits for a rank that is late."""
    ticks = 0
    ended = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not ended.wait(TICK_SECONDS):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    if hvd.rank() == hvd.size() - 1:
        time.sleep(LATE_SECONDS)  # it is late: what the others wait for
    before = ticks
    assert hvd.allreduce(tf.ones(3), compression=omniccl, op=hvd.Sum).numpy().tolist() == [hvd.size()] * 3
    counted = ticks - before
    ended.set()
    thread.join()
    if hvd.rank() < hvd.size() - 1:
        # A tenth of the ticks that fit in: the machine may be busy.
        assert counted > 0.1 * LATE_SECONDS / TICK_SECONDS, counted


def main() -> None:
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    reduce_in_other_orders()
    count_while_waiting()
    print("DONE", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
