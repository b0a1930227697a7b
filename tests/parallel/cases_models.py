"""What real models send: one of embeddings on MovieLens, and one whose table is used twice."""

from __future__ import annotations

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from case import case
from support import Array, counted, kernel_bytes_sent
from tied_table import gradient_of, tied_table

from hvd_omniccl import omniccl

sys.path.append(str(Path(__file__).parents[2] / "examples"))


def ring_bytes(size: int) -> float:
    """What a rank sends in a dense ring allreduce of `size` bytes."""
    return 2 * size * (hvd.size() - 1) / hvd.size()


def gathered_bytes(slices: tf.IndexedSlices) -> int:
    """What a rank sends in a ring allgather of values and indices."""
    return int(slices.values.numpy().nbytes + slices.indices.numpy().nbytes) * (hvd.size() - 1)


def batches(count: int, size: int) -> tuple[tf.keras.Model, list[tuple[Array, Array, Array]]]:
    """The model of the example at its default dimensions, and this rank's first batches."""
    from keras_ncf_movielens import NEGATIVES, Interactions, neumf

    data = Interactions(np.random.default_rng(1))
    rng = np.random.default_rng((1, hvd.rank()))
    share = len(data.train_user) // hvd.size()
    mine = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    user = np.repeat(data.train_user[mine], 1 + NEGATIVES)
    item = data.unrated(user, rng)
    item[:: 1 + NEGATIVES] = data.train_item[mine]
    label = (np.arange(len(user)) % (1 + NEGATIVES) == 0).astype(np.float32)
    chosen = rng.permutation(len(user))[: count * size].reshape(count, size)
    tf.keras.utils.set_random_seed(1)
    model = neumf(len(data.users), len(data.items), dim=32)
    return model, [(user[one], item[one], label[one]) for one in chosen]


@case(4)
def a_recommender_sends_less_than_dense_and_than_gathered_slices() -> None:
    model, steps = batches(count=5, size=256)
    variables = model.trainable_variables
    optimizer = tf.keras.optimizers.Adam(0.001)
    dense = ring_bytes(sum(variable.numpy().nbytes for variable in variables))
    ours, kernel, gathered = [], [], []
    for user, item, label in steps:
        with tf.GradientTape() as plain:
            loss = tf.reduce_mean(tf.keras.losses.binary_crossentropy(label[:, np.newaxis], model((user, item))))
        gradients = plain.gradient(loss, variables)
        as_slices = [one for one in gradients if isinstance(one, tf.IndexedSlices)]
        assert len(as_slices) == 4
        others = sum(one.numpy().nbytes for one in gradients if not isinstance(one, tf.IndexedSlices))
        gathered.append(sum(gathered_bytes(one) for one in as_slices) + ring_bytes(others))

        before = kernel_bytes_sent()
        with counted() as change:
            reduced = hvd.grouped_allreduce([tf.convert_to_tensor(one) for one in gradients], compression=omniccl)
        kernel.append(kernel_bytes_sent() - before)
        ours.append(change.bytes_sent)
        assert change.reasons() == {}
        optimizer.apply_gradients(zip(reduced, variables))
    figures = {"omniccl": ours, "kernel": kernel, "gathered": gathered, "dense": dense}
    assert max(kernel) < min(gathered), figures
    assert max(kernel) < dense / 5, figures
    assert abs(sum(ours) - sum(kernel)) <= 0.05 * sum(kernel), figures


@case(2, 4)
def a_table_used_for_input_and_output() -> None:
    with counted() as change:
        gradient = gradient_of(tied_table(), omniccl)
    expected = np.full(gradient.shape, 0.5, np.float32)
    expected[1], expected[2] = 2.5, 1.5
    assert np.array_equal(gradient.numpy(), expected)
    assert (change.tensors, change.reasons()) == (1, {})
