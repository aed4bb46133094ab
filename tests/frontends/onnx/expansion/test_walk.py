"""What the walk folds, replaces, keeps and refuses."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from tests.frontends.onnx.models import conv_relu, make, run, value
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.conversion.registry import converted_operators
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph


def expanded(model: onnx.ModelProto) -> OnnxGraph:
    """The graph of a model after the walk."""
    graph = OnnxGraph(model)
    expand_graph(graph, converted_operators())
    return graph


def operators(graph: OnnxGraph) -> list[str]:
    """The operators that are left, in order."""
    return [node.op_type for node in graph.nodes]


def same(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> OnnxGraph:
    """The graph after the walk, which computes what the model does."""
    graph = expanded(model)
    for ours, theirs in zip(run(graph.to_model(), feeds), run(model, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert ours.dtype == theirs.dtype
    return graph


X = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)}


def branch(name: str, nodes: list[NodeProto]) -> onnx.GraphProto:
    """A nested graph that gives 'r', float32 of any shape."""
    return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0], None)])


def if_on_shape() -> onnx.ModelProto:
    """If the first dimension of x is 2, its double, else its negative."""
    then = branch("then", [helper.make_node("Add", ["x", "x"], ["r"])])
    other = branch("else", [helper.make_node("Neg", ["x"], ["r2"])])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["d"]),
        helper.make_node("Equal", ["d", "two"], ["c"]),
        helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("Relu", ["i"], ["y"]),
    ]
    constants = {"zero": np.array(0), "two": np.array(2)}
    return make(nodes, {"x": [2, 3]}, ["y"], constants)


def test_the_branch_that_shapes_choose_takes_the_place_of_the_if() -> None:
    assert operators(same(if_on_shape(), X)) == ["Add", "Relu"]


def loop(steps: int) -> onnx.ModelProto:
    """Add x to a state in each step, and give all states on the way."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("Add", ["s", "x"], ["s_out"]),
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["s_out", "f"], ["scan"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [2, 3])],
        [value("c_out", [], TensorProto.BOOL), value("s_out", [2, 3]), value("scan", [2, 3])],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    return make([node], {"x": [2, 3]}, ["last", "all"], {"n": np.array(steps)})


def test_a_loop_of_known_length_is_unrolled() -> None:
    graph = same(loop(3), X)
    assert "Loop" not in operators(graph)
    assert operators(graph).count("Add") == 3


def test_a_loop_that_would_not_end_is_refused() -> None:
    graph = OnnxGraph(loop(2**40))
    with pytest.raises(ModelError, match=r"\(Loop\) is unrolled; its steps would make \d+ nodes"):
        expand_graph(graph, converted_operators(), OnnxLimits(nodes=100))


def test_a_loop_whose_steps_cannot_be_counted_ahead_grows_to_the_limit() -> None:
    model = loop(2**40)
    body = model.graph.node[0].attribute[0].g
    turns = [
        helper.make_node("Shape", ["s"], ["d"]),
        helper.make_node("ReduceMax", ["d"], ["e"], keepdims=0),
        helper.make_node("Less", ["i", "n"], ["f"]),
        helper.make_node("Cast", ["e"], ["g"], to=9),
        helper.make_node("And", ["f", "g"], ["c_out"]),
    ]
    kept = [*turns, *body.node[1:]]
    del body.node[:]
    body.node.extend(kept)
    limits = OnnxLimits(nodes=100)
    with pytest.raises(ModelError, match=r"node 0 \(Loop\) makes the model grow past 100 nodes"):
        expand_graph(OnnxGraph(model, limits), converted_operators(), limits)


def test_functions_of_the_model_are_inlined_with_their_attributes() -> None:
    function = helper.make_function(
        "own",
        "Scaled",
        ["a"],
        ["b"],
        [
            helper.make_node("Elu", ["a"], ["t"]),
            helper.make_node("LeakyRelu", ["t"], ["b"]),
        ],
        [helper.make_opsetid("", 13)],
        attributes=["alpha"],
    )
    reference = function.node[0].attribute.add()
    reference.name, reference.ref_attr_name = "alpha", "alpha"
    reference.type = onnx.AttributeProto.FLOAT
    nodes = [
        helper.make_node("Scaled", ["x"], ["h"], domain="own", alpha=0.5),
        helper.make_node("Scaled", ["h"], ["y"], domain="own", alpha=2.0),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function)
    assert operators(same(model, X)) == ["Elu", "LeakyRelu"] * 2


def test_functions_of_onnx_are_inlined() -> None:
    model = make([helper.make_node("Celu", ["x"], ["y"], alpha=2.0)], {"x": [2, 3]}, ["y"])
    assert "Celu" not in operators(same(model, X))


def test_everything_refused_is_said_at_once() -> None:
    nodes = [
        helper.make_node("ImageDecoder", ["x"], ["a"], name="one"),
        helper.make_node("Unknown", ["x"], ["b"], name="two", domain="com.example"),
        helper.make_node("Add", ["a", "b"], ["y"], name="behind"),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"], opset=20)
    with pytest.raises(ModelError) as caught:
        expanded(model)
    text = str(caught.value)
    assert text.startswith("2 nodes cannot be imported (opset 20):")
    assert "node 0 'one' (ImageDecoder) decodes image files" in text
    assert "node 1 'two' (com.example::Unknown) is of the domain 'com.example'" in text
    assert "behind" not in text


def test_what_makes_nothing_is_computed_whatever_it_reads() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "one", "one"], ["none"]),
        helper.make_node("Concat", ["none", "x"], ["y"], axis=0),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"], {"one": np.array([1])})
    assert operators(same(model, X)) == ["Concat"]


def test_old_operator_sets_are_converted() -> None:
    node = helper.make_node("Slice", ["x"], ["s"], starts=[1], ends=[3], axes=[1])
    model = make([node, helper.make_node("Relu", ["s"], ["y"])], {"x": [2, 3]}, ["y"], opset=9)
    module = from_onnx(model)
    assert [int(d) for d in module["main"].ret_ty.shape.values] == [2, 2]


def test_a_model_that_names_one_set_twice_is_taken() -> None:
    model = conv_relu()
    model.opset_import.append(helper.make_opsetid("", 13))
    assert from_onnx(model)["main"].ret_ty.ndim == 4
    model.opset_import.append(helper.make_opsetid("", 14))
    with pytest.raises(ModelError, match="two versions of the operator set"):
        from_onnx(model)


def test_a_function_of_which_onnx_infers_no_shape_is_inferred_by_its_body() -> None:
    node = helper.make_node("GreaterOrEqual", ["x", "zero"], ["y"])
    graph = OnnxGraph(make([node], {"x": [2, 3]}, ["y"], {"zero": np.zeros(3, np.float32)}))
    types = expand_graph(graph, {"GreaterOrEqual"})
    assert [d.dim_value for d in types["y"].tensor_type.shape.dim] == [2, 3]
