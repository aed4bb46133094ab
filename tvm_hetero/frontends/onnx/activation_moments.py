"""Estimate mean and variance of every value of a network with random weights.

Each value is taken as normal, ``N(mean, variance)``, over all of its elements.

=========================  ====================================================
operator                   rule
=========================  ====================================================
Conv, Gemm, MatMul         mean 0, second moment 1: the weights are drawn for it
Add, Sum                   means add, variances add
Relu                       the rectified normal, in closed form
BatchNormalization         from the constants ``k = scale / sqrt(var)``, ``b``
Mul                        the product of independent values
MaxPool                    of n: half the growth of n independent normal values
AveragePool                half of the variance is between channels and stays
Concat                     the mixture, as if of equal sizes
normalizations             mean 0, variance 1
all others                 as their first operand
=========================  ====================================================

The mean must be kept apart from the variance for the sake of residual networks: a
trunk that is rectified after each block is positive, so the next Relu does not halve
it.  Without that the estimate for resnet50 falls short block by block, and its
logits grow far too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute


@dataclass(frozen=True)
class Moments:
    """Mean and variance over the elements of a value."""

    mean: float
    variance: float

    @property
    def second(self) -> float:
        """The mean of the squares."""
        return self.mean**2 + self.variance


_Known = dict[str, Moments]
_UNIT = Moments(0.0, 1.0)


def propagate(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    """Return the moments of what `node` computes from values with the moments `known`."""
    rule = _RULES.get(node.op_type)
    if rule is not None:
        return rule(graph, node, known)
    return moments_of(graph, node.input[0], known) if node.input else _UNIT


def moments_of(graph: OnnxGraph, name: str, known: _Known) -> Moments:
    """Return the estimated moments of a value, or the true ones of a constant."""
    if name in graph.constants and graph.is_float(name) and graph.size(name):
        array = graph.array(name)
        mean = float(np.mean(array, dtype=np.float64))
        return Moments(mean, float(np.var(array, dtype=np.float64)))
    return known.get(name, _UNIT)


def rectify(x: Moments) -> Moments:
    """Return the moments of max(0, x) for a normal x."""
    deviation = math.sqrt(max(x.variance, 1e-12))
    z = x.mean / deviation
    below = 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    mean = x.mean * below + deviation * density
    second = x.second * below + x.mean * deviation * density
    return Moments(mean, max(second - mean * mean, 0.0))


def _operands(graph: OnnxGraph, node: NodeProto, known: _Known) -> list[Moments]:
    return [moments_of(graph, name, known) for name in node.input]


def _unit(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    return _UNIT


def _relu(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    return rectify(moments_of(graph, node.input[0], known))


def _add(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    parts = _operands(graph, node, known)
    return Moments(math.fsum(p.mean for p in parts), math.fsum(p.variance for p in parts))


def _multiply(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    parts = _operands(graph, node, known)
    mean = math.prod(p.mean for p in parts)
    return Moments(mean, max(math.prod(p.second for p in parts) - mean**2, 0.0))


def _concat(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    parts = _operands(graph, node, known)
    mean = math.fsum(p.mean for p in parts) / len(parts)
    second = math.fsum(p.second for p in parts) / len(parts)
    return Moments(mean, max(second - mean**2, 0.0))


def _batch_norm(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    names = node.input[1:5]
    floats = all(graph.is_float(name) for name in names)
    if not floats or len({graph.shape(name) for name in names}) != 1:
        return _UNIT
    x = moments_of(graph, node.input[0], known)
    scale, bias, mean, variance = (graph.array(name).astype(np.float64) for name in names)
    k = scale / np.sqrt(np.maximum(variance, 1e-3))
    # Each channel is N(k * (x.mean - mean) + bias, k**2 * x.variance); all of them mixed.
    centres = k * (x.mean - mean) + bias
    return Moments(float(centres.mean()), float(np.mean(k * k) * x.variance + centres.var()))


def _window(node: NodeProto) -> int:
    size: int = math.prod(attribute(node, "kernel_shape", []))
    return max(1, size)


def _max_pool(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    x = moments_of(graph, node.input[0], known)
    # The largest of n independent normal values lies some sqrt(2 ln n) deviations up;
    # neighbours in an image are far from independent.
    growth = 0.5 * math.sqrt(2.0 * math.log(_window(node)) * x.variance)
    return Moments(x.mean + growth, 0.6 * x.variance)


def _average_pool(graph: OnnxGraph, node: NodeProto, known: _Known) -> Moments:
    x = moments_of(graph, node.input[0], known)
    size = 49 if node.op_type == "GlobalAveragePool" else _window(node)
    return Moments(x.mean, x.variance * (0.5 + 0.5 / size))


_RULES: dict[str, Callable[[OnnxGraph, NodeProto, _Known], Moments]] = {
    "Add": _add,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Concat": _concat,
    "Conv": _unit,
    "ConvTranspose": _unit,
    "Gemm": _unit,
    "GlobalAveragePool": _average_pool,
    "GroupNormalization": _unit,
    "InstanceNormalization": _unit,
    "LayerNormalization": _unit,
    "MatMul": _unit,
    "MaxPool": _max_pool,
    "Mul": _multiply,
    "Relu": _relu,
    "Sum": _add,
}
