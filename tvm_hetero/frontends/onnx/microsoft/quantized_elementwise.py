"""Operators on codes: from codes to numbers, the operator, and back to codes.

ONNX Runtime rounds some of them otherwise at ties (it computes with ratios of scales, or looks
results up), so that a code may differ by one.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.axes import axis_of
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import contributed
from tvm_hetero.frontends.onnx.quantized.arithmetic import (
    add_dequantized,
    add_quantized,
    scalar_quantizer,
)


def _number(r: Rewriting, position: int) -> str:
    """Return an operand, which has its scale and zero point behind it, as float32."""
    name = r.operand(position)
    quantizer = scalar_quantizer(r, position + 1, position + 2, r.element_type(name))
    return add_dequantized(r, name, quantizer)


def _give(r: Rewriting, value: str, scale: int, like: int = 0) -> None:
    """Make the node's result, of the codes' type of the operand `like`."""
    code = r.element_type(r.operand(like))
    add_quantized(r, value, scalar_quantizer(r, scale, scale + 1, code), r.outputs)


@contributed("QLinearAdd", operands=8)
def rewrite_q_linear_add(r: Rewriting) -> None:
    """Add numbers."""
    _give(r, r.add("Add", [_number(r, 0), _number(r, 3)]), 6)


@contributed("QLinearMul", operands=8)
def rewrite_q_linear_mul(r: Rewriting) -> None:
    """Multiply numbers."""
    _give(r, r.add("Mul", [_number(r, 0), _number(r, 3)]), 6)


@contributed("QLinearSigmoid", operands=5)
def rewrite_q_linear_sigmoid(r: Rewriting) -> None:
    """Take the logistic function of numbers."""
    _give(r, r.add("Sigmoid", [_number(r, 0)]), 3)


@contributed("QLinearLeakyRelu", operands=5, attributes=("alpha",))
def rewrite_q_linear_leaky_relu(r: Rewriting) -> None:
    """Multiply negative numbers by alpha."""
    alpha = float(r.attribute("alpha", 0.01))
    _give(r, r.add("LeakyRelu", [_number(r, 0)], alpha=alpha), 3)


@contributed("QLinearWhere", operands=9)
def rewrite_q_linear_where(r: Rewriting) -> None:
    """Choose between numbers."""
    chosen = r.add("Where", [r.operand(0), _number(r, 1), _number(r, 4)])
    _give(r, chosen, 7, like=1)


@contributed("QLinearConcat", operands=2**16, attributes=("axis",))
def rewrite_q_linear_concat(r: Rewriting) -> None:
    """Join numbers: each operand has its own scale and zero point behind it."""
    parts = [_number(r, position) for position in range(2, len(r.inputs), 3)]
    joined = r.add("Concat", parts, axis=int(r.attribute("axis", 0)))
    _give(r, joined, 0, like=2)


@contributed("QLinearSoftmax", operands=5, attributes=("axis", "opset"))
def rewrite_q_linear_softmax(r: Rewriting) -> None:
    """Take the softmax of numbers; before opset 13 of all dimensions from the axis on."""
    dims = r.dims(r.inputs[0])
    axis = axis_of(r, -1, len(dims))
    number = _number(r, 0)
    if int(r.attribute("opset", 13)) >= 13 or axis == len(dims) - 1:
        _give(r, r.add("Softmax", [number], axis=axis), 3)
        return
    flat = r.constant([math.prod(dims[:axis]), math.prod(dims[axis:])], np.int64)
    soft = r.add("Softmax", [r.add("Reshape", [number, flat])], axis=-1)
    _give(r, r.add("Reshape", [soft, r.constant(dims, np.int64)]), 3)


@contributed("MatMulInteger16", operands=2)
def rewrite_mat_mul_integer16(r: Rewriting) -> None:
    """Multiply whole numbers of 16 bits; the sums may wrap, as ONNX Runtime's."""
    r.add("MatMul", [r.add("Cast", [x], to=TensorProto.INT32) for x in r.inputs], r.outputs)
