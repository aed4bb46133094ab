"""Operands that DequantizeLinear makes of codes, for who computes with the codes themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute

_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class Dequantized:
    """An operand: its codes, zero point ('' for none) and scale (float32, of constants).

    ``axis`` is as the node names it: along which scales lie, if there are several.
    """

    codes: str
    zero: str
    scale: np.ndarray
    axis: int

    def is_scaled_along(self, axis: int, dims: Sequence[int]) -> bool:
        """Whether codes of these dimensions have one scale, or one for each place of an axis."""
        if self.scale.size == 1:
            return True
        return self.scale.shape == (dims[axis],) and self.axis in (axis, axis - len(dims))


def dequantized(graph: OnnxGraph, maker: NodeProto | None) -> Dequantized | None:
    """Return what a node dequantizes; None unless its scales are constants of float32.

    Parameters
    ----------
    graph : OnnxGraph
        The model.
    maker : NodeProto or None
        What makes a value.
    """
    if maker is None or maker.domain or maker.op_type != "DequantizeLinear":
        return None
    zero = maker.input[2] if len(maker.input) > 2 else ""
    known = all(name in graph.constants for name in (maker.input[1], zero) if name)
    if not known or attribute(maker, "block_size", 0) or attribute(maker, "output_dtype", 0):
        return None
    scale = graph.array(maker.input[1])
    if scale.dtype != np.float32 or (zero and graph.size(zero) != scale.size):
        return None
    return Dequantized(maker.input[0], zero, scale, int(attribute(maker, "axis", 1)))


def scale_of_sums(left: Dequantized, right: Dequantized) -> np.ndarray | None:
    """Return by what sums of products of codes are multiplied: (1,) or (columns,), float32.

    Parameters
    ----------
    left : Dequantized
        Of one scale.
    right : Dequantized
        Of one scale, or of one for each column.

    Returns
    -------
    ndarray or None
        None where float32 does not hold the product of the scales: multiplied one after the other
        they may give numbers.
    """
    exact = left.scale.reshape(-1).astype(np.float64) * right.scale.reshape(-1)
    size = np.abs(exact)
    held = (size == 0) | ((size >= _TINY) & (size <= np.finfo(np.float32).max))
    return exact.astype(np.float32) if held.all() else None
