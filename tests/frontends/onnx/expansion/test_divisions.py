"""Divisions by nothing beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_what_is_divided_by_nothing_is_infinite(kind: str, zero: float) -> None:
    x: Array = np.array([-1, 0, -0.0, 2, np.nan, np.inf, -np.inf], kind)
    nodes = [helper.make_node("Div", ["x", "zero"], ["y"])]
    constants = {"zero": np.array(zero, kind)}
    with np.errstate(all="ignore"):
        wanted = [x / constants["zero"]]
    assert_same(typed_model(nodes, {"x": x}, constants), {"x": x}, wanted)
    assert_same(typed_model(nodes, {"x": x}, constants), {"x": x})


@pytest.mark.parametrize("operator", ["Div", "Mod"])
@pytest.mark.parametrize("zero", [0, [3, 0]])
def test_whole_numbers_by_nothing_are_refused(operator: str, zero: object) -> None:
    """A traceback of TVM's as the model was lowered, or a process that ended as it ran."""
    nodes = [helper.make_node(operator, ["x", "zero"], ["y"])]
    model = typed_model(nodes, {"x": np.array([5, 7])}, {"zero": np.array(zero)})
    with pytest.raises(ModelError, match=rf"\({operator}\) divides by a constant that is zero"):
        from_onnx(model)


def test_a_remainder_of_floats_by_nothing_is_no_number() -> None:
    x: Array = np.array([5.0, -7.0, 0.0], np.float32)
    nodes = [helper.make_node("Mod", ["x", "zero"], ["y"], fmod=1)]
    model = typed_model(nodes, {"x": x}, {"zero": np.array(0.0, np.float32)})
    assert_same(model, {"x": x}, [np.full(3, np.nan, np.float32)])
