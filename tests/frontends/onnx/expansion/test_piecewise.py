"""Activations with a bound: each side is what onnx says, of every type and either sign of alpha."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.frontends.onnx.running import assert_same, typed_model

X = np.array([-2.5, -1, -0.25, 0, 0.25, 1, 2.5])


@pytest.mark.parametrize("name", ["Elu", "Selu", "Celu"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_exponential_units_are_those_of_onnx_in_each_type(name: str, dtype: str) -> None:
    x = X.astype(dtype)
    nodes = [
        helper.make_node(name, ["x"], [f"y{i}"], alpha=alpha) for i, alpha in enumerate((1.5, -0.5))
    ]
    model = typed_model(nodes, {"x": x}, opset=24)
    powers = np.expm1(x / (1 if name != "Celu" else np.array([[1.5], [-0.5]])))
    below = np.array([[1.5], [-0.5]]) * powers
    gamma = 1.0507009873554805 if name == "Selu" else 1
    expected = gamma * np.where(x > 0, x.astype(np.float64), below)
    tolerance = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    if name == "Selu":
        tolerance = max(tolerance, 1e-7)
    assert_same(model, {"x": x}, list(expected.astype(dtype)), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int64", "float32"])
@pytest.mark.parametrize(
    "given",
    [
        {"lambd": 1.0}, {"bias": 1.0, "lambd": 1.5}, {"bias": 0.5}, {"lambd": 300.0},
        {"bias": 1.0, "lambd": -1.0},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_shrunk_is_on_one_side_alone(dtype: str, given: dict[str, Any]) -> None:
    x = np.array([0, 1, 2, 3, 9, 100]).astype(dtype)
    if dtype[0] != "u":
        x = np.concatenate([x, -x])
    model = typed_model([helper.make_node("Shrink", ["x"], ["y"], **given)], {"x": x})
    if given.get("lambd") == 300.0 or "bias" in given:
        expected = _shrunk(x, **given)
    else:
        expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    assert_same(model, {"x": x}, [expected])


def _shrunk(x: Any, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """In numbers that hold all of these, and cut off as ONNX Runtime does."""
    wide = x.astype(np.float64)
    moved = np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0))
    return np.trunc(moved).astype(x.dtype) if x.dtype.kind in "iu" else moved.astype(x.dtype)
