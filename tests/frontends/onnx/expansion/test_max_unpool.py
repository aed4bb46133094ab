"""MaxUnpool beside ONNX Runtime, with a shape of its own beside onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

FEEDS: dict[str, Array] = {
    "x": np.arange(1, 9, dtype=np.float32).reshape(2, 1, 2, 2),
    "i": np.array([5, 7, 13, 15, 16, 18, 24, 31]).reshape(2, 1, 2, 2),
}
WINDOW = {"kernel_shape": [2, 2], "strides": [2, 2]}


def test_values_return_to_their_places() -> None:
    node = helper.make_node("MaxUnpool", ["x", "i"], ["y"], **WINDOW)
    assert_same(typed_model([node], FEEDS), FEEDS)


def test_a_larger_shape_has_zeros_behind() -> None:
    feeds = {name: array[:1] for name, array in FEEDS.items()}
    node = helper.make_node("MaxUnpool", ["x", "i", "shape"], ["y"], **WINDOW)
    model = typed_model([node], feeds, {"shape": np.array([1, 1, 5, 5])})
    assert_same(model, feeds, evaluate(model, feeds))


def test_a_smaller_shape_is_refused() -> None:
    node = helper.make_node("MaxUnpool", ["x", "i", "shape"], ["y"], **WINDOW)
    model = typed_model([node], FEEDS, {"shape": np.array([2, 1, 3, 4])})
    with pytest.raises(ModelError, match=r"shape \[2, 1, 3, 4\], which does not hold"):
        from_onnx(model)
