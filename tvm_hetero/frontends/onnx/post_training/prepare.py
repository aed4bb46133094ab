"""A float model as a quantiser likes it, and its nodes that kernels for bytes would take.

A BatchNormalization behind a convolution is folded into it first: quantised apart, it would widen
the ranges of what lies between. Scales by output channel need opset 13.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper

from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.identity_removal import no_training
from tvm_hetero.frontends.onnx.model.byte_weights import MOST_STEPS
from tvm_hetero.frontends.onnx.model.isolation import run_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.model_answer import large_tensors, pack_model, unpack_model
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute, element_type
from tvm_hetero.frontends.onnx.opsets import convert_opset
from tvm_hetero.frontends.onnx.simplify import simplify_graph
from tvm_hetero.processes.forked_child import Section

QUANTIZED_TYPES = ("Conv", "Gemm", "MatMul")
"""Operators for which there are kernels of bytes."""

_OF_CODES = frozenset(
    {
        "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "MatMulNBits",
        "QGemm", "QLinearConv", "QLinearMatMul", "QuantizeLinear",
    }
)  # fmt: skip
# Channels of a word, and points of the largest window of bytes (`quantized.convolutions`).
_WORD, _LARGEST_WINDOW = 4, 2**24 // (255 * 128)
_OF_LINE, _OF_IMAGE = 3, 4


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether a model computes with codes already."""
    return any(node.op_type in _OF_CODES for node in model.graph.node)


def prepare_model(model: onnx.ModelProto, limits: OnnxLimits = DEFAULT_LIMITS) -> onnx.ModelProto:
    """Return a model that computes the same, of opset 13 or later, folded, each node with a name.

    Parameters
    ----------
    model : onnx.ModelProto
        As `load_model` returns it; not changed.
    limits : OnnxLimits
        Caps on what folding may make.

    Raises
    ------
    ModelError
        The model is refused.
    """

    def work() -> list[Section]:
        before = large_tensors(model)
        convert_opset(model)
        graph = OnnxGraph(model, limits)
        no_training(graph)
        graph.sweep()
        expand_graph(graph, None, limits)
        simplify_graph(graph)
        _name_nodes(graph)
        kept = {name for name, t in graph.constants.items() if t is before.get(name)}
        return pack_model(graph.to_model(), kept)

    prepared = onnx.ModelProto()
    prepared.CopyFrom(model)
    unpack_model(run_isolated(work, model, limits), prepared)
    return prepared


def _name_nodes(graph: OnnxGraph) -> None:
    """Give every node a name of its own, by which a quantiser is told of it."""
    counts = Counter(node.name for node in graph.nodes)
    for node in graph.nodes:
        if not node.name or counts[node.name] > 1:
            node.name = graph.fresh(f"{node.op_type}_{node.output[0]}")


def quantizable_nodes(model: onnx.ModelProto) -> list[NodeProto]:
    """Return the nodes of a prepared model that kernels for bytes take once they are quantised.

    They multiply what is computed by constants of float32; those within branches are none of them,
    since inputs for calibration may take only one.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    tests = {"Conv": _takes_convolution, "Gemm": _takes_gemm, "MatMul": _takes_product}
    return [
        node
        for node in model.graph.node
        if not node.domain and node.op_type in tests
        if node.input[0] not in tensors and tests[node.op_type](node, tensors)
    ]


Tensors = dict[str, TensorProto]


def _is_float(tensors: Tensors, name: str) -> bool:
    """Whether a name is that of finite numbers of float32: others have no scale."""
    if name not in tensors or element_type(tensors[name]) != TensorProto.FLOAT:
        return False
    return bool(np.isfinite(numpy_helper.to_array(tensors[name])).all())


def _has_constant_bias(node: NodeProto, tensors: Tensors) -> bool:
    """Whether a node's bias, if it has any, is one constant for each output channel."""
    if len(node.input) < 3 or not node.input[2]:
        return True
    return _is_float(tensors, node.input[2]) and len(tensors[node.input[2]].dims) == 1


def _takes_convolution(node: NodeProto, tensors: Tensors) -> bool:
    if not _is_float(tensors, node.input[1]) or not _has_constant_bias(node, tensors):
        return False
    _, channels, *window = tensors[node.input[1]].dims
    points = 1
    for extent in window:
        points *= extent
    if 2 + len(window) not in (_OF_LINE, _OF_IMAGE) or not 0 < points <= _LARGEST_WINDOW:
        return False
    alone = channels == 1 and len(window) == 2
    return int(attribute(node, "group", 1)) == 1 or channels % _WORD == 0 or alone


def _takes_product(node: NodeProto, tensors: Tensors) -> bool:
    if not _is_float(tensors, node.input[1]):
        return False
    dims = tensors[node.input[1]].dims
    return len(dims) == 2 and 0 < dims[0] <= MOST_STEPS and dims[1] > 0


def _takes_gemm(node: NodeProto, tensors: Tensors) -> bool:
    factors = [attribute(node, name, 1.0) for name in ("alpha", "beta")]
    if factors != [1.0, 1.0] or attribute(node, "transA", 0):
        return False
    if not _is_float(tensors, node.input[1]) or not _has_constant_bias(node, tensors):
        return False
    dims = tensors[node.input[1]].dims
    steps = dims[1] if attribute(node, "transB", 0) else dims[0]
    return len(dims) == 2 and 0 < steps <= MOST_STEPS and min(dims) > 0
