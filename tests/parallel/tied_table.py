"""A model's table that is used twice: for the look-up of its input, and for the projection of its output."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

ROWS, COLUMNS = 50_000, 64


def tied_table() -> tf.Variable:
    return tf.Variable(tf.zeros((ROWS, COLUMNS)))


def gradient_of(table: tf.Variable, compression: Any) -> tf.Tensor:
    """The averaged gradient: 0.5 everywhere, plus 2 in row 1 and 1 in row 2. The same on all ranks."""
    with tf.GradientTape() as plain:
        looked_up = tf.reduce_sum(tf.gather(table, [1, 1, 2]))
        projected = 0.5 * tf.reduce_sum(table)
        loss = looked_up + projected
    tape = hvd.DistributedGradientTape(plain, compression=compression, sparse_as_dense=True)
    return tape.gradient(loss, [table])[0]
