"""Windows that onnx's shape inference mistakes, in a form of which it is right.

It counts windows of pools that are none (`model.late_windows`).  Of transposed convolutions it adds
``output_padding`` to what SAME makes, and of an ``output_shape`` smaller than the operand it infers
some axes only (`model.transposed_pads`).

This comes before declared outputs are compared with what is inferred: PyTorch declares what it
computes, and was refused for it.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from tvm_hetero.frontends.onnx.model.late_windows import (
    POOLS,
    counts_padding,
    pads_without_late_windows,
    window_pads,
)
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.frontends.onnx.model.transposed_pads import (
    SAME,
    TooLargeError,
    auto_pad,
    transposed_pads,
)
from tvm_hetero.frontends.onnx.model.verify_types import (
    OnnxTensorType,
    declared_type,
    inferred_types,
)
from tvm_hetero.frontends.onnx.opsets import DEFAULT_DOMAINS

_PADS_AS_ATTRIBUTE = 11


def settle_windows(model: onnx.ModelProto) -> None:
    """Write the pads of such nodes out, in place.

    Outputs that are declared as onnx infers them from the nodes as they were are declared anew.
    """
    if not any(_may_be_mistaken(node) for node in model.graph.node):
        return
    first = types = inferred_types(OnnxGraph(model))
    # One after the other: what a node makes may be what the next one's windows are over.
    while _settle_first(model, types):
        types = inferred_types(OnnxGraph(model))
    if types is first:
        return
    for output in model.graph.output:
        found, mistaken = types.get(output.name), first.get(output.name)
        declared = declared_type(output)
        if found is None or mistaken is None or declared.fits(found):
            continue
        if declared.fits(mistaken):
            output.type.tensor_type.ClearField("shape")


def _may_be_mistaken(node: NodeProto) -> bool:
    """Whether a node is of a form of which onnx may infer something wrong."""
    if node.domain not in DEFAULT_DOMAINS:
        return False
    if node.op_type == "ConvTranspose":
        return bool(attribute(node, "output_shape")) or auto_pad(node) in SAME
    return node.op_type in POOLS and bool(attribute(node, "ceil_mode", 0))


def _settle_first(model: onnx.ModelProto, types: dict[str, OnnxTensorType]) -> bool:
    """Settle the first node that is of such a form; returns whether there was one."""
    for place, node in enumerate(model.graph.node):
        dims = _known_dims(types, node.input[0]) if _may_be_mistaken(node) else None
        if dims is None:
            continue
        settled = (
            _settle_transposed(model, node, dims, types)
            if node.op_type == "ConvTranspose"
            else _settle_pool(model, place, dims)
        )
        if settled:
            return True
    return False


def _known_dims(types: dict[str, OnnxTensorType], name: str) -> list[int] | None:
    found = types.get(name)
    known = [d for d in (found.dims if found and found.dims else ()) if d is not None]
    return known if found and found.dims and len(known) == len(found.dims) else None


def _settle_transposed(
    model: onnx.ModelProto, node: NodeProto, dims: list[int], types: dict[str, OnnxTensorType]
) -> bool:
    """Write out the pads of a transposed convolution; what cannot be made is refused later."""
    constants = {t.name: list(t.dims) for t in model.graph.initializer}
    weights = constants.get(node.input[1]) or _known_dims(types, node.input[1])
    try:
        pads = transposed_pads(node, dims[2:], weights[2:]) if weights else None
    except TooLargeError:
        return False
    for name in ("auto_pad", "output_shape") if pads else ():
        _set(node, name, None)
    for name, value in (pads or {}).items():
        _set(node, name, value)
    return pads is not None


def _settle_pool(model: onnx.ModelProto, place: int, dims: list[int]) -> bool:
    """Write out the pads of a pool if a window of it starts behind the operand."""
    pads = pads_without_late_windows(model.graph.node[place], dims)
    if pads is not None:
        _write_pads(model, place, pads)
    return pads is not None


def _write_pads(model: onnx.ModelProto, place: int, pads: list[int]) -> None:
    """Give a pool these pads.

    Padding that an average counts ends where it was given to end: what a window reaches beyond is
    not counted.  That has no form of its own, so what is counted is padded by a node in front.
    """
    node = model.graph.node[place]
    rank = len(pads) // 2
    given = window_pads(node, rank)
    if counts_padding(node) and any(more > asked for more, asked in zip(pads, given, strict=True)):
        counted = [min(more, asked) for more, asked in zip(pads, given, strict=True)]
        _set(node, "count_include_pad", 0)
        padded = _pad(model, node.input[0], counted)
        pads = [more - inside for more, inside in zip(pads, counted, strict=True)]
        model.graph.node.insert(place, padded)
        node = model.graph.node[place + 1]
        node.input[0] = padded.output[0]
    _set(node, "pads", pads)
    _set(node, "ceil_mode", 0)


def _pad(model: onnx.ModelProto, name: str, pads: list[int]) -> NodeProto:
    """Return a node that pads all axes but the first two with zeros."""
    graph = OnnxGraph(model)
    half = len(pads) // 2
    every = [0, 0, *pads[:half], 0, 0, *pads[half:]]
    made = graph.fresh(f"{name}_padded")
    if graph.opset < _PADS_AS_ATTRIBUTE:
        return helper.make_node("Pad", [name], [made], pads=every)
    constant = graph.fresh(f"{made}_by")
    model.graph.initializer.append(numpy_helper.from_array(np.array(every, np.int64), constant))
    return helper.make_node("Pad", [name, constant], [made])


def _set(node: NodeProto, name: str, value: int | list[int] | None) -> None:
    """Give an attribute of a node another value, or none."""
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))
