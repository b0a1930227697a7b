"""The contract of a compressor, as Horovod uses it. No rank is started here."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import horovod.tensorflow  # noqa: F401  (hooks it)
import numpy as np
import pytest
import tensorflow as tf

import hvd_omniccl
from hvd_omniccl import NotHookedError, UnsupportedDtypeError, hook, omniccl, stats
from hvd_omniccl.config import Config
from hvd_omniccl.mark import mark_of


def test_it_is_one_hashable_object() -> None:
    assert hvd_omniccl.omniccl is omniccl
    assert {omniccl: 1}[omniccl] == 1
    assert pickle.loads(pickle.dumps(omniccl)) is omniccl
    assert copy.deepcopy(omniccl) is omniccl
    with pytest.raises(AttributeError):
        omniccl.state = 1  # type: ignore[attr-defined]


def test_fp16_is_one_hashable_object_too() -> None:
    half = omniccl.fp16
    assert {omniccl: 1, half: 2}[omniccl.fp16] == 2
    assert half is omniccl.fp16
    assert half != omniccl
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(half, protocol)) is half
    assert copy.copy(half) is half
    assert copy.deepcopy(half) is half
    assert (repr(omniccl), repr(half)) == ("hvd_omniccl.omniccl", "hvd_omniccl.omniccl.fp16")
    with pytest.raises(AttributeError):
        half.state = 1


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64, tf.bfloat16])
def test_fp16_casts_floating_tensors_there_and_back(dtype: tf.DType) -> None:
    tensor = tf.cast(tf.reshape(tf.range(6), (2, 3)), dtype)
    marked, context = omniccl.fp16.compress(tensor)
    assert marked.dtype == tf.float16
    mark = mark_of(marked)
    assert mark is not None
    assert mark.block.elements == 18
    back = omniccl.fp16.decompress(marked, context)
    assert back.dtype == dtype
    assert np.array_equal(back.numpy(), tensor.numpy())


def test_fp16_leaves_other_tensors_as_they_are() -> None:
    marked, context = omniccl.fp16.compress(tf.constant([1 << 30, 3]))
    assert mark_of(marked) is not None
    assert omniccl.fp16.decompress(marked, context).numpy().tolist() == [1 << 30, 3]
    with pytest.raises(UnsupportedDtypeError, match="bool"):
        omniccl.fp16.compress(tf.constant([True]))


def test_fp16_names_the_tensor_by_what_it_was_before_the_cast() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 48], tf.float64)])
    def trace(tensor: tf.Tensor) -> tf.Tensor:
        marked, context = omniccl.fp16.compress(tensor)
        mark = mark_of(marked)
        assert mark is not None
        assert mark.source_name == tensor.name
        back = omniccl.fp16.decompress(marked, context)
        assert back.shape.as_list() == [None, 48]
        return back

    assert trace(tf.ones([2, 48], tf.float64)).dtype == tf.float64


def test_compress_marks_and_changes_nothing() -> None:
    tensor = tf.constant([[1.0, -0.0], [3.0, 4.0]])
    marked, context = omniccl.compress(tensor)
    assert marked is not tensor
    assert mark_of(tensor) is None
    mark = mark_of(marked)
    assert mark is not None
    assert mark.block.elements == 16
    assert marked.numpy().tobytes() == tensor.numpy().tobytes()
    assert (context.dtype, context.shape) == (tf.float32, tensor.shape)
    assert omniccl.decompress(marked, context) is marked


def test_compress_works_with_variables_and_inside_of_functions() -> None:
    variable = tf.Variable(tf.ones([3, 32]))

    @tf.function(input_signature=[tf.TensorSpec([None, 48], tf.float64)])
    def trace(tensor: tf.Tensor) -> tf.Tensor:
        mark = mark_of(omniccl.compress(tensor)[0])
        assert mark is not None
        assert mark.block.elements == 48
        assert mark.source_name == tensor.name
        assert mark_of(omniccl.compress(variable)[0]).block.elements == 32  # type: ignore[union-attr]
        assert mark_of(omniccl.compress(tf.reshape(tensor, tf.shape(tensor)))[0]) is not None
        marked, context = omniccl.compress(tensor)
        assert omniccl.decompress(marked, context).shape.as_list() == [None, 48]
        return marked

    assert trace(tf.ones([2, 48], tf.float64)).shape == (2, 48)


@pytest.mark.parametrize("dtype", [tf.uint8, tf.int8, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64])
def test_dtypes_of_horovod_are_taken(dtype: tf.DType) -> None:
    assert mark_of(omniccl.compress(tf.zeros(3, dtype))[0]) is not None


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.bool, tf.complex64, tf.uint32])
def test_other_dtypes_are_refused_by_name(dtype: tf.DType) -> None:
    with pytest.raises(UnsupportedDtypeError, match=rf"{dtype.name}.*float32.*tf\.cast"):
        omniccl.compress(tf.zeros(3, dtype))


def test_it_is_never_silently_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    state = hook.HookState(Config.from_env({}), failure=NotHookedError("no adapter here"))
    monkeypatch.setattr(hook, "_state", state)
    with pytest.raises(NotHookedError, match="no adapter here"):
        omniccl.compress(tf.zeros(3))
    switched_off = dataclasses.replace(state, config=Config.from_env({"OMNICCL_INTERCEPT": "off"}))
    monkeypatch.setattr(hook, "_state", switched_off)
    assert mark_of(omniccl.compress(tf.zeros(3))[0]) is not None


def test_stats_before_init_are_zero() -> None:
    assert stats() == hvd_omniccl.Stats()
    assert stats().density == 0.0
