"""Operators that onnx defines by others, in the standard domain and beside it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

RNG = np.random.default_rng(0)


def test_an_operator_of_the_preview_domain_is_its_function() -> None:
    shape = (1, 2, 4, 8)
    feeds = {n: RNG.standard_normal(shape).astype(np.float32) for n in ("q", "k", "v")}
    node = helper.make_node("FlexAttention", list(feeds), ["y"], domain="ai.onnx.preview")
    model = typed_model([node], feeds, opset=26)
    scores = feeds["q"] @ feeds["k"].swapaxes(-1, -2) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ feeds["v"]
    assert_same(model, feeds, [wanted.astype(np.float32)], atol=1e-5)


def test_windows_of_a_size_that_is_known_are_constants() -> None:
    constants: dict[str, Array] = {
        "size": np.array(16),
        "bins": np.array(4),
        "length": np.array(30),
        "rate": np.array(8000),
        "low": np.array(100.0, np.float32),
        "high": np.array(3000.0, np.float32),
    }
    windows = ["HannWindow", "HammingWindow", "BlackmanWindow"]
    nodes = [helper.make_node(name, ["size"], [f"own_{name}"]) for name in windows]
    nodes += [helper.make_node("Mul", ["x", f"own_{name}"], [name]) for name in windows]
    mel = ["bins", "length", "rate", "low", "high"]
    nodes.append(helper.make_node("MelWeightMatrix", mel, ["matrix"]))
    nodes.append(helper.make_node("MatMul", ["x", "matrix"], ["mel"]))
    x = RNG.standard_normal((3, 16)).astype(np.float32)
    model = typed_model(nodes, {"x": x}, constants)
    assert_same(model, {"x": x}, evaluate(model, {"x": x}))


def test_a_window_of_several_sizes_is_refused() -> None:
    node = helper.make_node("HannWindow", ["sizes"], ["y"])
    end = helper.make_node("Mul", ["x", "y"], ["z"])
    x = RNG.standard_normal((3, 16)).astype(np.float32)
    model = typed_model([node, end], {"x": x}, {"sizes": np.array([16, 8])}, outputs=["z"])
    with pytest.raises(ModelError, match="HannWindow"):
        from_onnx(model)
