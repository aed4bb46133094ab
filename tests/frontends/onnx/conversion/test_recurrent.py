"""LSTM, GRU and RNN of ONNX files, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.models import make, run
from tests.frontends.onnx.running import compute
from tests.kernels.recurrent.nodes import Node, onnx_node
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx


def stacked(opset: int) -> onnx.ModelProto:
    """Two layers as exporters write them: both directions side by side between them."""
    rng, hidden = np.random.default_rng(0), 6

    def weights(layer: int, width: int) -> dict[str, Any]:
        shapes = {"W": (2, 4 * hidden, width), "R": (2, 4 * hidden, hidden), "B": (2, 8 * hidden)}
        return {
            f"{name}{layer}": rng.standard_normal(shape).astype(np.float32) / 3
            for name, shape in shapes.items()
        }

    def layer(number: int, x: str, y: str) -> onnx.NodeProto:
        operands = [x, *(f"{name}{number}" for name in "WRB")]
        made = [y, f"h{number}"]
        attributes = {"hidden_size": hidden, "direction": "bidirectional"}
        return helper.make_node("LSTM", operands, made, f"layer{number}", **attributes)

    nodes = [
        layer(0, "x", "y0"),
        helper.make_node("Transpose", ["y0"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "shape"], ["x1"]),
        layer(1, "x1", "y1"),
    ]
    constants = {**weights(0, 4), **weights(1, 2 * hidden), "shape": np.array([0, 0, -1])}
    return make(nodes, {"x": [5, 2, 4]}, ["y1", "h1"], constants, opset)


@pytest.mark.parametrize("opset", [9, 14])
def test_layers_of_both_directions(opset: int) -> None:
    x = np.random.default_rng(1).standard_normal((5, 2, 4)).astype(np.float32)
    model = stacked(opset)
    right = run(model, {"x": x})
    for ours, theirs in zip(compute(model, {"x": x}), right, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_all_attributes_reach_the_kernels() -> None:
    attributes = {
        "direction": "bidirectional", "clip": 0.4, "linear_before_reset": 1,
        "activations": ["Sigmoid", "Elu", "HardSigmoid", "Tanh"],
        "activation_alpha": [0.7, 0.3], "activation_beta": [0.4],
    }  # fmt: skip
    node = Node("GRU", given="bh", lengths=[3, 2], attributes=attributes)
    operands = node.operands()
    model = onnx_node(node, operands)
    right = run(model, operands)
    for ours, theirs in zip(compute(model, operands), right, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"activations": ["Gelu"]}, "'state'.* activation 'Gelu': expected one of Affine"),
        ({"direction": "up"}, "'state'.* direction 'up': expected one of forward"),
    ],
)
def test_what_is_not_computed_is_refused_by_the_name_of_its_node(
    attributes: dict[str, Any], message: str
) -> None:
    node = Node("RNN", attributes=attributes)
    model = onnx_node(node, node.operands())
    model.graph.node[0].name = "state"
    with pytest.raises(ModelError, match=message):
        from_onnx(model)
