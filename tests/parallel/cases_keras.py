"""What Keras users have around the optimizer: callbacks, layers, saved models, mixed precision."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import horovod.keras as hvd_plain_keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow as tf
from case import case
from support import Array, counted, same_on_all_ranks

from hvd_omniccl import omniccl
from hvd_omniccl.callbacks import ReductionWatch

STEPS = 4
BATCH = 8


def make_model() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(hvd.rank())  # the callback makes all ranks begin alike
    return tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(50, 16, input_length=3),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10, activation="tanh"),
            tf.keras.layers.Dense(1),
        ]
    )


def make_data() -> tuple[Array, Array]:
    rng = np.random.default_rng((31, hvd.rank()))
    ids = rng.integers(50, size=(STEPS * BATCH, 3))
    return ids, rng.standard_normal(STEPS * BATCH).astype(np.float32)


def distributed(optimizer: Any, **options: Any) -> Any:
    return hvd_keras.DistributedOptimizer(optimizer, compression=omniccl, sparse_as_dense=True, **options)


def assert_equal_weights(model: tf.keras.Model) -> None:
    assert same_on_all_ranks(b"".join(weight.tobytes() for weight in model.get_weights()))


@case(2, 3)
def callbacks_stay_with_horovod() -> None:
    model = make_model()
    model.compile(distributed(tf.keras.optimizers.legacy.SGD(0.01, momentum=0.9)), loss="mse")
    seen: list[float] = []
    callbacks = [
        hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd_keras.callbacks.MetricAverageCallback(),
        hvd_keras.callbacks.LearningRateWarmupCallback(initial_lr=0.01, warmup_epochs=2, steps_per_epoch=STEPS),
        hvd_keras.callbacks.LearningRateScheduleCallback(0.01, multiplier=0.5, start_epoch=2),
        tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["loss"])),
    ]
    epochs = 3
    with counted() as change:
        model.fit(*make_data(), batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    assert change.tensors == epochs * STEPS * len(model.trainable_variables)
    # Metrics alone: one reduction of one loss at each epoch's end. Broadcasts are no reductions.
    assert change.reasons() == {"not marked": epochs}
    assert same_on_all_ranks(np.float64(seen).tobytes())
    assert_equal_weights(model)


@case(2, 3)
def averaged_metrics_are_right_and_not_ours() -> None:
    logs = {"loss": 1.0 + 2.0 * hvd.rank()}
    callback = hvd_keras.callbacks.MetricAverageCallback()
    with counted() as change:
        callback.on_epoch_end(0, logs)
    assert logs == {"loss": float(hvd.size())}
    assert change.tensors == 0


@case(2, 3)
def synchronised_batch_normalisation_is_right_and_not_ours() -> None:
    layer = hvd.SyncBatchNormalization(momentum=0.0)
    with counted() as change:
        output = layer(tf.fill((8, 4), 2.0 * hvd.rank()), training=True)
    inputs = 2.0 * np.arange(hvd.size())
    normal = (inputs - inputs.mean()) / inputs.std()
    np.testing.assert_allclose(output, np.full((8, 4), normal[hvd.rank()]), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(layer.moving_mean, np.full(4, inputs.mean()), rtol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, np.full(4, inputs.var()), rtol=1e-6)
    assert change.tensors == 0
    assert change.reasons() == {"not marked": 1}


@case(2, 3)
def values_reduced_through_keras_are_ours_on_request() -> None:
    for compression, operations in ((omniccl, 1), (hvd_keras.Compression.none, 0)):
        for package in (hvd_keras, hvd_plain_keras):
            with counted() as change:
                result = package.allreduce([1.0 + hvd.rank(), 4.0], name="value", compression=compression)
            assert np.asarray(result).tolist() == [(hvd.size() + 1) / 2, 4.0]
            assert change.operations == operations


def saved_on_rank_0(model: tf.keras.Model) -> str:
    """The path of the model's file, for all ranks."""
    path = None
    if hvd.rank() == 0:
        path = str(Path(tempfile.mkdtemp()) / "model.h5")
        model.save(path)
    return str(hvd.broadcast_object(path))


def check_loaded(package: Any, make_optimizer: Any, expected_tensors: int, **options: Any) -> None:
    """Trains a step, saves, loads on all ranks, and trains two more."""
    ids, labels = make_data()
    model = make_model()
    model.compile(package.DistributedOptimizer(make_optimizer(), compression=omniccl), loss="mse")
    broadcast = package.callbacks.BroadcastGlobalVariablesCallback(0)
    model.fit(ids[:BATCH], labels[:BATCH], batch_size=BATCH, verbose=0, callbacks=[broadcast])
    loaded = package.load_model(saved_on_rank_0(model), compression=omniccl, **options)
    with counted() as change:
        loaded.fit(ids[: 2 * BATCH], labels[: 2 * BATCH], batch_size=BATCH, shuffle=False, verbose=0)
    assert change.tensors == 2 * expected_tensors
    assert_equal_weights(loaded)


@case(2, 3)
def a_loaded_model_goes_on_with_us() -> None:
    def dense_adam(**config: Any) -> Any:
        return distributed(tf.keras.optimizers.Adam(**config))

    variables = len(make_model().trainable_variables)
    # Horovod's load_model does not make sparse gradients dense: that of the table passes us by.
    check_loaded(hvd_plain_keras, tf.keras.optimizers.legacy.Adam, variables - 1, legacy_opts=True)
    check_loaded(hvd_keras, tf.keras.optimizers.Adam, variables - 1)
    check_loaded(hvd_keras, tf.keras.optimizers.Adam, variables, custom_objects={"adam": dense_adam})


@case(2, 3)
def a_training_that_reduces_nothing_is_noticed() -> None:
    def warned_of(optimizer: Any, watch: ReductionWatch) -> list[str]:
        model = make_model()
        model.compile(optimizer, loss="mse")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(*make_data(), batch_size=BATCH, verbose=0, epochs=2, callbacks=[watch])
        return [text for one in caught if "hvd_omniccl" in (text := str(one.message))]

    sgd = tf.keras.optimizers.SGD
    assert warned_of(distributed(sgd(0.01)), ReductionWatch(steps=1)) == []
    [message] = warned_of(sgd(0.01), ReductionWatch(steps=STEPS + 1))
    assert f"nothing was reduced in the last {STEPS + 1} steps" in message
    assert "load_model" in message
    assert warned_of(sgd(0.01), ReductionWatch(steps=2 * STEPS + 1)) == []


# ---- Mixed precision


@contextmanager
def mixed_precision() -> Iterator[None]:
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


@case(2, 3)
def mixed_precision_with_a_fit() -> None:
    with mixed_precision():
        model = make_model()
        model.compile(distributed(tf.keras.optimizers.SGD(0.01)), loss="mse")
    assert isinstance(model.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    with counted() as change:
        model.fit(
            *make_data(),
            batch_size=BATCH,
            verbose=0,
            callbacks=[hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)],
        )
    assert change.tensors == STEPS * len(model.trainable_variables)
    assert change.reasons() == {}
    assert_equal_weights(model)


@case(2, 3)
def an_overflow_on_one_rank_skips_the_step_on_all() -> None:
    for make_optimizer in (tf.keras.optimizers.SGD, tf.keras.optimizers.legacy.SGD):
        variable = tf.Variable(tf.zeros(30))
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(distributed(make_optimizer(1.0)), initial_scale=8.0)

        def step(gradient: tf.Tensor, optimizer: Any = optimizer, variable: tf.Variable = variable) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable * gradient)
            optimizer.minimize(loss, [variable], tape=tape)

        call = tf.function(step, autograph=False)
        scales = []
        with counted() as change:
            for number in (1, 2, 3):
                overflow = number == 2 and hvd.rank() == hvd.size() - 1
                call(tf.constant([np.inf if overflow else 1.0] + [1.0] * 29))
                scales.append(float(optimizer.loss_scale))
        assert scales == [8.0, 4.0, 4.0]
        assert variable.numpy().tolist() == [-2.0] * 30  # of steps 1 and 3
        assert change.tensors == 3
        assert change.reasons() == {}


@case(2, 3)
def half_precision_variables() -> None:
    variable = tf.Variable(tf.zeros((5, 20), tf.float16))
    optimizer = distributed(tf.keras.optimizers.SGD(1.0))
    with counted() as change:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * tf.fill((5, 20), tf.cast(hvd.rank() + 1, tf.float16)))
        optimizer.minimize(loss, [variable], tape=tape)
    assert np.all(variable.numpy() == -(hvd.size() + 1) / 2)
    assert (change.tensors, change.reasons()) == (1, {})


# ---- Layers that stay local


def model_of_two_layers() -> tuple[tf.keras.Model, tf.keras.layers.Layer]:
    def layer() -> tf.keras.layers.Layer:
        return tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

    inputs = tf.keras.Input((1,))
    local, shared = layer(), layer()
    return tf.keras.Model(inputs, local(inputs) + shared(inputs)), local


@case(2, 3)
def local_layers_of_an_optimizer_are_not_reduced() -> None:
    model, local = model_of_two_layers()
    optimizer = hvd_plain_keras.PartialDistributedOptimizer(
        tf.keras.optimizers.SGD(1.0), compression=omniccl, local_layers=[local]
    )

    def step(value: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(value))  # its gradient is the value for both layers
        optimizer.minimize(loss, model.trainable_variables, tape=tape)

    value = 2.0 + 4.0 * hvd.rank()
    with counted() as change:
        tf.function(step, autograph=False)(tf.constant([[value]]))
    of_local, of_shared = (float(variable) for variable in model.trainable_variables)
    np.testing.assert_allclose(of_local, -value / hvd.size(), rtol=1e-6)  # Horovod divides it
    np.testing.assert_allclose(of_shared, -2.0 * hvd.size(), rtol=1e-6)
    assert (change.tensors, change.reasons()) == (1, {})


@case(2, 3)
def local_layers_of_a_tape_are_not_reduced() -> None:
    model, local = model_of_two_layers()

    def gradients(value: tf.Tensor, scale: bool) -> list[tf.Tensor]:
        with tf.GradientTape() as plain:
            loss = tf.reduce_sum(model(value))
        tape = hvd.PartialDistributedGradientTape(
            plain, compression=omniccl, local_layers=[local], scale_local_gradients=scale
        )
        return list(tape.gradient(loss, model.trainable_variables))

    value = 2.0 + 4.0 * hvd.rank()
    for call in (gradients, tf.function(gradients, autograph=False)):
        for scale, local_gradient in ((True, value / hvd.size()), (False, value)):
            with counted() as change:
                of_local, of_shared = (float(gradient) for gradient in call(tf.constant([[value]]), scale))
            np.testing.assert_allclose(of_local, local_gradient, rtol=1e-6)
            np.testing.assert_allclose(of_shared, 2.0 * hvd.size(), rtol=1e-6)
            assert (change.tensors, change.reasons()) == (1, {})
