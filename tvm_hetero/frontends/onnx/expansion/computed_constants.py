"""What a node makes of constants: by onnx's reference evaluator, and by NumPy where that fails."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import onnx
from numpy.lib.array_utils import normalize_axis_index
from onnx import NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.util.untrusted_names import printable

Constant: TypeAlias = "TensorProto | np.ndarray"


def compute_constants(
    node: NodeProto, graph: OnnxGraph, feeds: dict[str, np.ndarray], origin: str
) -> dict[str, Constant]:
    """Return the outputs of a node by onnx's reference evaluator.

    Parameters
    ----------
    node : NodeProto
        Of the default domain.
    graph : OnnxGraph
        Whose opset counts.
    feeds : dict of str to ndarray
        Its operands.
    origin : str
        The node in words.

    Raises
    ------
    ModelError
        The evaluator fails.
    """
    if node.op_type == "ReduceMean" and not feeds[node.input[0]].size:
        # ONNX leaves the mean of nothing open; ONNX Runtime makes it 0, the reference no number.
        product = NodeProto()
        product.CopyFrom(node)
        product.op_type = "ReduceProd"
        made = compute_constants(product, graph, feeds, origin)
        return {name: np.zeros_like(each) for name, each in made.items()}
    anything = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [node],
        "one_node",
        [anything(name, TensorProto.FLOAT, None) for name in feeds],
        [anything(name, TensorProto.FLOAT, None) for name in node.output if name],
    )
    opset = [onnx.helper.make_opsetid("", graph.opset)]
    try:
        model = onnx.helper.make_model(body, opset_imports=opset)
        with np.errstate(all="ignore"):
            results = _by_numpy(node, feeds) or ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:
        raise ModelError(
            f"{origin} cannot be computed from its constants: onnx's reference says "
            f"{type(error).__name__}: {printable(error, 200)} If ONNX Runtime runs the model, "
            "please report it, with the model; else export the model again."
        ) from None
    names = [name for name in node.output if name]
    return {name: np.asarray(r) for name, r in zip(names, results, strict=True)}


def _by_numpy(node: NodeProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """Return what a node makes that onnx's reference (1.23) fails on; None of other nodes.

    GatherElements along an axis longer than 32 (numpy's `choose`), OneHot whose depth is a list of
    one, Mean of operands of which the first is not the largest, Flatten of nothing.
    """
    operands = [feeds[name] for name in node.input if name]
    if node.op_type == "GatherElements":
        data, indices = operands
        return [np.take_along_axis(data, indices, int(attribute(node, "axis", 0)))]
    if node.op_type == "Mean":
        dtype = operands[0].dtype
        return [(sum(operands, np.zeros((), dtype)) / len(operands)).astype(dtype)]
    if node.op_type == "Flatten":
        axis, dims = int(attribute(node, "axis", 1)), operands[0].shape
        axis = axis if axis >= 0 else axis + len(dims)
        return [operands[0].reshape(math.prod(dims[:axis]), math.prod(dims[axis:]))]
    if node.op_type == "OneHot" and operands[1].size == 1:
        return [_one_hot(operands[0], int(operands[1].item()), operands[2], node)]
    return None


def _one_hot(indices: np.ndarray, depth: int, values: np.ndarray, node: NodeProto) -> np.ndarray:
    wrapped = np.where(indices < 0, indices + depth, indices)
    axis = normalize_axis_index(int(attribute(node, "axis", -1)), indices.ndim + 1)
    places = np.arange(depth).reshape([-1, *[1] * (indices.ndim - axis)])
    return np.where(np.expand_dims(wrapped, axis) == places, values[1], values[0])
