"""Scales of Resize that make the same sizes for onnx as for those who compute with them.

A scale is a float32.  ONNX Runtime and TVM multiply in float32, where 3 x 5/3 is 5; onnx infers
shapes with more digits, by which it is 4.9999998, and rounds down to 4.  Where they differ, the
scale is made the next larger float32, of which both make 5.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.verify_types import OnnxTensorType, inferred_types

# Chains of so many such nodes, each of which reads what the one before makes, are settled.
_ROUNDS = 16


def settle_scales(model: onnx.ModelProto) -> None:
    """Change scales of `model` of which onnx would infer another size than float32 gives."""
    nodes = [node for node in model.graph.node if node.op_type in ("Resize", "Upsample")]
    for _ in range(min(len(nodes), _ROUNDS)):
        tensors = _tensors(model)
        found = _with_scales(nodes, tensors)
        types = inferred_types(OnnxGraph(model)) if found else {}
        settled = [_settle(model, node, tensors[name], types) for node, name in found]
        if not any(settled):
            return


def _with_scales(
    nodes: list[NodeProto], tensors: Mapping[str, TensorProto]
) -> list[tuple[NodeProto, str]]:
    """Nodes whose scales are constant, with the constant's name."""
    found = []
    for node in nodes:
        place = _place(node)
        if len(node.input) > place and node.input[place] in tensors:
            found.append((node, node.input[place]))
    return found


def _tensors(model: onnx.ModelProto) -> dict[str, TensorProto]:
    """Constants of float32 by name: initializers, and values of Constant nodes."""
    found = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            for value in (a.t for a in node.attribute if a.name == "value"):
                found[node.output[0]] = value
    return {name: t for name, t in found.items() if t.data_type == TensorProto.FLOAT}


def _settle(
    model: onnx.ModelProto,
    node: NodeProto,
    tensor: TensorProto,
    types: Mapping[str, OnnxTensorType],
) -> bool:
    """Give a node scales of its own if they must be others; returns whether they must."""
    type_ = types.get(node.input[0])
    scales = numpy_helper.to_array(tensor)
    if type_ is None or type_.dims is None or scales.shape != (len(type_.dims),):
        return False
    sizes = np.array([d or 0 for d in type_.dims], np.float32)
    short = np.floor(sizes.astype(np.float64) * scales) < np.floor(sizes * scales)
    if not short.any():
        return False
    settled = np.where(short, np.nextafter(scales, np.float32(np.inf)), scales)
    graph, place = OnnxGraph(model), _place(node)
    fresh = graph.fresh(f"{node.input[place]}_settled")
    model.graph.initializer.append(numpy_helper.from_array(settled, fresh))
    node.input[place] = fresh
    return True


def _place(node: NodeProto) -> int:
    """Which operand the scales are."""
    return 1 if node.op_type == "Upsample" or len(node.input) == 2 else 2
