"""Windows that would start behind the input make no output, whatever onnx infers."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.expansion.test_walk import same
from tests.frontends.onnx.models import make
from tests.frontends.onnx.running import assert_same
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

X = {"x": np.random.default_rng(0).standard_normal((1, 2, 5, 7)).astype(np.float32)}
FORMS = [
    ([2, 3], [2, 1], [1, 0, 1, 0]),
    ([1, 2], [2, 2], [0, 0, 0, 0]),
    ([3, 3], [2, 2], [1, 1, 1, 1]),
    ([2, 2], [3, 3], [1, 1, 1, 1]),
]


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "strides", "pads"), FORMS)
def test_the_last_windows_are_those_of_onnxruntime(
    operator: str, kernel: list[int], strides: list[int], pads: list[int]
) -> None:
    node = helper.make_node(
        operator, ["x"], ["y"], kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=1
    )
    same(make([node], {"x": [1, 2, 5, 7]}, ["y"], opset=17), X)


@pytest.mark.parametrize("opset", [17, 22])
def test_padding_that_counts_in_such_a_window_is_right_or_refused(opset: int) -> None:
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1],
        ceil_mode=1, count_include_pad=1,
    )  # fmt: skip
    model = make([node], {"x": [1, 2, 5, 7]}, ["y"], opset=opset)
    if opset < 19:
        with pytest.raises(ModelError, match=r"AveragePool.* onnx infers"):
            from_onnx(model)
    else:
        assert_same(model, X)
