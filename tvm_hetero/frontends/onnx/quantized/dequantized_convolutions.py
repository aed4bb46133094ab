"""Convolutions of dequantized codes (QDQ) as convolutions of the codes.

    QuantizeLinear(Conv(DequantizeLinear(x, s, z), DequantizeLinear(w, t, y), b), q, p)
        = QLinearConv(x, s, z, w, t, y, q, p, b / (s t))
    Conv(...) alone
        = s t * (ConvInteger(x, w, z, y) + b / (s t))

as ONNX Runtime computes it, and by instructions for bytes where these fit
(`quantized.convolutions`). A bias is one of codes of its own, whose scale is that of the sums; of
another one, it is added behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from tvm_hetero.frontends.onnx.model.byte_weights import byte_filters
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.frontends.onnx.quantized.dequantized import (
    Dequantized,
    dequantized,
    scale_of_sums,
)
from tvm_hetero.frontends.onnx.quantized.plain_codes import CODES, plain_codes

_FLOAT = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))
_WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
# How far the scale of a bias may be from that of the sums, relatively: two roundings.
_SAME = 3e-7
# Sums of as many products as `byte_filters` takes are below 2^30; int32 holds them with this bias.
_MOST_BIAS = 1 << 30


@dataclass(frozen=True)
class _Operands:
    """Both sides, the bias in codes ('' for none), and one of numbers that is added behind.

    ``filters`` are the weights less their zero points, sums are multiplied by ``factor``.
    """

    x: Dequantized
    weights: Dequantized
    filters: np.ndarray
    factor: np.ndarray
    bias: str
    added: str


def convolve_codes(graph: OnnxGraph) -> None:
    """Put convolutions of codes in the place of convolutions of what was made of them.

    Parameters
    ----------
    graph : OnnxGraph
        Changed in place; what is no such convolution stays.
    """
    makers, readers = graph.makers(), graph.consumers()
    made: dict[int, list[NodeProto]] = {}
    for node in graph.nodes:
        operands = _operands(graph, makers, node)
        if operands is None:
            continue
        last = _quantizer(graph, readers, node)
        if last is None or operands.added:
            made[id(node)] = _numbers(graph, node, operands)
        else:
            made[id(node)] = []
            made[id(last)] = [_codes(graph, node, last, operands)]
    graph.nodes[:] = [new for node in graph.nodes for new in made.get(id(node), [node])]


def _operands(graph: OnnxGraph, makers: dict[str, NodeProto], node: NodeProto) -> _Operands | None:
    """Return what a convolution of bytes reads; None for other nodes."""
    if node.domain or node.op_type != "Conv":
        return None
    x, weights = (dequantized(graph, makers.get(name)) for name in node.input[:2])
    if x is None or weights is None or x.scale.size != 1:
        return None
    if not x.zero or graph.array(x.zero).dtype not in CODES:
        return None
    filters, factor = _filters(graph, weights), scale_of_sums(x, weights)
    if filters is None or factor is None:
        return None
    given = node.input[2] if len(node.input) > 2 else ""
    known = dequantized(graph, makers.get(given))
    numbers = given if known is None else known.codes
    if numbers in graph.constants and graph.array(numbers).shape != (len(filters),):
        return None  # which is refused as a Conv's
    codes = _bias(graph, makers.get(given), factor, len(filters))
    return _Operands(x, weights, filters, factor, codes, "" if codes else given)


def _filters(graph: OnnxGraph, weights: Dequantized) -> np.ndarray | None:
    """Return constant bytes less their zero points, of one scale or of one by output channel."""
    if weights.codes not in graph.constants:
        return None
    codes = graph.array(weights.codes)
    if codes.dtype not in CODES or not weights.is_scaled_along(0, codes.shape):
        return None
    return byte_filters(codes, graph.array(weights.zero) if weights.zero else None)


def _bias(graph: OnnxGraph, maker: NodeProto | None, wanted: np.ndarray, count: int) -> str:
    """Return a bias in codes of the scale of the sums, '' where it is another one."""
    found = dequantized(graph, maker)
    if found is None or found.codes not in graph.constants:
        return ""
    codes = graph.array(found.codes)
    offset = graph.array(found.zero) if found.zero else np.zeros(1)
    if codes.dtype != np.int32 or codes.shape != (count,) or offset.any():
        return ""
    is_small = np.abs(codes.astype(np.int64)).max() <= _MOST_BIAS
    if not is_small or not found.is_scaled_along(0, codes.shape):
        return ""
    near = np.allclose(found.scale.reshape(-1), wanted, rtol=_SAME, atol=0.0)
    return found.codes if near else ""


def _quantizer(
    graph: OnnxGraph, readers: dict[str, list[NodeProto]], node: NodeProto
) -> NodeProto | None:
    """Return the node that makes codes of a result which nothing else reads."""
    result = node.output[0]
    after = readers.get(result, [])
    if len(after) != 1 or result in graph.output_names:
        return None
    (last,) = after
    makes_codes = last.input[:1] == [result] and plain_codes(graph, last) is not None
    return last if makes_codes else None


def _window(node: NodeProto) -> dict[str, object]:
    given = {name: attribute(node, name) for name in _WINDOW}
    return {name: value for name, value in given.items() if value is not None}


def _scale(graph: OnnxGraph, side: Dequantized, base: str) -> str:
    name = graph.fresh(f"{base}_scale")
    graph.constants[name] = side.scale.reshape(() if side.scale.size == 1 else -1)
    return name


def _codes(graph: OnnxGraph, node: NodeProto, last: NodeProto, of: _Operands) -> NodeProto:
    """Return the convolution that makes codes."""
    base = last.output[0]
    sides = [
        name
        for side in (of.x, of.weights)
        for name in (side.codes, _scale(graph, side, base), _zero(graph, side, base))
    ]
    operands = [*sides, *last.input[1:], *([of.bias] if of.bias else [])]
    made = helper.make_node("QLinearConv", operands, last.output, **_window(node))
    made.name = graph.fresh(node.name or base)
    return made


def _zero(graph: OnnxGraph, side: Dequantized, base: str) -> str:
    """Return a zero point, which QLinearConv demands; of constant codes where none is given."""
    if side.zero:
        return side.zero
    name = graph.fresh(f"{base}_zero")
    graph.constants[name] = np.zeros((), graph.array(side.codes).dtype)
    return name


def _numbers(graph: OnnxGraph, node: NodeProto, of: _Operands) -> list[NodeProto]:
    """Return the convolution, its scale, and the bias that is added behind."""

    def named(what: str) -> str:
        return graph.fresh(f"{node.output[0]}_{what}")

    ones = [1] * (of.filters.ndim - 2)
    column = [len(of.filters), *ones]
    total, number = named("sums"), named("numbers")
    scaled = named("scaled") if of.added else node.output[0]
    factor = named("scale")
    graph.constants[factor] = of.factor.reshape([-1, *ones])
    filters = named("filters")
    graph.constants[filters] = of.filters
    operands = [of.x.codes, filters, of.x.zero]
    made = [helper.make_node("ConvInteger", operands, [total], **_window(node))]
    if of.bias:
        biased, codes = named("biased"), named("bias")
        graph.constants[codes] = graph.array(of.bias).reshape(column)
        made.append(helper.make_node("Add", [total, codes], [biased]))
        total = biased
    made += [
        helper.make_node("Cast", [total], [number], to=_FLOAT),
        helper.make_node("Mul", [number, factor], [scaled]),
    ]
    if of.added:
        made += _added(graph, of.added, scaled, node.output[0], column)
    for each in made:
        each.name = graph.fresh(f"{node.name or node.output[0]}/{each.op_type}")
    graph.exact.add(scaled)
    return made


def _added(
    graph: OnnxGraph, bias: str, scaled: str, result: str, column: list[int]
) -> list[NodeProto]:
    """Return what adds a bias of numbers."""
    shape, placed = graph.fresh(f"{result}_column"), graph.fresh(f"{result}_bias")
    graph.constants[shape] = np.array(column, np.int64)
    return [
        helper.make_node("Reshape", [bias, shape], [placed]),
        helper.make_node("Add", [scaled, placed], [result]),
    ]
