"""Codes are made before data are moved, and are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import compute, typed_model
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.quantized.early_codes import quantize_early

RNG = np.random.default_rng(1)
FEEDS = {name: RNG.standard_normal((1, 4, 6, 6)).astype(np.float32) for name in ("a", "b")}
CONSTANTS = {"s": np.float32(0.03), "t": np.float32(0.05), "z": np.uint8(100)}


def node(kind: str, reads: str, makes: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, reads.split(), makes.split(), **attributes)


ABS = [node("Abs", "a", "p"), node("Neg", "b", "q")]
JOIN = node("Concat", "p q", "j", axis=1)
POOL = node("MaxPool", "j", "m", kernel_shape=[3, 3], pads=[1] * 4)
TURN = node("Transpose", "m", "n", perm=[0, 2, 1, 3])
CODES = node("QuantizeLinear", "n s z", "y")
MOVED = [*ABS, JOIN, POOL, TURN, CODES]


def kinds_of(nodes: list[NodeProto]) -> tuple[list[str], onnx.ModelProto]:
    """The operators once codes were moved up, and the model."""
    model = typed_model(nodes, FEEDS, CONSTANTS)
    graph = OnnxGraph(model)
    quantize_early(graph)
    return [n.op_type for n in graph.nodes], graph.to_model()


def test_codes_are_made_first_and_are_the_same() -> None:
    kinds, moved = kinds_of(MOVED)
    assert kinds == ["Abs", "Neg", *["QuantizeLinear"] * 2, "Concat", "MaxPool", "Transpose"]
    model = typed_model(MOVED, FEEDS, CONSTANTS)
    (expected,) = run(model, FEEDS)
    np.testing.assert_array_equal(run(moved, FEEDS)[0], expected)
    np.testing.assert_array_equal(compute(model, FEEDS)[0], expected)


def test_equal_codes_of_one_value_are_made_once() -> None:
    """As in an Inception module: a pool and convolutions read one value by the same scale."""
    again = [node("QuantizeLinear", "j s z", "k"), node("DequantizeLinear", "k s z", "o")]
    kinds, moved = kinds_of([*MOVED, *again])
    assert kinds.count("QuantizeLinear") == 2
    for found, expected in zip(
        run(moved, FEEDS), run(typed_model([*MOVED, *again], FEEDS, CONSTANTS), FEEDS), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_codes_that_were_there_before_are_taken() -> None:
    before = [node("QuantizeLinear", "a s z", "c"), node("DequantizeLinear", "c s z", "j")]
    kinds, moved = kinds_of([*before, POOL, TURN, CODES, node("Abs", "b", "unread")])
    assert kinds.count("QuantizeLinear") == 1 and "DequantizeLinear" in kinds
    model = typed_model([*before, POOL, TURN, CODES, node("Abs", "b", "unread")], FEEDS, CONSTANTS)
    np.testing.assert_array_equal(run(moved, FEEDS)[0], run(model, FEEDS)[0])


@pytest.mark.parametrize(
    "others",
    [
        [node("Abs", "p", "o")],  # a number of it is read, too
        [node("Abs", "n", "o")],
        [node("QuantizeLinear", "n t z", "o")],
    ],
)
def test_what_would_be_written_twice_stays(others: list[NodeProto]) -> None:
    kinds, _ = kinds_of([*MOVED, *others])
    assert kinds.index("Concat") < kinds.index("QuantizeLinear")


def test_what_an_inner_graph_reads_stays_there() -> None:
    """A Loop captures the codes that it starts from; they equal others, and become those."""
    start = onnx.helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", "go", "on"), node("Max", "state k", "next")],
        "body",
        [
            start("i", onnx.TensorProto.INT64, []),
            start("go", onnx.TensorProto.BOOL, []),
            start("state", onnx.TensorProto.UINT8, None),
        ],
        [
            start("on", onnx.TensorProto.BOOL, []),
            start("next", onnx.TensorProto.UINT8, (1, 4, 6, 6)),
        ],
    )
    nodes = [node("QuantizeLinear", "p s z", "y"), node("DequantizeLinear", "y s z", "d"),
             node("QuantizeLinear", "p s z", "k")]  # fmt: skip
    loop = helper.make_node("Loop", ["two", "", "k"], ["last"], body=body)
    constants = {**CONSTANTS, "two": np.array(2, np.int64)}
    del constants["t"]
    feeds = {"a": FEEDS["a"]}
    model = typed_model([ABS[0], *nodes, loop], feeds, constants)
    graph = OnnxGraph(model)
    quantize_early(graph)
    assert [n.op_type for n in graph.nodes].count("QuantizeLinear") == 1
    for found, expected in zip(run(graph.to_model(), feeds), run(model, feeds), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_codes_of_an_input_are_not_made_before_a_pool() -> None:
    """No kernel makes an input that could write its codes, and there are more of them."""
    pool = node("MaxPool", "a", "n", kernel_shape=[3, 3], strides=[3, 3])
    model = typed_model([pool, CODES], {"a": FEEDS["a"]}, {k: CONSTANTS[k] for k in "sz"})
    graph = OnnxGraph(model)
    quantize_early(graph)
    assert [n.op_type for n in graph.nodes] == ["MaxPool", "QuantizeLinear"]


@pytest.mark.parametrize(
    ("bounded", "zero", "left"),
    [
        (node("Relu", "a", "n"), 0, []),
        (node("Relu", "a", "n"), 100, ["Relu"]),
        (node("Clip", "a least most", "n"), 0, []),
        (node("Clip", "a least three", "n"), 0, ["Clip"]),  # below the greatest code
        (node("Clip", "a", "n"), 0, []),
        (node("Clip", "a b0", "n"), 0, ["Clip"]),  # not known
    ],
)
def test_bounds_that_codes_have_anyway_are_left_out(
    bounded: NodeProto, zero: int, left: list[str]
) -> None:
    numbers = {"least": 0.0, "most": 8.0, "three": 3.0}
    constants = {"s": np.float32(0.03), "z": np.uint8(zero)}
    constants |= {name: np.float32(value) for name, value in numbers.items()}
    feeds = {"a": 5 * FEEDS["a"], "b0": np.array(0.5, np.float32)}
    if "b0" not in bounded.input:
        del feeds["b0"]
    read = {name for each in (bounded, CODES) for name in each.input}
    used = {name: value for name, value in constants.items() if name in read}
    model = typed_model([bounded, CODES], feeds, used)
    graph = OnnxGraph(model)
    quantize_early(graph)
    assert [n.op_type for n in graph.nodes] == [*left, "QuantizeLinear"]
    np.testing.assert_array_equal(run(graph.to_model(), feeds)[0], run(model, feeds)[0])
