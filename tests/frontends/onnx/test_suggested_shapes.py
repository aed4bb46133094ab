"""What an error suggests for open dimensions: each suggestion is then taken."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.frontends.onnx.models import make, value
from tvm_hetero.cli.shared.options import parse_shapes
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import check_model

Dims = Sequence[int | str | None] | None
PIXELS = {"w": np.zeros((4, 3, 3, 3), np.float32)}


def suggested(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The shapes that the error names, once as options and once in Python, and both the same."""
    with pytest.raises(ModelError) as caught:
        check_model(model)
    text = str(caught.value)
    options = [part.strip("'") for part in re.findall(r"--shape (\S+)", text)]
    found = re.search(r"shapes=(\{.*\}) in Python", text)
    assert found, text
    shapes = ast.literal_eval(found[1])
    assert parse_shapes(options) == shapes
    check_model(model, shapes=shapes)
    return shapes


def flattened(dims: Dims, features: int) -> onnx.ModelProto:
    """A convolution and a linear layer of so many features."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    return make(nodes, {"x": dims}, ["y"], {**PIXELS, "m": np.zeros((features, 2), np.float32)})


@pytest.mark.parametrize("dims", [["N", 3, "h", "w"], [-1, 3, -1, -1], [0, 3, 0, 0], [None] * 4])
def test_an_image_is_of_the_size_that_the_layers_want(dims: Dims) -> None:
    assert suggested(flattened(dims, 4 * 13 * 13)) == {"x": (1, 3, 28, 28)}
    assert suggested(flattened(dims, 4 * 111 * 111)) == {"x": (1, 3, 224, 224)}


def test_an_input_of_unknown_rank_has_what_its_convolution_wants() -> None:
    assert suggested(flattened(None, 4 * 13 * 13)) == {"x": (1, 3, 28, 28)}


def test_what_the_file_says_comes_first() -> None:
    model = make([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": [1, 3, "h", "w"]}, ["y"],
                 PIXELS)  # fmt: skip
    entry = model.metadata_props.add()
    entry.key, entry.value = "imgsz", "[384, 640]"
    assert suggested(model) == {"x": (1, 3, 384, 640)}


def test_declared_outputs_decide() -> None:
    model = make([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": [1, 3, "h", "w"]}, ["y"],
                 PIXELS)  # fmt: skip
    model.graph.output[0].CopyFrom(value("y", [1, 4, 94, 94]))
    assert suggested(model) == {"x": (1, 3, 96, 96)}


def joined(inputs: Mapping[str, Dims], nodes: list[NodeProto]) -> onnx.ModelProto:
    return make(nodes, inputs, ["y"])


def test_every_open_input_is_listed_and_symbols_agree() -> None:
    inputs = {"ids": ["batch", "seq"], "mask": ["batch", "seq"], "fixed": [1, 1]}
    nodes = [
        helper.make_node("Add", ["ids", "mask"], ["s"]),
        helper.make_node("Add", ["s", "fixed"], ["y"]),
    ]
    assert suggested(joined(inputs, nodes)) == {"ids": (1, 16), "mask": (1, 16)}


def test_a_sum_of_symbols_is_their_sum() -> None:
    inputs = {"past": ["b", 2, "past_len", 4], "new": ["b", 2, "len", 4],
              "mask": ["b", 1, "past_len + len", 1]}  # fmt: skip
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["all"], axis=2),
        helper.make_node("Mul", ["all", "mask"], ["y"]),
    ]
    assert suggested(joined(inputs, nodes))["mask"] == (1, 1, 32, 1)


def test_names_are_quoted_for_a_shell() -> None:
    model = make([helper.make_node("Relu", ["a;b"], ["y"])], {"a;b": ["n", 4]}, ["y"])
    assert suggested(model) == {"a;b": (1, 4)}


def test_no_sizes_are_made_up_where_none_fits() -> None:
    with pytest.raises(ModelError, match=r"pass --shape 'x=\?x3x\?x\?' .*none of the usual sizes"):
        check_model(flattened(["N", 3, "h", "w"], 12345))


def test_shapes_that_the_model_does_not_take_are_to_be_left_out() -> None:
    model = flattened(["N", 3, "h", "w"], 4 * 13 * 13)
    with pytest.raises(ModelError, match=r"shapes given \(x=1x3x30x30\) .* leave them out"):
        check_model(model, shapes={"x": (1, 3, 30, 30)})


def test_symbols_can_be_read() -> None:
    model = make([helper.make_node("Relu", ["x"], ["y"])], {"x": ["p2o.Dim.0", 3, None]}, ["y"])
    with pytest.raises(ModelError, match=r"'x' \[p2o\.Dim\.0, 3, \?\]"):
        check_model(model)


def test_a_zero_of_a_model_without_weights_is_meant() -> None:
    model = make([helper.make_node("ReduceSum", ["x"], ["y"])], {"x": [0, 3]}, ["y"])
    assert check_model(model).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 0
    opened = check_model(model, shapes={"x": (2, 3)})
    assert opened.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_a_scalar_can_be_spelled() -> None:
    model = make([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n"]}, ["y"])
    model.graph.input.append(value("sr", [], TensorProto.INT64))
    check_model(model, shapes=parse_shapes(["x=4", "sr=scalar"]))
    assert parse_shapes(["sr=", "rate=scalar"]) == {"sr": (), "rate": ()}
