"""Products of dequantized codes are products of the codes, where these are bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

from tests.frontends.onnx.contributed import Draw, number
from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import compute, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.quantized.dequantized_products import multiply_codes

DEPTH, COLUMNS = 48, 20


def pair(product: NodeProto, weights: np.ndarray, scale: np.ndarray, **more: Any) -> Any:
    """A product of quantized numbers and dequantized weights, its feeds and constants."""
    d = Draw()
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "xs", "xz"], ["numbers"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["weights"], **more),
        product,
    ]
    constants = {
        "xs": number(0.03), "xz": np.array(117, np.uint8), "w": weights, "ws": scale,
        "wz": np.zeros(scale.shape, weights.dtype), "bias": d.normal(COLUMNS),
    }  # fmt: skip
    constants = {k: v for k, v in constants.items() if k != "bias" or "bias" in product.input}
    feeds = {"x": d.normal(2, 9, DEPTH)}
    if product.op_type == "Gemm":
        feeds = {"x": d.normal(9, DEPTH)}
    return typed_model(nodes, feeds, constants, outputs=["y"]), feeds


def matmul() -> NodeProto:
    return helper.make_node("MatMul", ["numbers", "weights"], ["y"])


def gemm(**attributes: Any) -> NodeProto:
    return helper.make_node("Gemm", ["numbers", "weights", "bias"], ["y"], **attributes)


def operators(model: onnx.ModelProto) -> list[str]:
    graph = OnnxGraph(model)
    multiply_codes(graph)
    graph.sweep()
    return [node.op_type for node in graph.nodes]


def codes(*shape: int) -> np.ndarray:
    return Draw().codes(np.int8, *shape)


CASES = [
    pytest.param(matmul(), codes(DEPTH, COLUMNS), number(0.02), {}, id="one scale"),
    pytest.param(
        matmul(), codes(DEPTH, COLUMNS), Draw().scales(COLUMNS), {"axis": 1}, id="by column"
    ),
    pytest.param(
        gemm(transB=1), codes(COLUMNS, DEPTH), Draw().scales(COLUMNS), {"axis": 0}, id="gemm"
    ),
]


@pytest.mark.parametrize(("product", "weights", "scale", "more"), CASES)
def test_codes_are_multiplied_as_they_are(
    product: NodeProto, weights: np.ndarray, scale: np.ndarray, more: dict[str, int]
) -> None:
    model, feeds = pair(product, weights, scale, **more)
    behind = ["Add"] if product.op_type == "Gemm" else []
    assert operators(model) == ["QuantizeLinear", "MatMulInteger", "Cast", "Mul", *behind]
    (want,) = run(model, feeds)
    (got,) = compute(model, feeds)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize(
    ("product", "shape", "axis"),
    [
        (matmul(), (DEPTH, COLUMNS), 0),
        (gemm(alpha=0.5), (DEPTH, COLUMNS), 1),
        (gemm(transB=1), (COLUMNS, DEPTH), 1),
    ],
)
def test_scales_along_the_sum_and_factors_stay_as_they_are(
    product: NodeProto, shape: tuple[int, int], axis: int
) -> None:
    model, _ = pair(product, codes(*shape), Draw().scales(shape[axis]), axis=axis)
    assert "MatMulInteger" not in operators(model)


@pytest.mark.parametrize("axis", [3, -3])
def test_an_axis_that_is_not_there_is_refused_not_wrapped_around(axis: int) -> None:
    model, _ = pair(matmul(), codes(DEPTH, COLUMNS), Draw().scales(COLUMNS), axis=axis)
    with pytest.raises(ModelError, match=rf"names axis {axis}, and there are 2"):
        from_onnx(model)


def test_a_chain_of_codes_reads_each_value_once() -> None:
    """TVM's cast to bytes read it three times: n of them in a kernel were 3^n copies."""
    nodes, last = [], "x"
    for i in range(12):
        nodes.append(helper.make_node("QuantizeLinear", [last, "s", "z"], [f"q{i}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"]))
        nodes.append(helper.make_node("Neg", [f"d{i}"], [f"e{i}"]))
        last = f"e{i}"
    feeds = {"x": np.array([-3.0, -0.3, np.nan, np.inf, 0.26, 9.0], np.float32)}
    constants = {"s": number(0.01), "z": np.array(128, np.uint8)}
    model = typed_model(nodes, feeds, constants)
    assert "isfinite" not in from_onnx(model).script(show_meta=False)
    finite = np.isfinite(feeds["x"])
    (want,) = run(model, feeds)
    (got,) = compute(model, feeds)
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-6)
