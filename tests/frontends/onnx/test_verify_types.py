"""What TVM makes of a value has the type and shape that ONNX gives it, or the model is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper
from tvm import relax

from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.frontends.onnx.models import Shape, conv_relu, make, random_feeds, run
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.static_types import static_shape
from tvm_hetero.frontends.onnx.model.verify_types import OnnxTensorType, TypeComparison

UP = helper.make_node(
    "ConvTranspose", ["x", "w"], ["c"], "up", strides=[2, 2], output_shape=[10] * 2
)
WEIGHT = np.ones((3, 4, 3, 3), np.float32)
KEEPS = ["", "", "z"]  # neither region nor scales, but sizes
RELU = helper.make_node("Relu", ["x"], ["y"], "relu")


def declared(node: NodeProto, kind: int, shape: Shape, opset: int = 13) -> onnx.ModelProto:
    """Return a model of one node on (2, 3) floats that declares its output ``y`` to be so."""
    graph = helper.make_graph(
        [node],
        "declared",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", kind, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


# TVM's importer takes each of these for something else; once they came in without a word.
MISTAKEN: list[tuple[Sequence[NodeProto], Sequence[int], Mapping[str, np.ndarray], int]] = [
    (
        [UP, helper.make_node("Relu", ["c"], ["y"])],
        [1, 3, 5, 5],
        {"w": WEIGHT},
        11,
    ),
    (  # behind it the shapes are the same again
        [UP, helper.make_node("GlobalAveragePool", ["c"], ["y"])],
        [1, 3, 5, 5],
        {"w": WEIGHT},
        11,
    ),
    (  # the mean was 0
        [
            helper.make_node("LayerNormalization", ["x", "s"], ["n", "m"]),
            helper.make_node("Sub", ["n", "m"], ["y"]),
        ],
        [3, 5],
        {"s": np.ones(5, np.float32)},
        17,
    ),
    (
        [helper.make_node("Resize", ["x", *KEEPS], ["y"], keep_aspect_ratio_policy="not_larger")],
        [1, 1, 8, 6],
        {"z": np.array([1, 1, 4, 4])},
        19,
    ),
]  # fmt: skip


NAMES = ["output_shape", "pooled output_shape", "mean", "aspect ratio"]


@pytest.mark.parametrize(("nodes", "shape", "constants", "opset"), MISTAKEN, ids=NAMES)
def test_what_tvm_takes_for_something_else_has_the_shape_that_onnx_runtime_makes(
    nodes: Sequence[NodeProto],
    shape: Sequence[int],
    constants: Mapping[str, np.ndarray],
    opset: int,
) -> None:
    model = make(nodes, {"x": shape}, ["y"], constants, opset)
    (expected,) = run(model, random_feeds(model))
    assert static_shape(from_onnx(model)["main"].ret_ty) == expected.shape


def refusal(imported: relax.Expr, outputs: Sequence[str] = ("c",)) -> str:
    """What is said where the transposed convolution comes out as `imported`."""
    graph = OnnxGraph(make([UP], {"x": [1, 3, 5, 5]}, outputs, {"w": WEIGHT}, 11))
    with pytest.raises(ModelError) as caught:
        TypeComparison(graph).refuse_wrong(UP, {"c": imported})
    return str(caught.value)


def test_another_shape_than_onnxs_is_refused_with_both_and_the_attributes() -> None:
    said = refusal(relax.const(np.zeros((1, 4, 11, 11), np.float32)))
    assert (
        "of its 'c' onnx infers float32 1x4x10x10, but our import makes it float32 1x4x11" in said
    )
    assert "'up' (ConvTranspose) of opset 11 is not taken in this form" in said
    assert "(attributes output_shape = [10, 10], str" in said
    assert "another form of the model" in said


def test_one_output_of_several_is_to_be_left_out_where_that_is_possible() -> None:
    wrong = relax.const(np.zeros((1, 4, 11, 11), np.float32))
    assert "If no one needs 'c', leave it out" not in refusal(wrong)
    assert "If no one needs 'c', leave it out" in refusal(wrong, ("c", "x"))


@pytest.mark.parametrize(
    ("kind", "shape", "both"),
    [
        (TensorProto.FLOAT, [2, 4], ("float32 2x4", "float32 2x3")),
        (TensorProto.FLOAT, [2, 3, 1], ("float32 2x3x1", "float32 2x3")),
        (TensorProto.INT64, [2, 3], ("int64 2x3", "float32 2x3")),
    ],
)
def test_a_wrong_declaration_is_named_beside_what_the_nodes_make(
    kind: int, shape: Shape, both: tuple[str, str]
) -> None:
    with pytest.raises(ModelError) as caught:
        from_onnx(declared(RELU, kind, shape))
    message = f"declares its output 'y' to be {both[0]}, but its own nodes make it {both[1]}, by"
    assert message in str(caught.value)
    assert "the Relu node 'relu'" in str(caught.value)


@pytest.mark.parametrize("shape", [None, [2, 3], ["batch", 3], [None, None], [2, "features"]])
def test_open_declarations_fit_whatever_comes(shape: Shape) -> None:
    module = from_onnx(declared(RELU, TensorProto.FLOAT, shape))
    assert static_shape(module["main"].ret_ty) == (2, 3)


def refuse_wrong(graph: OnnxGraph, values: dict[str, relax.Expr]) -> None:
    """Compare all nodes of a graph."""
    comparison = TypeComparison(graph)
    for node in graph.nodes:
        comparison.refuse_wrong(node, values)


def test_each_value_is_compared_by_its_own_name() -> None:
    # `c` has another channel count than the model's; `y` agrees.
    graph = OnnxGraph(conv_relu())
    right = relax.Var("y", relax.TensorType((1, 4, 8, 8), "float32"))
    wrong = relax.Var("c", relax.TensorType((1, 5, 8, 8), "float32"))
    refuse_wrong(graph, {"y": right, "c": right})
    refuse_wrong(graph, {"y": right})
    with pytest.raises(ModelError, match=r"node 'first' \(Conv\) .* its 'c' .*1x4x8x8.*1x5x8x8"):
        refuse_wrong(graph, {"y": right, "c": wrong})
    with pytest.raises(ModelError, match=r"node 'second' \(Relu\) .* its 'y' .* makes it float16"):
        refuse_wrong(graph, {"y": relax.Var("y", relax.TensorType((1, 4, 8, 8), "float16"))})


def test_a_symbolic_dimension_is_no_contradiction() -> None:
    graph = OnnxGraph(conv_relu())
    for open_ in (relax.TensorType(dtype="float32", ndim=4), relax.TensorType(dtype="float32")):
        refuse_wrong(graph, {"y": relax.Var("y", open_)})
    with pytest.raises(ModelError, match=r"makes it float32 \?x\?x\?\."):
        refuse_wrong(graph, {"y": relax.Var("y", relax.TensorType(dtype="float32", ndim=3))})


@pytest.mark.parametrize(
    ("one", "other", "fit"),
    [
        (OnnxTensorType("int8", (2, 3)), OnnxTensorType("int8", (2, 3)), True),
        (OnnxTensorType("int8", (2, 3)), OnnxTensorType("int8", (2, None)), True),
        (OnnxTensorType("int8", (2, 3)), OnnxTensorType("int8", None), True),
        (OnnxTensorType(None, (2, 3)), OnnxTensorType("int8", (2, 3)), True),
        (OnnxTensorType("int8", (2, 3)), OnnxTensorType("uint8", (2, 3)), False),
        (OnnxTensorType("int8", (2, 3)), OnnxTensorType("int8", (None, 4)), False),
        (OnnxTensorType("int8", (2, 3)), OnnxTensorType("int8", (2, 3, 1)), False),
        (OnnxTensorType("int8", ()), OnnxTensorType("int8", (1,)), False),
    ],
)
def test_types_fit_where_some_tensor_is_of_both(
    one: OnnxTensorType, other: OnnxTensorType, fit: bool
) -> None:
    assert one.fits(other) is fit and other.fits(one) is fit


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER"),
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1),
        helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], auto_pad="SAME_LOWER"),
        helper.make_node("ArgMax", ["x"], ["y"], axis=2),
        helper.make_node("IsNaN", ["x"], ["y"]),
        helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16),
        helper.make_node("Resize", ["x", "", "s"], ["y"]),
        helper.make_node("Squeeze", ["x"], ["y"]),
    ],
    ids=lambda node: node.op_type,
)
def test_right_models_are_taken(node: NodeProto) -> None:
    scales = np.array([1, 1, 0.6, 0.6], np.float32)
    model = make([node], {"x": [1, 3, 7, 7]}, ["y"], {"w": WEIGHT, "s": scales})
    graph = onnx.shape_inference.infer_shapes(without_output_types(model)).graph
    model.graph.output[0].CopyFrom(graph.output[0])
    [expected] = run(model, random_feeds(model))
    type_ = from_onnx(model)["main"].ret_ty
    assert (static_shape(type_), str(type_.dtype)) == (expected.shape, expected.dtype.name)


def without_output_types(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for output in copy.graph.output:
        output.ClearField("type")
    return copy


def test_control_characters_in_names_do_not_reach_the_message() -> None:
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["c\x1b[31m"], "\x1b]0;", output_shape=[12] * 2
    )
    model = make([node], {"x": [1, 3, 5, 5]}, ["c\x1b[31m"], {"w": WEIGHT}, 11)
    with pytest.raises(ModelError) as caught:
        from_onnx(model)
    assert "has output_shape [12, 12]" in str(caught.value) and str(caught.value).isprintable()
