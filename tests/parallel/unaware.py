"""One rank of a training job that never imports hvd_omniccl, and says what became of it.

    unaware.py train  trains and prints a hash of the weights
    unaware.py join   reduces while the last rank has joined

Run by python, or by `omniccl run`.
"""

from __future__ import annotations

import hashlib
import sys

import horovod.tensorflow as hvd_tf
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from horovod.tensorflow import mpi_ops


def train() -> None:
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [tf.keras.layers.Embedding(200, 24, input_length=3), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)]
    )
    model.build((None, 3))
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.01), sparse_as_dense=True)
    model.compile(optimizer=optimizer, loss="mse")
    generator = np.random.default_rng(hvd.rank())
    ids = generator.integers(0, 200, (64, 3))
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    model.fit(ids, ids.sum(axis=1) / 100.0, batch_size=16, epochs=2, verbose=0, callbacks=callbacks)
    weights = b"".join(weight.tobytes() for weight in model.get_weights())
    print(f"WEIGHTS {hashlib.sha256(weights).hexdigest()}", flush=True)


def join() -> None:
    if hvd.rank() < hvd.size() - 1:
        present = hvd.size() - 1
        for step in range(1, 4):
            value = tf.fill((100, 50), tf.cast(step, tf.float32))
            for reduce in (hvd_tf.allreduce, tf.function(hvd_tf.allreduce)):
                assert np.all(reduce(value, op=hvd.Sum) == step * present)
                assert np.all(reduce(tf.cast(value, tf.int64), op=hvd.Sum) == step * present)
            # A call that no wrapper of ours sees: it has no tag.
            assert np.all(mpi_ops._allreduce(value, op=hvd.Sum) == step * present)
    mpi_ops.join()
    print("JOINED", flush=True)


def main() -> None:
    hvd.init()
    {"train": train, "join": join}[sys.argv[1]]()
    ours = sys.modules.get("hvd_omniccl")
    took, left = (ours.stats().tensors, dict(ours.stats().passed_on)) if ours else (0, {})
    print(f"TOOK {took}, LEFT {left}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
