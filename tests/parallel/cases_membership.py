"""Process sets, and ranks that have joined."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow as tf
from case import case
from support import allreduce, counted

from hvd_omniccl import omniccl


@case(4, mpi=False)
def two_process_sets_side_by_side() -> None:
    sets = [hvd.add_process_set([0, 2]), hvd.add_process_set([1, 3])]
    own = sets[hvd.rank() % 2]
    value = np.full(600, hvd.rank() + 1, np.float32)
    for _ in range(3):
        with counted() as change:
            assert np.all(allreduce(value, process_set=own) == [4, 6][hvd.rank() % 2])
            assert np.all(allreduce(value, process_set=own, op=hvd.Average) == [2, 3][hvd.rank() % 2])
        assert change.operations == 2
        assert np.all(allreduce(value) == 10)  # the global one is not disturbed
    for one in sets:
        assert hvd.remove_process_set(one)


@case(3)
def a_process_set_whose_id_comes_back() -> None:
    value = np.full(8, hvd.rank() + 1, np.float32)
    for members in ([0, 1], [1, 2], [0, 2]):
        one = hvd.add_process_set(members)
        if hvd.rank() in members:
            assert np.all(allreduce(value, process_set=one) == sum(members) + 2)
        assert hvd.remove_process_set(one)


@case(3)
def a_rank_outside_of_the_process_set_is_refused() -> None:
    process_set = hvd.add_process_set([0, 1])
    if hvd.rank() in (0, 1):
        assert np.all(allreduce(np.ones(9, np.float32), process_set=process_set) == 2)
    else:
        try:
            result = allreduce(np.ones(9, np.float32), process_set=process_set)
        except tf.errors.OpError as error:
            assert "process set" in str(error), error
        else:
            raise AssertionError(f"a rank outside got {result}")
    assert hvd.remove_process_set(process_set)


@case(3)
def gradients_over_a_process_set() -> None:
    members = [0, 2]
    process_set = hvd.add_process_set(members)
    average = sum(member + 1 for member in members) / len(members)
    number = hvd.rank() + 1.0

    def with_tape(groups: int | None) -> Any:
        variables = [tf.Variable(tf.zeros(size)) for size in (30, 5)]
        with tf.GradientTape() as plain:
            loss = tf.add_n([number * tf.reduce_sum(variable) for variable in variables])
        tape = hvd.DistributedGradientTape(plain, compression=omniccl, process_set=process_set, groups=groups)
        return tape.gradient(loss, variables)

    def with_optimizer(groups: int | None) -> Any:
        variables = [tf.Variable(tf.zeros(size)) for size in (30, 5)]
        optimizer = hvd_keras.DistributedOptimizer(
            tf.keras.optimizers.SGD(1.0), compression=omniccl, process_set=process_set, groups=groups
        )
        with tf.GradientTape() as tape:
            loss = tf.add_n([number * tf.reduce_sum(variable) for variable in variables])
        optimizer.minimize(loss, variables, tape=tape)
        return [-variable for variable in variables]

    member = hvd.rank() in members
    for reduce in (with_tape, with_optimizer):
        for groups in (None, 1):
            with counted() as change:
                for gradient in reduce(groups):
                    assert np.all(gradient.numpy() == (average if member else number))
            assert change.tensors == (2 if member else 0)
            assert change.reasons() == {}
    assert hvd.remove_process_set(process_set)


@case(2, 3)
def joined_ranks_count_as_zeros() -> None:
    # The one case that joins: stock Horovod hangs at the second join of a process.
    share = np.float32(1 / hvd.size())
    table, kernel = tf.Variable(tf.zeros((100, 24))), tf.Variable(tf.zeros((24, 1)))

    @tf.function
    def gradients(row: tf.Tensor, one: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as plain:
            loss = one * (tf.reduce_sum(tf.gather(table, row)) + tf.reduce_sum(kernel))
        tape = hvd.DistributedGradientTape(plain, compression=omniccl, sparse_as_dense=True)
        return list(tape.gradient(loss, [table, kernel]))

    def check_gradients(present: int) -> None:
        of_table, of_kernel = gradients(tf.constant([7]), tf.constant(1.0))
        assert np.all(of_kernel.numpy() == np.float32(present) * share)
        assert np.all(of_table.numpy()[7] == np.float32(present) * share)
        assert np.count_nonzero(of_table.numpy()) == 24

    with counted() as change:
        check_gradients(present=hvd.size())
        if hvd.rank() == 0:  # the others are a batch short
            check_gradients(present=1)
            for step in range(1, 6):
                value = np.full((100, 50), step, np.float32)
                assert np.all(allreduce(value, name="joined") == step)
                assert np.all(allreduce(value, name="joined", op=hvd.Average) == np.float32(step) * share)
        assert hvd.join() in range(hvd.size())
    assert change.tensors == 2 + 2 + 10  # on a rank that has joined too
    assert change.reasons() == {}
    assert np.all(allreduce(np.ones(4, np.float32)) == hvd.size())
