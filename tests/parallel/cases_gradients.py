"""Every way to wrap gradients: all options give the bits of the sum in rank order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import horovod.keras as hvd_plain_keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow as tf
from case import case
from support import Array, assert_same_bits, counted, on_each_rank, rank_order_sum, scaled

from hvd_omniccl import omniccl

SHAPES = ((40, 32), (7, 5), (300,), (3, 3, 8, 16), ())
Gradients = list[Array]


def gradients_of(rank: int, seed: int = 1) -> Gradients:
    """A gradient for each shape, with rows of zeros where there are rows."""
    rng = np.random.default_rng((23, seed, rank))
    made = []
    for shape in SHAPES:
        gradient = rng.standard_normal(shape).astype(np.float32)
        rows = rng.random(shape[:1]) < 0.3
        made.append(np.where(rows.reshape(rows.shape + (1,) * (len(shape) - 1)), gradient, np.float32(0)))
    return made


def reduced(per_rank: Sequence[Gradients], prescale: float = 1.0, postscale: float = 1.0) -> Gradients:
    """What each gradient becomes, from those of all ranks."""
    return [
        scaled(rank_order_sum([scaled(gradient, prescale) for gradient in of_ranks]), postscale)
        for of_ranks in zip(*per_rank)
    ]


def averaged(per_rank: Sequence[Gradients], predivide: float = 1.0) -> Gradients:
    return reduced(per_rank, 1.0 / predivide, predivide / len(per_rank))


def make_variables() -> list[tf.Variable]:
    return [tf.Variable(tf.zeros(shape), name=f"variable_{index}") for index, shape in enumerate(SHAPES)]


def loss_with(variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """A loss with these gradients; a function's arguments, since Horovod's operation on a constant is folded."""
    return tf.add_n([tf.reduce_sum(variable * gradient) for variable, gradient in zip(variables, gradients)])


def assert_all_same_bits(actual: Sequence[Any], expected: Sequence[Array]) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        assert_same_bits(one.numpy(), other)


def eagerly_and_as_function(function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    return function, tf.function(function, autograph=False)


# ---- The tape


def check_tape(expected: Gradients, generic_names: bool = False, **options: Any) -> None:
    """Reduces once eagerly and twice in a function. `options` may be made from the variables."""
    variables = make_variables()
    arguments = {name: value(variables) if callable(value) else value for name, value in options.items()}

    def reduce(*gradients: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as plain:
            loss = loss_with(variables, gradients)
        tape = hvd.DistributedGradientTape(plain, compression=omniccl, **arguments)
        return list(tape.gradient(loss, variables, use_generic_names=generic_names))

    mine = [tf.constant(gradient) for gradient in gradients_of(hvd.rank())]
    for call in eagerly_and_as_function(reduce):
        for _ in range(2):
            with counted() as change:
                assert_all_same_bits(call(*mine), expected)
            assert change.tensors == len(SHAPES)
            assert change.reasons() == {}


@case(2, 3)
def a_tape_with_all_its_options() -> None:
    per_rank = on_each_rank(gradients_of)
    average = averaged(per_rank)
    check_tape(average)
    check_tape(average, generic_names=True)
    check_tape(average, process_set=hvd.global_process_set)
    check_tape(reduced(per_rank), op=hvd.Sum)
    check_tape(averaged(per_rank, predivide=4.0), gradient_predivide_factor=4.0)


@case(2, 3)
def a_tape_with_groups() -> None:
    per_rank = on_each_rank(gradients_of)
    average = averaged(per_rank)
    check_tape(average, num_groups=2)
    for groups in (1, 2, len(SHAPES)):
        check_tape(average, groups=groups)
    check_tape(average, groups=lambda variables: [[variables[4], variables[0]], [variables[3]]])
    check_tape(average, groups=2, generic_names=True)
    check_tape(averaged(per_rank, predivide=3.0), groups=2, gradient_predivide_factor=3.0)


@case(2, 3)
def a_gradient_that_is_none_stays_at_its_place() -> None:
    used, unused, also_used = (tf.Variable(tf.zeros(size), name=f"of_{size}") for size in (2, 3, 4))
    sources = [used, unused, also_used]
    base = 2.0 * hvd.rank() + 1.0
    average = hvd.size()  # of 1, 3, 5, …

    def reduce(value: tf.Tensor, groups: Any) -> list[Any]:
        with tf.GradientTape() as plain:
            loss = value * tf.reduce_sum(used) + (value + 1.0) * tf.reduce_sum(also_used)
        tape = hvd.DistributedGradientTape(plain, compression=omniccl, groups=groups)
        return list(tape.gradient(loss, sources))

    for groups in (None, 1, 2, [[unused, also_used]]):
        for call in eagerly_and_as_function(lambda value, groups=groups: reduce(value, groups)):
            with counted() as change:
                first, none, last = call(tf.constant(base))
            assert none is None
            assert first.numpy().tolist() == [average] * 2
            assert last.numpy().tolist() == [average + 1] * 4
            assert change.tensors == 2


@case(2, 3)
def dense_and_sparse_gradients_in_groups() -> None:
    dense = tf.Variable(tf.zeros((2, 2)), name="dense")
    table = tf.Variable(tf.zeros((4, 2)), name="table")

    def reduce(value: tf.Tensor, row: tf.Tensor, groups: Any) -> list[tf.Tensor]:
        with tf.GradientTape() as plain:
            loss = value * tf.reduce_sum(dense) + tf.reduce_sum(tf.gather(table, row))
        tape = hvd.DistributedGradientTape(plain, compression=omniccl, sparse_as_dense=True, groups=groups)
        return list(tape.gradient(loss, [dense, table]))

    for groups in (None, 1, 2, [[dense, table]]):
        for call in eagerly_and_as_function(lambda value, row, groups=groups: reduce(value, row, groups)):
            with counted() as change:
                matrix, rows = call(tf.constant(1.0 + 2.0 * hvd.rank()), tf.constant([0 if hvd.rank() == 0 else 3]))
            share = np.float32(1 / hvd.size())
            assert np.all(matrix.numpy() == share * np.float32(hvd.size() ** 2))
            assert np.array_equal(rows.numpy()[:, 0], share * np.float32([1, 0, 0, hvd.size() - 1]))
            assert change.tensors == 2
            assert change.reasons() == {}


# ---- Keras optimizers

KERAS_WRAPPERS = (hvd_keras.DistributedOptimizer, hvd_plain_keras.DistributedOptimizer, hvd.DistributedOptimizer)
KERAS_OPTIMIZERS = (tf.keras.optimizers.SGD, tf.keras.optimizers.legacy.SGD)


def check_keras_optimizer(
    wrapper: Callable[..., Any],
    make_optimizer: Callable[..., Any],
    expected: Gradients,
    passes: int = 1,
    **options: Any,
) -> None:
    """One step of gradient descent, with rate 1 and from zero, leaves the negated gradients in the variables."""
    mine = [[tf.constant(one) for one in gradients_of(hvd.rank(), seed=seed)] for seed in range(1, passes + 1)]
    for as_function in (False, True):
        variables = make_variables()
        arguments = {name: value(variables) if callable(value) else value for name, value in options.items()}
        if passes > 1:
            arguments["backward_passes_per_step"] = passes
        optimizer = wrapper(make_optimizer(1.0), compression=omniccl, **arguments)

        def step(*gradients: tf.Tensor, optimizer: Any = optimizer, variables: Any = variables) -> None:
            with tf.GradientTape() as tape:
                loss = loss_with(variables, gradients)
            optimizer.minimize(loss, variables, tape=tape)

        call = tf.function(step, autograph=False) if as_function else step
        with counted() as change:
            for gradients in mine:
                call(*gradients)
        assert_all_same_bits(variables, [np.float32(0) - gradient for gradient in expected])
        assert change.tensors == len(SHAPES)
        assert change.reasons() == {}


@case(2, 3, mpi=True)
def keras_optimizers_of_all_packages() -> None:
    average = averaged(on_each_rank(gradients_of))
    for make_optimizer in KERAS_OPTIMIZERS:
        for wrapper in KERAS_WRAPPERS:
            check_keras_optimizer(wrapper, make_optimizer, average)


@case(2, 3)
def keras_optimizers_with_all_their_options() -> None:
    per_rank = on_each_rank(gradients_of)
    average = averaged(per_rank)
    new, legacy = KERAS_OPTIMIZERS
    with_keras = hvd_keras.DistributedOptimizer
    check_keras_optimizer(with_keras, new, reduced(per_rank), op=hvd.Sum)
    check_keras_optimizer(with_keras, new, average, num_groups=2)
    check_keras_optimizer(with_keras, legacy, average, groups=1)
    check_keras_optimizer(
        with_keras, new, average, groups=lambda variables: [[variables[2], variables[0]], [variables[4]]]
    )
    check_keras_optimizer(with_keras, new, average, name="Mine", process_set=hvd.global_process_set)
    check_keras_optimizer(
        hvd_plain_keras.DistributedOptimizer, new, averaged(per_rank, 2.5), gradient_predivide_factor=2.5
    )


@case(2, 3)
def keras_optimizers_that_reduce_every_other_pass() -> None:
    per_rank = [
        [first + second for first, second in zip(gradients_of(rank, seed=1), gradients_of(rank, seed=2))]
        for rank in range(hvd.size())
    ]
    average = averaged(per_rank)
    new, _ = KERAS_OPTIMIZERS
    check_keras_optimizer(hvd_keras.DistributedOptimizer, new, average, passes=2)
    check_keras_optimizer(
        hvd.DistributedOptimizer,
        new,
        [gradient / np.float32(2) for gradient in average],
        passes=2,
        average_aggregated_gradients=True,
    )


# ---- Optimizers of TensorFlow 1


def check_session(expected: Gradients, passes: int = 1, **options: Any) -> None:
    """A graph and a session, as TensorFlow 1 had them."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = make_variables()
        arguments = {name: value(variables) if callable(value) else value for name, value in options.items()}
        placeholders = [tf.compat.v1.placeholder(tf.float32, shape) for shape in SHAPES]
        optimizer = hvd.DistributedOptimizer(
            tf.compat.v1.train.GradientDescentOptimizer(1.0),
            compression=omniccl,
            backward_passes_per_step=passes,
            **arguments,
        )
        train = optimizer.minimize(loss_with(variables, placeholders), var_list=variables)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.local_variables_initializer())
        with counted() as change:
            for seed in range(1, passes + 1):
                session.run(train, dict(zip(placeholders, gradients_of(hvd.rank(), seed))))
        assert change.tensors == len(SHAPES)
        assert change.reasons() == {}
        for actual, gradient in zip(session.run(variables), expected):
            assert_same_bits(np.asarray(actual), np.asarray(np.float32(0) - gradient))


@case(2, 3)
def optimizers_in_a_session() -> None:
    per_rank = on_each_rank(gradients_of)
    average = averaged(per_rank)
    check_session(average)
    check_session(reduced(per_rank), op=hvd.Sum)
    check_session(average, groups=2)
    check_session(average, groups=lambda variables: [[variables[3], variables[1]]])
    check_session(averaged(per_rank, predivide=2.0), gradient_predivide_factor=2.0)
    both = [[a + b for a, b in zip(gradients_of(rank, 1), gradients_of(rank, 2))] for rank in range(hvd.size())]
    check_session(averaged(both), passes=2)
    halves = [gradient / np.float32(2) for gradient in averaged(both)]
    check_session(halves, passes=2, average_aggregated_gradients=True)


@case(2, 3)
def optimizers_of_tensorflow_1_run_eagerly() -> None:
    variables = make_variables()
    optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0), compression=omniccl)
    gradients = [tf.constant(gradient) for gradient in gradients_of(hvd.rank())]
    with counted() as change:
        optimizer.minimize(lambda: loss_with(variables, gradients), var_list=variables)
    average = averaged(on_each_rank(gradients_of))
    assert_all_same_bits(variables, [np.float32(0) - gradient for gradient in average])
    assert change.tensors == len(SHAPES)
    assert change.reasons() == {}
