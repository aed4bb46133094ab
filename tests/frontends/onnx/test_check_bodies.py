"""Functions and nested graphs of which two readers make two things are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from tests.frontends.onnx.running import assert_same
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

X = np.array([-1.5, 2], np.float32)
ONES = numpy_helper.from_array(np.ones(2, np.float32), "w")
RELU = helper.make_node("Relu", ["a"], ["b"])


def value(name: str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, [2] if kind == TensorProto.FLOAT else [])


def function(
    nodes: Sequence[NodeProto] = (RELU,), outputs: Sequence[str] = ("b",)
) -> FunctionProto:
    sets = [helper.make_opsetid("", 18)]
    return helper.make_function("d", "F", ["a"], outputs, nodes, sets)


def calling(*functions: FunctionProto, operands: Sequence[str] = ("x",)) -> onnx.ModelProto:
    call = helper.make_node("F", operands, ["y"], domain="d")
    graph = helper.make_graph([call], "g", [value("x")], [value("y")])
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]
    return helper.make_model(graph, opset_imports=sets, functions=functions, ir_version=10)


def choosing(constant: onnx.TensorProto) -> onnx.ModelProto:
    """An If of whose branches one has a constant of its own."""
    add = helper.make_node("Add", ["x", constant.name], ["t"])
    then = helper.make_graph([add], "then", [], [value("t")], [constant])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [value("e")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    given = [value("x"), value("c", TensorProto.BOOL)]
    graph = helper.make_graph([node], "g", given, [value("y")])
    sets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def overloaded() -> FunctionProto:
    other = function([helper.make_node("Neg", ["a"], ["b"])])
    other.overload = "other"
    return other


def constant_of(tensor: onnx.TensorProto) -> FunctionProto:
    made = helper.make_node("Constant", [], ["w"], value=tensor)
    return function([made, helper.make_node("Add", ["a", "w"], ["b"])])


def test_calls_and_constants_that_all_read_alike_are_taken() -> None:
    assert_same(calling(function()), {"x": X})
    assert_same(choosing(ONES), {"x": X, "c": np.array(True)})


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (calling(function(outputs=["z"])), "Nothing in the function 'd::F' makes its output 'z'"),
        (calling(function(), operands=["x", "x"]), "has 2 operands, and the function 'd::F'"),
        (calling(function(), overloaded()), "two functions 'd::F', which differ in their overload"),
        (calling(overloaded()), "calls the overload '' of the function 'd::F'"),
        (choosing(numpy_helper.from_array(X, "x")), "a value around it has that name too"),
    ],
    ids=["no output", "operands", "overloads", "no overload", "constant of two"],
)
def test_what_two_readers_take_differently_is_refused(model: onnx.ModelProto, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        from_onnx(model)


SEGMENT = TensorProto(name="w", data_type=1, dims=[2], float_data=[1, 2])
SEGMENT.segment.begin = 1
BAD = {
    "is a part of a tensor": SEGMENT,
    "is of complex numbers": TensorProto(name="w", data_type=14, dims=[2], float_data=[1, 2, 3, 4]),
    "has the number 300": TensorProto(name="w", data_type=3, dims=[2], int32_data=[300, 1]),
    "has the number -5": TensorProto(name="w", data_type=10, dims=[2], int32_data=[1, -5]),
}


@pytest.mark.parametrize("why", BAD)
def test_a_constant_is_looked_at_wherever_it_stands(why: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("Cast", ["w"], ["y"], to=1)], "g", [value("x")], [value("y")], [BAD[why]]
    )
    sets = [helper.make_opsetid("", 18)]
    top = helper.make_model(graph, opset_imports=sets, ir_version=10)
    for model in (top, choosing(BAD[why]), calling(constant_of(BAD[why]))):
        with pytest.raises(ModelError, match=why):
            from_onnx(model)


def test_an_input_of_complex_numbers_is_refused() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    given = [helper.make_tensor_value_info(name, TensorProto.COMPLEX64, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", given[:1], given[1:])
    sets = [helper.make_opsetid("", 18)]
    with pytest.raises(ModelError, match="input 'x' is of complex numbers"):
        from_onnx(helper.make_model(graph, opset_imports=sets, ir_version=10))
