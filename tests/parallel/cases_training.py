"""Training: the same weights on every rank, in every run, and those of stock Horovod."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow as tf
from case import case
from support import Array, assert_same_bits, counted, same_on_all_ranks

from hvd_omniccl import omniccl

STEPS = 20
BATCH = 32
IDS = 500
ALL_SIZES = (1, 2, 3, 4)


def make_model() -> tf.keras.Model:
    """Two embeddings, of which a batch touches little, and dense layers."""
    tf.keras.utils.set_random_seed(3)
    user, item = (tf.keras.Input((), dtype=tf.int64) for _ in range(2))
    embeddings = [tf.keras.layers.Embedding(IDS, 24)(one) for one in (user, item)]
    hidden = tf.keras.layers.Dense(32, activation="tanh")(tf.keras.layers.Concatenate()(embeddings))
    return tf.keras.Model([user, item], tf.keras.layers.Dense(1)(hidden))


def make_data() -> tuple[list[Array], Array]:
    rng = np.random.default_rng((17, hvd.rank()))
    ids = [rng.integers(IDS, size=STEPS * BATCH) for _ in range(2)]
    return ids, rng.standard_normal(STEPS * BATCH).astype(np.float32)


def train_with_keras(compression: Any) -> list[Array]:
    model = make_model()
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer = hvd_keras.DistributedOptimizer(optimizer, compression=compression, sparse_as_dense=True)
    model.compile(optimizer, loss="mse")
    ids, labels = make_data()
    model.fit(ids, labels, batch_size=BATCH, shuffle=False, verbose=0)
    weights: list[Array] = model.get_weights()
    return weights


def train_with_tape(compression: Any) -> list[Array]:
    model = make_model()
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    ids, labels = make_data()

    @tf.function
    def step(user: tf.Tensor, item: tf.Tensor, label: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model([user, item])[:, 0] - label))
        tape = hvd.DistributedGradientTape(tape, compression=compression, sparse_as_dense=True)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for begin in range(0, STEPS * BATCH, BATCH):
        part = slice(begin, begin + BATCH)
        step(*(tf.constant(one[part]) for one in (*ids, labels)))
    weights: list[Array] = model.get_weights()
    return weights


def check_training(train: Any) -> None:
    with counted() as change:
        first = train(omniccl)
    variables = len(make_model().trainable_variables)
    # With one rank Horovod's optimizers reduce nothing at all.
    assert change.tensors == (STEPS * variables if hvd.size() > 1 else 0)
    data = b"".join(weight.tobytes() for weight in first)
    assert same_on_all_ranks(data)
    again = b"".join(weight.tobytes() for weight in train(omniccl))
    assert again == data, "two runs end with other bits"
    for ours, stock in zip(first, train(hvd.Compression.none)):
        np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-7)


@case(*ALL_SIZES, mpi=True)
def keras_training() -> None:
    check_training(train_with_keras)


@case(*ALL_SIZES)
def tape_training() -> None:
    check_training(train_with_tape)


@case(2, mpi=True)
def first_gradients_of_two_ranks_have_the_bits_of_stock() -> None:
    model = make_model()
    ids, labels = make_data()

    def gradients(compression: Any) -> list[Array]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model([one[:BATCH] for one in ids])[:, 0] - labels[:BATCH]))
        tape = hvd.DistributedGradientTape(tape, compression=compression, sparse_as_dense=True)
        return [one.numpy() for one in tape.gradient(loss, model.trainable_variables)]

    for ours, stock in zip(gradients(omniccl), gradients(hvd.Compression.none)):
        # Stock leaves 0 * 0.5 of two zeros as it is, and so do we: no exception for -0.0.
        assert_same_bits(ours, stock)


@case(2, 3)
def sparse_gradients_bypass_us_unless_made_dense() -> None:
    ids, labels = make_data()
    steps = 3
    part = slice(steps * BATCH)

    def train(compression: Any, sparse_as_dense: bool) -> list[Array]:
        model = make_model()
        optimizer = hvd_keras.DistributedOptimizer(
            tf.keras.optimizers.SGD(0.05), compression=compression, sparse_as_dense=sparse_as_dense
        )
        model.compile(optimizer, loss="mse")
        model.fit([one[part] for one in ids], labels[part], batch_size=BATCH, shuffle=False, verbose=0)
        weights: list[Array] = model.get_weights()
        return weights

    stock = train(hvd.Compression.none, True)
    for sparse_as_dense, variables in ((False, 4), (True, 6)):
        with counted() as change:
            weights = train(omniccl, sparse_as_dense)
        assert change.tensors == steps * variables
        for ours, dense in zip(weights, stock):
            np.testing.assert_allclose(ours, dense, rtol=1e-5, atol=1e-7)
