"""Dimensions of inputs: which are open, and how they are shown.

Exporters write an open dimension as a symbol (``batch``), as nothing, as ``?`` or -1 (Paddle), or
as 0.  A 0 may also be meant: a cache that is empty at first.  In a model with weights it counts as
open, so that it must be given, as 0 or as what it is; a model without weights is no network, and is
taken at its word.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import onnx
from onnx import TensorShapeProto, ValueInfoProto

from tvm_hetero.frontends.onnx.model.tensors import FLOATS, all_tensors
from tvm_hetero.util.untrusted_names import printable

_NAMELESS = "?"
"""What PaddleOCR's exports name every open dimension: no symbol that binds two of them."""

_WEIGHTS = 16
"""Elements from which on a constant of floats is taken for a network's weights."""


def open_unwritten(model: onnx.ModelProto, given: Collection[str]) -> None:
    """Make dimensions of -1, and of 0 where it may stand for an open one, truly open, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        Inputs and outputs are changed, those of nested graphs too.
    given : collection of str
        Inputs whose shapes the user gives: there a 0 of the model holds nothing back.
    """
    for value in _values(model.graph):
        _open(value, -1)
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == _NAMELESS:
                dim.ClearField("dim_param")
    weights = any(
        tensor.data_type in FLOATS and math.prod(tensor.dims) >= _WEIGHTS
        for _, tensor in all_tensors(model)
    )
    opened = [_open(v, 0) for v in model.graph.input if weights or v.name in given]
    if any(opened):
        for value in model.graph.output:
            _open(value, 0)


def is_closed(value: ValueInfoProto) -> bool:
    """Whether a value's shape is known in numbers."""
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)


def shape_text(value: ValueInfoProto) -> str:
    """Return a shape to be read by people: ``[batch, 3, ?]``."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return "unknown rank"
    return printable(f"[{', '.join(_dim_text(d) for d in tensor.shape.dim)}]", 200)


def _dim_text(dim: TensorShapeProto.Dimension) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"


def _open(value: ValueInfoProto, number: int) -> bool:
    """Open the dimensions that are `number`; returns whether there was one."""
    found = [
        dim
        for dim in value.type.tensor_type.shape.dim
        if dim.HasField("dim_value") and dim.dim_value == number
    ]
    for dim in found:
        dim.ClearField("dim_value")
    return bool(found)


def _values(graph: onnx.GraphProto) -> Iterator[ValueInfoProto]:
    """Yield the inputs and outputs of a graph and of those within it."""
    yield from graph.input
    yield from graph.output
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _values(attribute.g)
