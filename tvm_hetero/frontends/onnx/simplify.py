"""Simplify a model for inference, in NumPy, before TVM sees it.

The order of the steps:

1. constants: ``Constant``, ``ConstantOfShape`` and whatever reads constants alone
   (`expansion.walk`);
2. aliases: ``Identity`` and ``Dropout``; ``Sum`` becomes ``Add``;
3. affine chains: ``BatchNormalization`` and its like into convolutions;
4. ``Gemm``: transposes and factors of its constants;
5. all that no output needs is dropped.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import NodeProto

from tvm_hetero.frontends.onnx.affine_folding import fold_affine, number
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.identity_removal import drop_aliases, no_training, sums_to_adds
from tvm_hetero.frontends.onnx.model.isolated_rewrite import rewrite_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.util.contiguous import contiguous


def simplify(model: onnx.ModelProto, *, limits: OnnxLimits = DEFAULT_LIMITS) -> onnx.ModelProto:
    """Return an equivalent model for inference with fewer and simpler nodes.

    Parameters
    ----------
    model : onnx.ModelProto
        As :func:`~tvm_hetero.frontends.onnx.load.load_model` returns it; not changed.
    limits : Limits
        Cap on the constants that folding may make.

    Returns
    -------
    onnx.ModelProto
        Same inputs (without initializers among them) and outputs, same opset; values are
        equal up to the rounding of folded weights (once, from float64).

    Raises
    ------
    ModelError
        The model is for training, or its constants grow past the limit.
    """

    def rewrite(graph: OnnxGraph) -> None:
        no_training(graph)
        graph.sweep()
        expand_graph(graph, None, limits)
        simplify_graph(graph)

    return rewrite_isolated(model, rewrite, limits)


def simplify_graph(graph: OnnxGraph) -> None:
    """Do the work of :func:`simplify` in place, on a graph in which what is constant is folded."""
    # A model may hold NaN or huge constants; what is not finite is not folded, or kept so.
    with np.errstate(all="ignore"):
        sums_to_adds(graph)
        drop_aliases(graph)
        fold_affine(graph)
        plain_gemms(graph)
    graph.sweep()
    graph.state_outputs()


def plain_gemms(graph: OnnxGraph) -> None:
    """Compute transposes and factors of constant ``Gemm`` operands here, in place.

    ``Gemm(A, B, C) = alpha * A' B' + beta * C``.  A constant ``B`` takes over ``transB``
    and ``alpha``, a constant (or absent) ``C`` takes over ``beta``.
    """
    for node in graph.nodes:
        if node.op_type != "Gemm":
            continue
        alpha, beta = number(node, "alpha", 1.0), number(node, "beta", 1.0)
        if graph.is_float(node.input[1]) and (alpha != 1 or attribute(node, "transB", 0)):
            weight = graph.array(node.input[1])
            weight = weight.T if attribute(node, "transB", 0) else weight
            _replace_operand(graph, node, 1, weight, alpha, ("transB", "alpha"))
        if len(node.input) > 2 and graph.is_float(node.input[2]) and beta != 1:
            _replace_operand(graph, node, 2, graph.array(node.input[2]), beta, ("beta",))


def _replace_operand(
    graph: OnnxGraph,
    node: NodeProto,
    position: int,
    value: np.ndarray,
    factor: float,
    attributes: tuple[str, ...],
) -> None:
    """Give `node` a new constant operand and drop the attributes that it makes true."""
    name = graph.fresh(f"{node.input[position]}_plain")
    graph.made.charge(value.nbytes, graph.describe(node))
    scaled = value if factor == 1 else (value.astype(np.float64) * factor).astype(value.dtype)
    graph.constants[name] = contiguous(scaled)
    node.input[position] = name
    for index in reversed(range(len(node.attribute))):
        if node.attribute[index].name in attributes:
            del node.attribute[index]
