"""Products of dequantized codes (QDQ) as products of the codes.

    MatMul(DequantizeLinear(a, s, z), DequantizeLinear(w, t, y))
        = s t * MatMulInteger(a, w, z, y)

exact up to the last multiplication, as ONNX Runtime computes it, and by instructions for bytes
where these fit (`byte_weights`). So for ``Gemm`` with a bias, where it is nothing but that. What is
quantized behind stays as it is.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper

from tvm_hetero.frontends.onnx.model.byte_weights import byte_weights
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.frontends.onnx.quantized.dequantized import (
    Dequantized,
    dequantized,
    scale_of_sums,
)
from tvm_hetero.frontends.onnx.quantized.plain_codes import CODES

_FLOAT = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))


def multiply_codes(graph: OnnxGraph) -> None:
    """Put products of codes in the place of products of what was made of them.

    Parameters
    ----------
    graph : OnnxGraph
        Changed in place; what is no such product stays.
    """
    makers = graph.makers()
    nodes: list[NodeProto] = []
    for node in graph.nodes:
        nodes += _product_of_codes(graph, makers, node) or [node]
    graph.nodes[:] = nodes


def _product_of_codes(
    graph: OnnxGraph, makers: dict[str, NodeProto], node: NodeProto
) -> list[NodeProto] | None:
    if node.domain or node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2:
        return None
    turned = node.op_type == "Gemm" and bool(attribute(node, "transB", 0))
    left = dequantized(graph, makers.get(node.input[0]))
    right = dequantized(graph, makers.get(node.input[1]))
    if left is None or right is None or not _is_plain(node):
        return None
    if left.scale.size != 1 or not left.zero or graph.array(left.zero).dtype != np.uint8:
        return None
    weights, factor = _weights(graph, right, turned=turned), scale_of_sums(left, right)
    if weights is None or factor is None:
        return None
    return _nodes(graph, node, left, weights, factor)


def _is_plain(node: NodeProto) -> bool:
    """Whether a product has neither factors nor a left side that is turned."""
    factors = [attribute(node, name, 1.0) for name in ("alpha", "beta")]
    return factors == [1.0, 1.0] and not attribute(node, "transA", 0)


def _weights(graph: OnnxGraph, right: Dequantized, *, turned: bool) -> np.ndarray | None:
    """Return constant weights as signed bytes (steps, columns), less their zero points.

    None for others, and where scales are not one for all, or one for each column.
    """
    if right.codes not in graph.constants or len(graph.shape(right.codes)) != 2:
        return None
    codes = graph.array(right.codes)
    columns = 0 if turned else 1
    if codes.dtype not in CODES or not right.is_scaled_along(columns, codes.shape):
        return None
    zero = graph.array(right.zero) if right.zero else None
    return byte_weights(codes.T if turned else codes, zero)


def _nodes(
    graph: OnnxGraph, node: NodeProto, left: Dequantized, weights: np.ndarray, scale: np.ndarray
) -> list[NodeProto]:
    """Return the product, its scale, and the bias that the node has."""

    def named(what: str) -> str:
        return graph.fresh(f"{node.output[0]}_{what}")

    codes, factor, total, number = (named(w) for w in ("weights", "scale", "sums", "numbers"))
    graph.made.charge(weights.nbytes, "a product of codes")
    graph.constants[codes] = np.ascontiguousarray(weights)
    graph.constants[factor] = scale
    bias = node.input[2] if len(node.input) > 2 else ""
    scaled = named("scaled") if bias else node.output[0]
    made = [
        helper.make_node("MatMulInteger", [left.codes, codes, left.zero], [total]),
        helper.make_node("Cast", [total], [number], to=_FLOAT),
        helper.make_node("Mul", [number, factor], [scaled]),
    ]
    if bias:
        made.append(helper.make_node("Add", [scaled, bias], [node.output[0]]))
    for each in made:
        each.name = graph.fresh(f"{node.name or node.output[0]}/{each.op_type}")
    graph.exact.add(scaled)
    return made
