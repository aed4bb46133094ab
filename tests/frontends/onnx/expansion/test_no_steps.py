"""Loops of no steps: what they stack is empty, and what reads it goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from tests.frontends.onnx.expansion.test_walk import X, expanded, operators, same
from tests.frontends.onnx.models import make, run, value
from tests.frontends.onnx.running import assert_same
from tvm_hetero.errors import ModelError

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
CONSTANTS = {
    "zero": np.array(0), "minus": np.array(-3), "stop": np.array(False), "many": np.array(7),
    "first": np.array([0]), "half": np.array(0.5, np.float32),
    "rows": np.zeros(0, np.int64), "far": np.array([2]), "bias": np.ones(6, np.float32),
    "none_by_one": np.array([0, 1]), "none_by_three": np.array([0, 3]),
    "none_by_two": np.array([0, 2]),
    "pads": np.array([1, 0, 1, 0]),
}  # fmt: skip


def body(
    piece: Sequence[int | str] | None = None, state: Sequence[int] | None = (2, 3)
) -> GraphProto:
    """Add x to a state, and stack the doubles of it."""
    return helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("Add", ["s", "x"], ["s_out"]),
            helper.make_node("Add", ["s_out", "s_out"], ["piece"]),
        ],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s", state)],
        [value("c_out", [], BOOL), value("s_out", None), value("piece", piece)],
    )


def loop(
    trips: str, condition: str, inner: GraphProto, then: Sequence[NodeProto] = (),
    outputs: Sequence[str] = ("last", "all"),
) -> ModelProto:  # fmt: skip
    """A loop, and what reads what it stacks."""
    node = helper.make_node("Loop", [trips, condition, "x"], ["last", "all"], body=inner)
    return make([node, *then], {"x": [2, 3]}, outputs, CONSTANTS, opset=18)


@pytest.mark.parametrize(
    ("trips", "condition"), [("zero", ""), ("minus", ""), ("many", "stop"), ("", "stop")]
)
def test_what_a_loop_of_no_steps_stacks_is_empty(trips: str, condition: str) -> None:
    model = loop(trips, condition, body())
    graph = same(model, X)
    assert run(graph.to_model(), X)[1].shape == (0, 2, 3)
    assert "Add" not in operators(graph)


@pytest.mark.parametrize(("piece", "state"), [([2, 3], None), (None, [2, 3]), ([2, "n"], [2, 3])])
def test_the_shape_of_a_piece_is_what_the_body_says_or_what_follows(
    piece: list[int | str] | None, state: list[int] | None
) -> None:
    same(loop("zero", "", body(piece, state)), X)


def test_a_piece_whose_shape_is_not_known_is_refused() -> None:
    """What is carried may have any shape later on; ONNX Runtime makes it one of 0 elements."""
    model = loop("zero", "", body(None, None))
    model.graph.node[0].attribute[0].g.node[1].CopyFrom(
        helper.make_node("Concat", ["s", "x"], ["s_out"], axis=0)
    )
    with pytest.raises(ModelError, match="of what shape 'all' is then does not follow"):
        expanded(model)


def test_a_piece_that_is_not_as_the_body_states_it_is_refused() -> None:
    with pytest.raises(ModelError, match="of what shape 'all' is then does not follow"):
        expanded(loop("zero", "", body([5, 3])))


@pytest.mark.parametrize("dims", [[2**62, 2**62], [2**31, 0, 2**40]])
def test_nothing_of_a_shape_that_no_tensor_has_is_refused(dims: list[int]) -> None:
    """It was called a fault of ours: NumPy counts the bytes as if no dimension were 0."""
    with pytest.raises(ModelError, match=r"is of shape 0x.* too large"):
        expanded(loop("zero", "", body(dims, None)))


def test_a_body_that_reads_rows_that_there_are_not_is_not_run() -> None:
    """The first row of none would be no valid index."""
    inner = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("Gather", ["none", "i"], ["row"], axis=0),
            helper.make_node("Mul", ["row", "half"], ["piece"]),
        ],
        "body",
        [value("i", [], INT64), value("c", [], BOOL)],
        [value("c_out", [], BOOL), value("piece", None)],
    )
    nodes = [
        helper.make_node("Slice", ["x", "far", "far"], ["none"]),
        helper.make_node("Shape", ["none"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["length"]),
        helper.make_node("Loop", ["length", ""], ["all"], body=inner),
        helper.make_node("Concat", ["all", "x"], ["y"], axis=0),
    ]
    model = make(nodes, {"x": [2, 3]}, ["all", "y"], CONSTANTS)
    assert operators(same(model, X)) == ["Concat"]


def test_a_loop_of_no_steps_in_a_loop_reads_what_is_around_both() -> None:
    inner = helper.make_graph(
        [
            helper.make_node("Identity", ["c1"], ["e1"]),
            helper.make_node("MatMul", ["s0", "turned"], ["piece"]),
        ],
        "inner",
        [value("i1", [], INT64), value("c1", [], BOOL)],
        [value("e1", [], BOOL), value("piece", None)],
    )
    outer = helper.make_graph(
        [
            helper.make_node("Identity", ["c0"], ["e0"]),
            helper.make_node("Loop", ["i0", ""], ["pieces"], body=inner),
            helper.make_node("ReduceSum", ["pieces"], ["sum"], keepdims=0),
            helper.make_node("Add", ["s0", "sum"], ["s1"]),
        ],
        "outer",
        [value("i0", [], INT64), value("c0", [], BOOL), value("s0", [2, 3])],
        [value("e0", [], BOOL), value("s1", [2, 3])],
    )
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"]),
        helper.make_node("Loop", ["three", "", "x"], ["y"], body=outer),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"], {"three": np.array(3)})
    # Of the three steps of the outer loop, the first has none of the inner one.
    assert operators(same(model, X)).count("MatMul") == 3


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scan_over_nothing_keeps_its_state_and_stacks_nothing(axis: int) -> None:
    inner = helper.make_graph(
        [
            helper.make_node("Add", ["s", "row"], ["s_out"]),
            helper.make_node("Concat", ["s", "row"], ["piece"], axis=0),
        ],
        "body",
        [value("s", None), value("row", None)],
        [value("s_out", None), value("piece", None)],
    )
    scan = helper.make_node("Scan", ["start", "none"], ["last", "all"], body=inner,
                            num_scan_inputs=1, scan_output_axes=[axis])  # fmt: skip
    start = np.arange(3, dtype=np.float32)
    model = make([scan], {"none": [0, 3]}, ["last", "all"], {"start": start})
    # ONNX Runtime has no Scan over nothing.
    last, pieces = run(expanded(model).to_model(), {"none": np.zeros((0, 3), np.float32)})
    np.testing.assert_array_equal(last, start)
    assert pieces.shape == ((0, 6) if axis == 0 else (6, 0))


READERS: dict[str, list[NodeProto]] = {
    "Concat": [helper.make_node("Unsqueeze", ["x", "first"], ["x1"]),
               helper.make_node("Concat", ["all", "x1", "all"], ["y"], axis=0)],
    "ReduceSum": [helper.make_node("ReduceSum", ["all", "first"], ["r"], keepdims=0),
                  helper.make_node("Add", ["r", "x"], ["y"])],
    "ReduceProd": [helper.make_node("ReduceProd", ["all", "first"], ["r"], keepdims=0),
                   helper.make_node("Add", ["r", "x"], ["y"])],
    "ReduceL1": [helper.make_node("ReduceL1", ["all", "first"], ["r"], keepdims=0),
                 helper.make_node("Add", ["r", "x"], ["y"])],
    "ReduceSumSquare": [helper.make_node("ReduceSumSquare", ["all", "first"], ["r"], keepdims=0),
                        helper.make_node("Add", ["r", "x"], ["y"])],
    "ReduceLogSumExp": [helper.make_node("ReduceLogSumExp", ["all", "first"], ["r"], keepdims=0),
                        helper.make_node("Max", ["r", "x"], ["y"])],
    "ReduceMax": [helper.make_node("ReduceMax", ["all", "first"], ["r"], keepdims=0),
                  helper.make_node("Max", ["r", "x"], ["y"])],
    "ReduceLogSum": [helper.make_node("ReduceLogSum", ["all", "first"], ["r"], keepdims=0),
                     helper.make_node("Max", ["r", "x"], ["y"])],
    "ReduceMean": [helper.make_node("ReduceMean", ["all", "first"], ["r"], keepdims=0),
                   helper.make_node("Add", ["r", "x"], ["y"])],
    "Shape": [helper.make_node("Shape", ["all"], ["d"]),
              helper.make_node("Cast", ["d"], ["f"], to=FLOAT),
              helper.make_node("Add", ["f", "x"], ["y"])],
    "Gather": [helper.make_node("Gather", ["all", "rows"], ["g"], axis=0),
               helper.make_node("Concat", ["g", "all"], ["y"], axis=2)],
    "elementwise": [helper.make_node("Add", ["all", "x"], ["a"]),
                    helper.make_node("Softmax", ["a"], ["y"], axis=-1)],
    "MatMul": [helper.make_node("Transpose", ["all"], ["t"], perm=[1, 2, 0]),
               helper.make_node("Transpose", ["all"], ["u"], perm=[1, 0, 2]),
               helper.make_node("MatMul", ["t", "u"], ["m"]),
               helper.make_node("ReduceSum", ["m", "first"], ["z"], keepdims=0),
               helper.make_node("MatMul", ["x", "z"], ["y"])],
    "Einsum": [helper.make_node("Einsum", ["all", "all"], ["e"], equation="nij,nik->jk"),
               helper.make_node("MatMul", ["x", "e"], ["y"])],
    "Gemm": [helper.make_node("Transpose", ["all"], ["t"], perm=[0, 2, 1]),
             helper.make_node("Flatten", ["all"], ["f"], axis=1),
             helper.make_node("Gemm", ["f", "f", "bias"], ["y"], transA=1)],
    "ScatterND": [helper.make_node("Cast", ["all"], ["places"], to=INT64),
                  helper.make_node("Reshape", ["places", "none_by_one"], ["p"]),
                  helper.make_node("Reshape", ["all", "none_by_three"], ["u"]),
                  helper.make_node("ScatterND", ["x", "p", "u"], ["y"])],
    "Split": [helper.make_node("Split", ["all"], ["l", "r"], axis=1, num_outputs=2),
              helper.make_node("Concat", ["l", "r"], ["y"], axis=0)],
    "Pad": [helper.make_node("Reshape", ["all", "none_by_three"], ["u"]),
            helper.make_node("Pad", ["u", "pads", "half"], ["p"]),
            helper.make_node("Add", ["p", "x"], ["y"])],
    "NonZero": [helper.make_node("NonZero", ["all"], ["n"]),
                helper.make_node("Size", ["n"], ["d"]),
                helper.make_node("Cast", ["d"], ["f"], to=FLOAT),
                helper.make_node("Add", ["f", "x"], ["y"])],
}  # fmt: skip


@pytest.mark.filterwarnings("error:Mean of empty slice")
@pytest.mark.parametrize("reader", READERS)
def test_what_reads_an_empty_tensor_goes_on(reader: str) -> None:
    assert_same(loop("zero", "", body(), READERS[reader], ("y",)), X)


def test_a_product_over_nothing_that_is_added_to_data_is_refused() -> None:
    """TVM's kernels write nothing where nothing is summed: what came out was what memory held."""
    nodes = [
        helper.make_node("Reshape", ["all", "none_by_three"], ["rows"]),
        helper.make_node("Reshape", ["all", "none_by_two"], ["others"]),
        helper.make_node("Gemm", ["others", "rows", "x"], ["y"], transA=1),
    ]
    with pytest.raises(
        ModelError, match=r"\(Gemm\) makes something of '.*', which has no elements"
    ):
        expanded(loop("zero", "", body(), nodes, ("y",)))
