"""A convolution of codes pads its image itself where a node before the codes did so with zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import compute, typed_model
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.quantized.coded_pads import pad_behind_codes

RNG = np.random.default_rng(0)
IMAGE = {"x": RNG.standard_normal((1, 4, 9, 8)).astype(np.float32)}
AROUND = np.array([0, 0, 0, 1, 0, 0, 2, 3])


def coded(zero: Any, around: np.ndarray = AROUND, **changed: Any) -> onnx.ModelProto:
    """Padding, codes, and behind them a strided convolution by channel."""
    constants = {
        "pads": around, "value": np.float32(changed.get("value", 0)), "s": np.float32(0.02),
        "z": zero, "t": np.float32(0.03), "w": RNG.standard_normal((4, 1, 3, 3)).astype(np.float32),
    }  # fmt: skip
    how = {"auto_pad": "SAME_UPPER"} if changed.get("same") else {"pads": [1, 0, 2, 1]}
    nodes = [
        helper.make_node("Pad", ["x", "pads", "value"], ["padded"]),
        helper.make_node("QuantizeLinear", ["padded", "s", "z"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", changed.get("scale", "s"), "z"], ["values"]),
        helper.make_node("Conv", ["values", "w"], ["y"], strides=[2, 2], group=4, **how),
    ]
    if changed.get("other"):
        nodes.append(helper.make_node("Identity", [changed["other"]], ["o"]))
    return typed_model(nodes, IMAGE, constants, opset=13)


def moved(model: onnx.ModelProto) -> tuple[list[str], onnx.ModelProto]:
    graph = OnnxGraph(model)
    pad_behind_codes(graph)
    return [node.op_type for node in graph.nodes], graph.to_model()


def assert_equal(model: onnx.ModelProto, found: onnx.ModelProto) -> None:
    """The same by ONNX Runtime, to a bit, and by ours, but for the order of sums."""
    for one, other in zip(run(model, IMAGE), run(found, IMAGE), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(run(model, IMAGE), compute(model, IMAGE), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(131), np.int8(-7)])
def test_zeros_before_codes_are_the_convolutions_own(zero: Any) -> None:
    """They joined the kernel before, which had no rule then: MobileNet-v2 took twice the time."""
    model = coded(zero)
    kinds, found = moved(model)
    assert kinds == ["QuantizeLinear", "DequantizeLinear", "Conv"]
    pads = {a.name: helper.get_attribute_value(a) for a in found.graph.node[-1].attribute}["pads"]
    assert pads == [1, 1, 4, 4]
    assert_equal(model, found)


@pytest.mark.parametrize(
    ("around", "changed"),
    [
        (AROUND, {"scale": "t"}),
        (AROUND, {"other": "values"}),
        (AROUND, {"other": "codes"}),
        (AROUND, {"other": "padded"}),
        (AROUND, {"value": 1.0}),
        (AROUND, {"same": True}),
        (np.array([0, 0, -1, 1, 0, 0, 2, 3]), {}),
    ],
)
def test_other_padding_stays_before_codes(around: np.ndarray, changed: dict[str, Any]) -> None:
    model = coded(np.uint8(9), around, **changed)
    kinds, found = moved(model)
    assert "Pad" in kinds
    assert_equal(model, found)
