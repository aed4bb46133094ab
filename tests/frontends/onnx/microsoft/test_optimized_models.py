"""A transformer's block as ONNX Runtime's optimizer writes it, read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, helper

from tests.frontends.onnx.contributed import Draw
from tests.frontends.onnx.models import make, run
from tests.frontends.onnx.running import compute

PLACES, HIDDEN = 6, 32
Level = onnxruntime.GraphOptimizationLevel


def node(operator: str, inputs: str, output: str, **attributes: object) -> NodeProto:
    """A node with operands that are named in one string."""
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def layer_norm(x: str, made: str) -> list[NodeProto]:
    """Layer normalization as exporters of old opsets wrote it."""
    return [
        node("ReduceMean", x, f"{made}_mean", axes=[-1]),
        node("Sub", f"{x} {made}_mean", f"{made}_centred"),
        node("Pow", f"{made}_centred two", f"{made}_square"),
        node("ReduceMean", f"{made}_square", f"{made}_variance", axes=[-1]),
        node("Add", f"{made}_variance epsilon", f"{made}_raised"),
        node("Sqrt", f"{made}_raised", f"{made}_deviation"),
        node("Div", f"{made}_centred {made}_deviation", f"{made}_normal"),
        node("Mul", f"{made}_normal gamma", f"{made}_scaled"),
        node("Add", f"{made}_scaled beta", made),
    ]


def gelu(x: str, made: str) -> list[NodeProto]:
    """Gelu by the error function."""
    return [
        node("Div", f"{x} root", f"{made}_inner"),
        node("Erf", f"{made}_inner", f"{made}_bent"),
        node("Add", f"{made}_bent one", f"{made}_risen"),
        node("Mul", f"{x} {made}_risen", f"{made}_twice"),
        node("Mul", f"{made}_twice half", made),
    ]


def block() -> onnx.ModelProto:
    """Scores of places, a residual, layer norms, and a hidden layer with Gelu."""
    d = Draw()
    nodes = [
        *layer_norm("x", "first"),
        node("Transpose", "first", "turned", perm=[0, 2, 1]),
        node("MatMul", "first turned", "product"),
        node("Mul", "product half", "scores"),
        node("Softmax", "scores", "weights", axis=-1),
        node("MatMul", "weights first", "context"),
        node("Add", "context b", "biased"),
        node("Add", "biased x", "residual"),
        *layer_norm("residual", "second"),
        node("MatMul", "second w", "wide"),
        node("Add", "wide wb", "wide_biased"),
        *gelu("wide_biased", "bent"),
        node("MatMul", "bent v", "y"),
    ]
    numbers = {"two": 2.0, "epsilon": 1e-5, "root": np.sqrt(2), "one": 1.0, "half": 0.5}
    constants = {name: np.array(value, np.float32) for name, value in numbers.items()}
    weights = {"gamma": d.normal(HIDDEN), "beta": d.normal(HIDDEN), "b": d.normal(HIDDEN)}
    wide = {"w": d.normal(HIDDEN, 64) / 6, "wb": d.normal(64), "v": d.normal(64, HIDDEN) / 8}
    return make(nodes, {"x": [1, PLACES, HIDDEN]}, ["y"], {**constants, **weights, **wide})


@pytest.mark.parametrize("level", [Level.ORT_ENABLE_BASIC, Level.ORT_ENABLE_EXTENDED])
def test_a_file_that_the_optimizer_saved_computes_the_same(level: Level, tmp_path: Path) -> None:
    source, saved = block(), tmp_path / "optimized.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(saved)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(source.SerializeToString(), options)
    optimized = onnx.load(saved)
    found = {n.op_type for n in optimized.graph.node if n.domain == "com.microsoft"}
    if level == Level.ORT_ENABLE_EXTENDED:
        assert {"FusedMatMul", "SkipLayerNormalization"} <= found
        assert any(operator.endswith("Gelu") for operator in found)
    feeds = {"x": Draw(1).normal(1, PLACES, HIDDEN)}
    got, wanted = compute(optimized, feeds)[0], run(source, feeds)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
