"""What each mode of OMNICCL_INTERCEPT takes, counts and says; a job of one rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import python

BEGIN = """
import warnings
import horovod.tensorflow as hvd, numpy as np, tensorflow as tf
from hvd_omniccl import omniccl, stats
hvd.init()
"""

ANY_KIND = """
value = np.arange(30, dtype=np.float32).reshape(10, 3)
for tensor in (value, tf.constant(value), tf.Variable(value)):
    for reduce in (hvd.allreduce, lambda tensor: hvd.grouped_allreduce([tensor])[0]):
        result = reduce(tensor)
        assert result.dtype == tf.float32 and np.array_equal(result, value)
print(stats().tensors, stats().blocks, dict(stats().passed_on))
"""


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("all", "6 6 {}\n"),  # one block of 256 each: an eager tensor has no tag
        ("tagged", "0 0 {'not marked': 6}\n"),
        ("off", "0 0 {'not marked': 6}\n"),
    ],
)
def test_what_is_taken_without_compression(mode: str, expected: str, tmp_path: Path) -> None:
    done = python(BEGIN + ANY_KIND, tmp_path, {"OMNICCL_INTERCEPT": mode})
    assert done.stdout == expected, done.stderr


def test_all_leaves_the_rest_to_horovod_with_a_reason(tmp_path: Path) -> None:
    program = BEGIN + (
        "assert hvd.allreduce(tf.constant([1.0]), op=hvd.Min).numpy() == [1]\n"
        "assert hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, prescale_factor=-1.0).numpy() == [-1]\n"
        "assert hvd.allreduce(tf.constant([2]), op=hvd.Sum, prescale_factor=2.0).numpy() == [4]\n"
        "print(dict(stats().passed_on), stats().operations)\n"
    )
    done = python(program, tmp_path, {"OMNICCL_INTERCEPT": "all"})
    reasons = {"operation Min": 1, "prescaled integers": 1, "scale factor not positive and finite": 1}
    assert done.stdout == f"{reasons} 0\n", done.stderr


def test_all_takes_what_no_wrapper_sees_in_blocks_of_256_or_of_the_setting(tmp_path: Path) -> None:
    program = BEGIN + (
        "from horovod.tensorflow import mpi_ops\n"
        "assert np.all(mpi_ops._allreduce(tf.ones((100, 10)), op=hvd.Sum) == 1)\n"
        "print(stats().blocks)\n"
    )
    for extra, blocks in (({}, "4"), ({"OMNICCL_BLOCK_SIZE": "100"}, "10")):
        done = python(program, tmp_path, {"OMNICCL_INTERCEPT": "all", **extra})
        assert done.stdout == f"{blocks}\n", done.stderr


SLICES = """
slices = tf.IndexedSlices(tf.ones((1, 4)), tf.constant([0]), tf.constant([10, 4]))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    hvd.allreduce(slices)
    hvd.grouped_allreduce([slices, slices])
    hvd.allreduce(slices, compression=omniccl)
print(stats().indexed_slices, sum("sparse_as_dense=True" in str(one.message) for one in seen))
"""


@pytest.mark.parametrize(("mode", "calls", "warned"), [("all", 3, 1), ("tagged", 1, 1), ("off", 0, 0)])
def test_sparse_gradients_are_counted_and_warned_about_once(mode: str, calls: int, warned: int, tmp_path: Path) -> None:
    done = python(BEGIN + SLICES, tmp_path, {"OMNICCL_INTERCEPT": mode})
    assert done.stdout == f"{calls} {warned}\n", done.stderr


def test_a_forked_child_counts_sparse_gradients_from_zero(tmp_path: Path) -> None:
    program = (
        BEGIN
        + SLICES
        + (
            "import os, sys\n"
            "sys.stdout.flush()\n"
            "child = os.fork()\n"
            "if child == 0: os._exit(stats().indexed_slices)\n"
            "print(stats().indexed_slices, os.waitpid(child, 0)[1])\n"
        )
    )
    assert python(program, tmp_path).stdout.endswith("\n1 0\n")
