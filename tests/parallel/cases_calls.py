"""The ways in which a program can call: eager and graph, single and grouped, with all options."""

from __future__ import annotations

import os
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from case import case
from support import allreduce, assert_same_bits, counted

from hvd_omniccl import ForkedProcessError, omniccl
from hvd_omniccl import tensorflow as tensorflow_side


def mine(*shape: int, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """A tensor full of this rank's number, from 1 on."""
    return tf.fill(shape, tf.cast(hvd.rank() + 1, dtype))


def total() -> float:
    return hvd.size() * (hvd.size() + 1) / 2


@case(1, 2, 3)
def a_trace_marks_once_and_keeps_the_static_shape() -> None:
    marked = 0

    class Counting:
        @staticmethod
        def compress(tensor: Any) -> Any:
            nonlocal marked
            marked += 1
            return omniccl.compress(tensor)

        decompress = omniccl.decompress

    @tf.function
    def reduce(tensor: tf.Tensor) -> tf.Tensor:
        result = hvd.allreduce(tensor, compression=Counting, op=hvd.Sum)
        assert result.shape == (3, 3, 8, 16)
        assert result.dtype == tensor.dtype
        return result

    with counted() as change:
        for _ in range(5):
            assert np.all(reduce(mine(3, 3, 8, 16)).numpy() == total())
    assert change.operations == 5
    assert marked == 1


@case(2, 3)
def every_call_of_a_function_reduces() -> None:
    @tf.function
    def reduce(tensor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tuple(hvd.allreduce(tensor * factor, compression=omniccl, op=hvd.Sum) for factor in (1.0, 3.0))

    with counted() as change:
        for _ in range(10):
            one, other = reduce(mine(2))
            assert one.numpy().tolist() == [total()] * 2
            assert other.numpy().tolist() == [3 * total()] * 2
    assert change.tensors == 20


@case(2, 3)
def a_constant_in_a_function_has_the_right_sum() -> None:
    # TensorFlow may fold Horovod's stateless operation: it then runs once, and the value stays.
    @tf.function
    def reduce() -> tf.Tensor:
        return hvd.allreduce(tf.constant([1.0, 2.0]), compression=omniccl, op=hvd.Sum)

    for _ in range(3):
        assert reduce().numpy().tolist() == [hvd.size(), 2 * hvd.size()]


@case(2, mpi=True)
def one_response_with_marked_and_unmarked_tensors() -> None:
    @tf.function
    def reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        compressions = [omniccl if index % 2 else hvd.Compression.none for index in range(len(tensors))]
        return [
            hvd.allreduce(tensor, compression=one, op=hvd.Sum, name=f"mixed/{index}")
            for index, (tensor, one) in enumerate(zip(tensors, compressions))
        ]

    with counted() as change:
        for step in range(1, 11):
            tensors = [mine(7 + index, 20) * step for index in range(8)]
            for result in reduce(tensors):
                assert np.all(result.numpy() == step * total())
    assert change.tensors == 40
    assert change.passed_on("not marked") >= 1


@case(2, 3)
def groups_with_one_or_several_kinds_of_tensors() -> None:
    class OnlyMatrices:
        """Marks some of a group's tensors."""

        @staticmethod
        def compress(tensor: Any) -> Any:
            return omniccl.compress(tensor) if tensor.shape.rank == 2 else (tensor, None)

        @staticmethod
        def decompress(tensor: Any, ctx: Any) -> Any:
            return tensor

    def reduce(compression: Any) -> Any:
        tensors = [mine(4, 32), mine(10), mine(2, 300), mine(5, 32), mine(6, 32), mine(11)]
        return hvd.grouped_allreduce(tensors, compression=compression, op=hvd.Sum, name="a/group")

    for compression, tensors in ((omniccl, 6), (OnlyMatrices, 4)):
        for call in (reduce, tf.function(reduce)):
            with counted() as change:
                for result in call(compression):
                    assert np.all(result.numpy() == total())
            # Constant input: TensorFlow may fold the graph's operation, once or altogether.
            assert change.tensors == tensors
    assert hvd.grouped_allreduce([], compression=omniccl) == []


@case(2, 3)
def names_and_scopes() -> None:
    @tf.function
    def reduce(tensor: tf.Tensor) -> list[tf.Tensor]:
        results = []
        for ignore in (False, True):
            with tf.name_scope(f"outer_{ignore}"):
                for index, name in enumerate((None, "plain", "with/slash", "same", "same")):
                    # Other values each: equal calls would become one node.
                    result = hvd.allreduce(
                        tensor + index, compression=omniccl, op=hvd.Sum, name=name, ignore_name_scope=ignore
                    )
                    results.append(result - hvd.size() * index)
        return results

    with counted() as change:
        for result in reduce(mine(5)):
            assert np.all(result.numpy() == total())
    assert change.tensors >= 5


@case(2, 3)
def gradients_flow_through_the_operation() -> None:
    def gradient() -> tf.Tensor:
        value = mine(3)
        with tf.GradientTape() as tape:
            tape.watch(value)
            result = hvd.allreduce(value, compression=omniccl, op=hvd.Sum) * (hvd.rank() + 1.0)
        return tape.gradient(result, value)

    for call in (gradient, tf.function(gradient)):
        assert call().numpy().tolist() == [total()] * 3  # the sum of all ranks' upstream gradients


@case(2)
def eager_calls_do_not_trace_again() -> None:
    before = tensorflow_side._function.cache_info().misses
    for length in range(1, 30):
        allreduce(np.ones(300 + length, np.float32), name="again")
    assert tensorflow_side._function.cache_info().misses == before + 1


@case(2)
def eager_calls_work_where_functions_run_eagerly() -> None:
    tf.config.run_functions_eagerly(True)
    try:
        with counted() as change:
            assert allreduce(np.ones(3, np.float32)).tolist() == [2.0] * 3
        assert change.operations == 1
    finally:
        tf.config.run_functions_eagerly(False)


@case(2)
def what_we_do_not_take_goes_to_horovod() -> None:
    values = np.int32([[1, 6], [3, 2]][hvd.rank()])
    for op, expected, name in ((hvd.Max, [3, 6], "Max"), (hvd.Min, [1, 2], "Min"), (hvd.Product, [3, 12], "Product")):
        with counted() as change:
            assert allreduce(values, op=op).tolist() == expected
        assert change.passed_on(f"operation {name}") == 1
        assert change.operations == 0
    with counted() as change:
        assert allreduce(values, prescale_factor=2.0).tolist() == [8, 16]
        assert allreduce(values.astype(np.float32), postscale_factor=-1.0).tolist() == [-4.0, -8.0]
    assert change.passed_on("prescaled integers") == 1
    assert change.passed_on("scale factor not positive and finite") == 1


@case(2)
def a_reducescatter_with_our_compression_is_horovods() -> None:
    values = tf.constant([[1.0, 2.0], [3.0, 6.0]][hvd.rank()])
    with counted() as change:
        result = hvd.reducescatter(values, op=hvd.Sum, compression=omniccl)
        assert result.numpy().tolist() == [[4.0], [8.0]][hvd.rank()]
        both = hvd.grouped_reducescatter([values, values * 10], op=hvd.Average, compression=omniccl)
        assert [one.numpy().tolist() for one in both] == [[[2.0], [20.0]], [[4.0], [40.0]]][hvd.rank()]
    assert change.operations == 0


@case(2, mpi=True)
def adasum_is_horovods() -> None:
    values = tf.constant([[1.0, 2.0], [3.0, 6.0]][hvd.rank()])

    def outcome(**options: Any) -> Any:
        try:
            return hvd.allreduce(values, op=hvd.Adasum, **options).numpy().tolist()
        except tf.errors.OpError as error:
            return type(error)

    with counted() as change:
        assert outcome(compression=omniccl) == outcome()
    assert change.operations == 0


@case(2)
def a_forked_child_is_refused_and_does_no_harm() -> None:
    assert_same_bits(allreduce(np.ones(4, np.float32)), np.full(4, 2, np.float32))
    child = os.fork()
    if child == 0:
        try:
            omniccl.compress(tf.constant([1.0]))
        except ForkedProcessError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    for _ in range(20):
        assert_same_bits(allreduce(np.ones(4, np.float32)), np.full(4, 2, np.float32))
