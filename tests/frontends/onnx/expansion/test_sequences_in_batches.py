"""ReverseSequence beside ONNX Runtime, TensorScatter beside onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, evaluate, executor, typed_model
from tvm_hetero.errors import RunError

RNG = np.random.default_rng(0)


def test_each_sequence_is_turned_as_far_as_it_is_long() -> None:
    feeds: dict[str, Array] = {
        "x": RNG.standard_normal((5, 4, 3)).astype(np.float32),
        "lengths": np.array([1, 5, 2, 4]),
        "turned": np.array([4, 3, 1, 2, 4]),
    }
    nodes = [
        helper.make_node("ReverseSequence", ["x", "lengths"], ["columns"]),
        helper.make_node("ReverseSequence", ["x", "turned"], ["rows"], time_axis=1, batch_axis=0),
    ]
    assert_same(typed_model(nodes, feeds), feeds)


def test_a_cache_is_written_where_each_sequence_says() -> None:
    feeds: dict[str, Array] = {
        "cache": RNG.standard_normal((2, 3, 6, 4)).astype(np.float32),
        "update": RNG.standard_normal((2, 3, 2, 4)).astype(np.float32),
        "first": np.array([1, 4]),
        "late": np.array([5, 10]),
    }
    nodes = [
        helper.make_node("TensorScatter", ["cache", "update", "first"], ["linear"]),
        helper.make_node("TensorScatter", ["cache", "update"], ["start"]),
        helper.make_node("TensorScatter", ["cache", "update", "late"], ["round"], mode="circular"),
    ]
    model = typed_model(nodes, feeds, opset=24)
    assert_same(model, feeds, evaluate(model, feeds))


def test_a_place_behind_the_cache_is_an_error() -> None:
    feeds: dict[str, Array] = {
        "cache": np.zeros((1, 6, 4), np.float32),
        "update": np.ones((1, 2, 4), np.float32),
        "first": np.array([5]),
    }
    node = helper.make_node("TensorScatter", ["cache", "update", "first"], ["y"])
    with (
        executor(typed_model([node], feeds, opset=24)) as ex,
        pytest.raises(RunError, match="index 6 is out of bounds for axis 1 of size 6"),
    ):
        ex.run(feeds)
