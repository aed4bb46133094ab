"""What a refusal says: the node in the file's words, and what its reader can do."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

from tests.frontends.onnx.models import make, value
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.conversion.without_kernel import nodes_without_kernel
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph

INTERNALS = re.compile(r"\bR\.|relax|\bT\.|ir\.Op|span=|TVM|Traceback|Var\b")


def refusal(model: onnx.ModelProto) -> str:
    """What is said of a model; none of it is in the words of what is underneath."""
    with pytest.raises(ModelError) as caught:
        from_onnx(model)
    text = str(caught.value)
    assert not INTERNALS.search(text), text
    return text


def reshaped() -> onnx.ModelProto:
    """x in the shape that is twice the input 'half'."""
    nodes = [
        helper.make_node("Mul", ["half", "two"], ["shape"]),
        helper.make_node("Reshape", ["x", "shape"], ["y"], name="last"),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"], {"two": np.array([2])})
    model.graph.input.append(value("half", [2], TensorProto.INT64))
    return model


def test_the_input_behind_a_setting_is_named_with_its_type_and_option() -> None:
    text = refusal(reshaped())
    assert "node 1 'last' (Reshape)" in text and "opset 13" in text
    assert "on the input 'half' (int64 2) alone: --value half=[NUMBER,...] would fix it" in text


def test_an_input_that_looks_like_data_is_not_to_be_fixed() -> None:
    model = make(
        [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Range", ["zero", "most", "one"], ["y"]),
        ],
        {"x": [2, 3]},
        ["y"],
        {"zero": np.array(0, np.float32), "one": np.array(1, np.float32)},
    )
    text = refusal(model)
    assert "node 1 (Range) makes 'y' in a shape that is known only when it runs" in text
    assert "the data of the input 'x' (float32 2x3)" in text and "--value" not in text


def test_a_form_that_is_not_taken_is_shown_with_attributes_and_types() -> None:
    model = make([helper.make_node("Conv", ["x", "w"], ["y"], group=2)], {"x": [1, 3, 8, 8]}, ["y"],
                 {"w": np.zeros((4, 1, 3, 3), np.float32)})  # fmt: skip
    text = refusal(model)
    assert "(Conv) of opset 13 is not taken in this form (attributes group = 2; operands" in text
    assert "float32 1x3x8x8, float32 4x1x3x3" in text


def test_what_stands_in_a_nodes_place_bears_its_name() -> None:
    node = helper.make_node("CenterCropPad", ["x", "to"], ["y"], name="crop")
    model = make([node], {"x": [4, 4]}, ["y"], opset=18)
    model.graph.input.append(value("to", [2], TensorProto.INT64))
    assert "node 0 'crop' (CenterCropPad): its Pad takes its pads from" in refusal(model)


@pytest.mark.parametrize("with_default", [False, True])
def test_classical_machine_learning_is_not_for_us(with_default: bool) -> None:
    node = helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L2")
    model = make([node], {"x": [2, 3]}, ["y"])
    if not with_default:
        del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    text = refusal(model)
    assert "'ai.onnx.ml'" in text and "classical machine learning" in text


def test_a_node_without_a_kernel_is_found_among_what_nodes_became() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            relu = builder.emit(relax.op.nn.relu(x))
            builder.emit(relax.op.sort(relu))  # no one reads it
            ordered = builder.emit(relax.op.sort(relu))
            tail = builder.emit(relax.op.negative(ordered))
            out = builder.emit_output(relax.op.exp(tail))
        builder.emit_func_output(out)
    module: tvm.ir.IRModule = builder.get()
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="one"),
        helper.make_node("Sorted", ["r"], ["s"], name="two"),
        helper.make_node("Exp", ["s"], ["y"], name="three"),
    ]
    graph = OnnxGraph(make(nodes, {"x": [2, 3]}, ["y"]))
    (said,) = nodes_without_kernel(module, graph, {"r": relu, "s": tail, "y": out})
    assert said.startswith("node 'two' (Sorted) of opset 13 has no kernel in this form")
