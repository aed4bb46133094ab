"""Max, Min and Clip keep NaN, whichever operand it is in, and constant bounds cost no check."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, typed_model
from tvm_hetero.frontends.onnx import from_onnx

NAN, INF = np.nan, np.inf
X = np.array([NAN, -INF, INF, -1.5, -0.5, 0.5, NAN, 2.5], np.float32)
Y = np.array([1, NAN, -INF, NAN, 3, -3, NAN, 2], np.float32)
BOUNDS = {"low": np.array(-1, np.float32), "high": np.array(2, np.float32)}


def test_nan_of_any_operand_is_kept() -> None:
    feeds: dict[str, Array] = {"x": X, "y": Y, "z": np.ones((3, 1), np.float32)}
    nodes = [
        helper.make_node(operator, operands, [operator + "".join(operands)])
        for operator in ("Max", "Min")
        for operands in (["x", "y"], ["y", "x"], ["x", "high"], ["z", "y", "x", "low"])
    ]
    assert_same(typed_model(nodes, feeds, BOUNDS), feeds)


def test_a_clip_keeps_nan_and_its_bounds_may_cross_or_be_computed() -> None:
    feeds: dict[str, Array] = {"x": X, "computed": np.array(1, np.float32), "n": np.arange(-4, 5)}
    constants = {**BOUNDS, "two": np.array(2)}
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["both"]),
        helper.make_node("Clip", ["x", "high", "low"], ["crossed"]),
        helper.make_node("Clip", ["x", "", "computed"], ["above"]),
        helper.make_node("Clip", ["x", "computed", "high"], ["below"]),
        helper.make_node("Clip", ["n", "", "two"], ["whole"]),
    ]
    model = typed_model(nodes, feeds, constants)
    expected = [
        np.clip(X, -1, 2), np.where(np.isnan(X), X, np.float32(-1)), np.minimum(X, 1),
        np.clip(X, 1, 2), np.minimum(feeds["n"], 2),
    ]  # fmt: skip
    assert_same(model, feeds, [np.asarray(e) for e in expected])


def test_constant_bounds_are_part_of_the_kernel() -> None:
    node = helper.make_node("Clip", ["x", "low", "high"], ["y"])
    text = from_onnx(typed_model([node], {"x": X}, BOUNDS)).script()
    assert "isnan" not in text
    assert "T.float32(-1" in text
