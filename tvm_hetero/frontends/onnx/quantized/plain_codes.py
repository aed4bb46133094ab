"""Codes of eight bits with one scale and one zero point: what QuantizeLinear mostly makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute

CODES = (np.uint8, np.int8)
"""Types of codes that kernels for bytes take."""

# Attributes by which a node makes or reads other codes.
_OTHERS = ("block_size", "output_dtype", "precision")


@dataclass(frozen=True)
class PlainCodes:
    """Codes of one scale (float32, a normal number above 0), a zero point, and what bounds them."""

    scale: float
    zero: int
    least: int
    most: int


def plain_codes(
    graph: OnnxGraph, node: NodeProto, kind: str = "QuantizeLinear"
) -> PlainCodes | None:
    """Return what codes a node makes or reads; None for other nodes, and where data decide it.

    Parameters
    ----------
    graph : OnnxGraph
        The model.
    node : NodeProto
        Any one.
    kind : str
        ``QuantizeLinear`` or ``DequantizeLinear``.
    """
    names = [name for name in node.input[1:] if name]
    if node.op_type != kind or node.domain or len(names) != len(("scale", "zero point")):
        return None
    if any(name not in graph.constants or graph.size(name) != 1 for name in names):
        return None
    if any(attribute(node, name, 0) for name in _OTHERS):
        return None
    scale, zero = (graph.array(name).reshape(()) for name in names)
    if scale.dtype != np.float32 or zero.dtype not in CODES:
        return None
    if not np.finfo(np.float32).tiny <= scale < np.inf:
        return None  # what is divided by a smaller one may be infinite
    limits = np.iinfo(zero.dtype)
    return PlainCodes(float(scale), int(zero), int(limits.min), int(limits.max))
