"""Windows that would start behind the input make no output, whatever onnx infers."""

from __future__ import annotations

import numpy as np
import onnx
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
# One axis has a window that is none, the other one that reaches beyond its padding.
BEYOND = ([2, 4], [3, 3], [1, 1, 1, 1])


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "strides", "pads"), FORMS)
def test_the_last_windows_are_those_of_onnxruntime(
    operator: str, kernel: list[int], strides: list[int], pads: list[int]
) -> None:
    node = helper.make_node(
        operator, ["x"], ["y"], kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=1
    )
    same(make([node], {"x": [1, 2, 5, 7]}, ["y"], opset=17), X)


@pytest.mark.parametrize("opset", [11, 17, 22])
@pytest.mark.parametrize(("kernel", "strides", "pads"), [*FORMS, BEYOND])
def test_padding_counts_in_such_windows_as_far_as_it_was_given(
    opset: int, kernel: list[int], strides: list[int], pads: list[int]
) -> None:
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=kernel, strides=strides, pads=pads,
        ceil_mode=1, count_include_pad=1,
    )  # fmt: skip
    assert_same(make([node], {"x": [1, 2, 5, 7]}, ["y"], opset=opset), X)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("declared", [[1, 2, 2, 2], [1, 2, 3, 3], None])
def test_a_model_may_declare_what_pytorch_makes_or_what_onnx_infers(
    operator: str, declared: list[int] | None
) -> None:
    pooling = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    nodes = [
        helper.make_node(operator, ["x"], ["p"], **pooling),
        helper.make_node(operator, ["p"], ["q"], **pooling),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    model = make(nodes, {"x": [1, 2, 5, 5]}, ["y"], opset=17)
    if declared:
        output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, declared)
        model.graph.output[0].CopyFrom(output)
    assert_same(model, {"x": X["x"][..., :5]})


def test_a_declaration_that_no_one_makes_is_still_refused() -> None:
    node = helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1],
        ceil_mode=1,
    )  # fmt: skip
    model = make([node], {"x": [1, 2, 5, 7]}, ["y"], opset=17)
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2, 7, 7])
    model.graph.output[0].CopyFrom(output)
    with pytest.raises(ModelError, match="declares its output 'y'"):
        from_onnx(model)
