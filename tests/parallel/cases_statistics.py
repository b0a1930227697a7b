"""What is counted: sparse gradients that pass us by, and from when on."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from case import case
from support import allreduce, counted

from hvd_omniccl import Stats, indexed_slices, omniccl, reset_stats, stats


def slices() -> tf.IndexedSlices:
    """Row `rank` of a table."""
    return tf.IndexedSlices(tf.ones((1, 4)), tf.constant([hvd.rank()]), tf.constant([10, 4]))


def warnings_of_ours(seen: list[warnings.WarningMessage]) -> list[str]:
    return [str(one.message) for one in seen if "hvd_omniccl" in str(one.message)]


@case(2)
def indexed_slices_are_counted_and_warned_about_once() -> None:
    indexed_slices._warned = False  # another case may have had some
    with warnings.catch_warnings(record=True) as seen, counted() as change:
        warnings.simplefilter("always")
        for compression in (omniccl, omniccl.fp16):
            gathered = hvd.allreduce(slices(), compression=compression, op=hvd.Sum)
            assert sorted(gathered.indices.numpy()) == [0, 1]
        hvd.grouped_allreduce([slices(), slices()], compression=omniccl)
        hvd.allreduce(tensor=slices())  # not ours
        hvd.allreduce(tf.ones(3), compression=omniccl)  # taken
    assert change.indexed_slices == 3
    [text] = warnings_of_ours(seen)
    assert "sparse_as_dense=True" in text


@case(2)
def indexed_slices_of_an_embedding_are_seen_through_tape_and_function() -> None:
    table = tf.Variable(tf.ones((10, 4)))

    def gradient(row: tf.Tensor, sparse_as_dense: bool) -> Any:
        with tf.GradientTape() as plain:
            loss = tf.reduce_sum(tf.gather(table, row))
        tape = hvd.DistributedGradientTape(plain, compression=omniccl, sparse_as_dense=sparse_as_dense)
        return tf.convert_to_tensor(tape.gradient(loss, [table])[0])

    for sparse_as_dense in (False, True):
        step = tf.function(gradient)
        with counted() as change, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [step(tf.constant([hvd.rank()]), sparse_as_dense) for _ in range(3)]
        assert all(np.array_equal(result, results[0]) for result in results)
        assert change.indexed_slices == (0 if sparse_as_dense else 1)  # Python sees the trace
        assert change.tensors == (3 if sparse_as_dense else 0)


@case(2, 3)
def reset_stats_counts_from_zero_and_disturbs_nothing() -> None:
    value = np.full(600, hvd.rank() + 1, np.float32)
    allreduce(value)
    hvd.allreduce(tf.ones(3), op=hvd.Min, compression=omniccl)
    assert stats().operations > 0
    assert stats().passed_on != {}
    thread = threading.Thread(target=reset_stats)
    thread.start()
    thread.join()
    assert stats() == Stats()
    with counted() as change:
        for _ in range(3):
            assert np.all(allreduce(value) == sum(range(1, hvd.size() + 1)))
    assert stats().operations == change.operations == 3
    assert stats().tensors == 3
    assert stats().blocks == 3 * 3  # 600 elements
    assert stats().bytes_reduced == 3 * value.nbytes
    assert stats().bytes_sent > 0
    assert stats().passed_on == {}
