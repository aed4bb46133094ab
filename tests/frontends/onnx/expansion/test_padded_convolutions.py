"""A convolution pads its image itself where a node before it did so with zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.running import assert_same, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.conversion.registry import converted_operators
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph

IMAGE = {"x": np.random.default_rng(0).standard_normal((1, 4, 9, 8)).astype(np.float32)}
AROUND = np.array([0, 0, 0, 1, 0, 0, 2, 3])


def model(around: np.ndarray, value: float | None = 0.0, **attributes: Any) -> onnx.ModelProto:
    """Padding, and behind it a strided convolution of 3x3 windows."""
    constants = {
        "pads": around,
        "w": np.random.default_rng(1).standard_normal((6, 4, 3, 3)).astype(np.float32),
    }
    operands = ["x", "pads"]
    if value is not None:
        constants["value"] = np.array(value, np.float32)
        operands.append("value")
    mode = attributes.pop("mode", "constant")
    nodes = [
        helper.make_node("Pad", operands, ["padded"], mode=mode),
        helper.make_node("Conv", ["padded", "w"], ["y"], **attributes),
    ]
    return typed_model(nodes, IMAGE, constants, opset=13)


def expanded(source: onnx.ModelProto) -> list[onnx.NodeProto]:
    graph = OnnxGraph(source)
    expand_graph(graph, converted_operators())
    return list(graph.nodes)


@pytest.mark.parametrize("value", [0.0, None])
@pytest.mark.parametrize("own", [None, [1, 0, 2, 1]])
def test_zeros_are_the_convolutions_own(value: float | None, own: list[int] | None) -> None:
    attributes = {"strides": [2, 2]} | ({"pads": own} if own else {})
    source = model(AROUND, value, **attributes)
    (conv,) = expanded(source)
    found = {a.name: helper.get_attribute_value(a) for a in conv.attribute}
    assert found["pads"] == [a + b for a, b in zip([0, 1, 2, 3], own or [0] * 4, strict=True)]
    assert found["strides"] == [2, 2]
    assert_same(source, IMAGE)


def test_pads_that_follow_from_shapes_are_added_to_those() -> None:
    source = model(AROUND, auto_pad="SAME_UPPER", strides=[2, 2])
    assert [node.op_type for node in expanded(source)] == ["Conv"]
    assert_same(source, IMAGE)


@pytest.mark.parametrize(
    ("pads", "how"),
    [
        (AROUND, {"value": 1.0}),
        (AROUND, {"mode": "edge"}),
        (np.array([0, 0, -1, 1, 0, 0, 2, 3]), {}),
    ],
)
def test_other_padding_stays_before_it(pads: np.ndarray, how: dict[str, Any]) -> None:
    source = model(pads, **how)
    assert [node.op_type for node in expanded(source)] == ["Pad", "Conv"]
    assert_same(source, IMAGE)


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "QLinearConv"])
def test_a_bias_of_another_length_is_refused_not_repeated(operator: str) -> None:
    """Whose weights are for 6 output channels, of 3 groups where they are transposed."""
    codes = {"x": np.zeros((1, 4, 9, 8), np.uint8)}
    constants: dict[str, np.ndarray] = {"w": np.ones((6, 4, 3, 3), np.float32)}
    operands, attributes = ["x", "w", "b"], {}
    if operator == "ConvTranspose":
        constants["w"], attributes = np.ones((6, 2, 3, 3), np.float32), {"group": 3}
        codes = {"x": np.zeros((1, 6, 9, 8), np.float32)}
    if operator == "QLinearConv":
        constants["w"] = constants["w"].astype(np.uint8)
        constants |= {"s": np.array(0.5, np.float32), "z": np.array(0, np.uint8)}
        operands = ["x", "s", "z", "w", "s", "z", "s", "z", "b"]
    feeds = IMAGE if operator == "Conv" else codes
    constants["b"] = np.ones(1, np.int32 if operator == "QLinearConv" else np.float32)
    node = helper.make_node(operator, operands, ["y"], **attributes)
    with pytest.raises(ModelError, match=r"has a bias of \[1\] for 6 output channels"):
        from_onnx(typed_model([node], feeds, constants, opset=13))
