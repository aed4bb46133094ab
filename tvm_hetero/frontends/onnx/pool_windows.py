"""Pools whose last windows onnx's shape inference mistakes, in a form of which it is right.

See `model.late_windows`.  This comes before declared outputs are compared with what is inferred:
PyTorch declares what it computes, and was refused for it.
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
from tvm_hetero.frontends.onnx.model.verify_types import (
    OnnxTensorType,
    declared_type,
    inferred_types,
)

_PADS_AS_ATTRIBUTE = 11


def settle_windows(model: onnx.ModelProto) -> None:
    """Write the pads of such pools out, in place.

    Outputs that are declared as onnx infers them from the pools as they were are declared anew.
    """
    if not any(n.op_type in POOLS and attribute(n, "ceil_mode", 0) for n in model.graph.node):
        return
    first = types = inferred_types(OnnxGraph(model))
    # One after the other: what a pool makes may be what the next one's windows are over.
    while _settle_first(model, types):
        types = inferred_types(OnnxGraph(model))
    if types is first:
        return
    for output in model.graph.output:
        found, mistaken = types.get(output.name), first.get(output.name)
        declared = declared_type(output)
        if found is not None and mistaken is not None and not declared.fits(found):
            if declared.fits(mistaken):
                output.type.tensor_type.ClearField("shape")


def _settle_first(model: onnx.ModelProto, types: dict[str, OnnxTensorType]) -> bool:
    """Settle the first pool that has late windows; returns whether there was one."""
    for place, node in enumerate(model.graph.node):
        if node.op_type not in POOLS or node.domain:
            continue
        type_ = types.get(node.input[0])
        if type_ is None or type_.dims is None or None in type_.dims:
            continue
        pads = pads_without_late_windows(node, [d or 0 for d in type_.dims])
        if pads is not None:
            _write_pads(model, place, pads)
            return True
    return False


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


def _set(node: NodeProto, name: str, value: int | list[int]) -> None:
    """Give an attribute of a node another value."""
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
