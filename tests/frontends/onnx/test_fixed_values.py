"""Inputs that are fixed to values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontends.onnx.models import make, run, value
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import check_model, from_onnx
from tvm_hetero.passes.attributes import INPUT_NAMES

X = np.array([[-1, 2, -3, 4]], np.float32)


def chosen_by_rate() -> onnx.ModelProto:
    """Relu at 16000, Neg otherwise; a shift of any two integers is added."""
    bodies = [
        helper.make_graph(
            [helper.make_node(op, ["x"], [op])], op, [], [value(op, [1, "n"])]
        )
        for op in ("Relu", "Neg")
    ]  # fmt: skip
    nodes = [
        helper.make_node("Equal", ["sr", "v"], ["b"]),
        helper.make_node("If", ["b"], ["h"], then_branch=bodies[0], else_branch=bodies[1]),
        helper.make_node("ReduceSum", ["shift"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["add"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["h", "add"], ["y"]),
    ]
    model = make(nodes, {"x": [1, "n"]}, ["y"], {"v": np.array(16000)})
    model.graph.input.append(value("sr", [], TensorProto.INT64))
    model.graph.input.append(value("shift", ["k"], TensorProto.INT64))
    return model


@pytest.mark.parametrize("rate", [16000, 8000])
def test_a_fixed_input_is_a_constant_of_the_model(rate: int) -> None:
    values = {"sr": rate, "shift": [1, 2]}
    model = check_model(chosen_by_rate(), shapes={"x": (1, 4)}, values=values)
    feeds = {"x": X, "sr": np.array(rate), "shift": np.array([1, 2])}
    assert [i.name for i in model.graph.input] == ["x"]
    np.testing.assert_array_equal(run(model, {"x": X})[0], run(chosen_by_rate(), feeds)[0])


def test_the_branch_that_a_value_chooses_is_all_that_is_imported() -> None:
    module = from_onnx(chosen_by_rate(), shapes={"x": (1, 4)}, values={"sr": 1, "shift": [0]})
    assert list(module["main"].attrs[INPUT_NAMES]) == ["x"]
    assert "negative" in str(module) and "relu" not in str(module)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rs": 1}, "'rs', which is no input of the model; known: shift, sr, x"),
        ({"sr": 1.5}, "'sr' is of type int64, but its value was given as 1.5"),
        ({"sr": True}, "'sr' is of type int64, but its value was given as True"),
        ({"sr": np.float32(1)}, "'sr' is of type int64, but its value was given as float32"),
        ({"sr": 2**70}, "'sr' is of type int64, but its value was given as 1180"),
        ({"sr": [1, 2]}, "'sr' has 0 dimensions .*, but the value given has 1 .2."),
        ({"shift": 1}, "'shift' has 1 dimension .*, but the value given has 0 .scalar."),
        ({"x": [[1, 2], [3, 4]]}, "Dimension 0 of input 'x' .* is 1 .* but 2"),
        ({"x": X}, "Both a shape and a value were given for 'x'"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_model(chosen_by_rate(), shapes={"x": (1, 4)} if X is values.get("x") else None,
                    values=values)  # fmt: skip


def test_numbers_take_the_type_of_the_input() -> None:
    model = make([helper.make_node("Mul", ["x", "f"], ["y"])], {"x": [2], "f": [1]}, ["y"])
    fixed = check_model(model, values={"f": 3})
    assert fixed.graph.initializer[-1].data_type == TensorProto.FLOAT
    assert list(fixed.graph.initializer[-1].dims) == [1]
    with pytest.raises(ModelError, match="float32, which cannot hold 16777217"):
        check_model(model, values={"f": 2**24 + 1})


def test_a_default_is_replaced() -> None:
    model = make([helper.make_node("Mul", ["x", "f"], ["y"])], {"x": [2], "f": [1]}, ["y"],
                 {"f": np.ones(1, np.float32)})  # fmt: skip
    fixed = check_model(model, values={"f": [3.0]})
    np.testing.assert_array_equal(run(fixed, {"x": X[0, :2]})[0], 3 * X[0, :2])
