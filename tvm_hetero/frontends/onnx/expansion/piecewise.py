"""Activations that are one function on one side of a bound and another beyond: Elu's kin, Shrink.

TVM writes the exponential units for float32 alone, and as sums of two rectified halves: of a
negative alpha, by which Celu divides, the halves change sides.  Its Shrink is a sum of two choices,
too; both hold where the operand has no sign.  Here each is the choice that onnx describes:

    Elu(x)     x > 0 ? x : alpha (exp(x) - 1)
    Selu(x)    gamma Elu(x)
    Celu(x)    x > 0 ? x : alpha (exp(x / alpha) - 1)
    Shrink(x)  x < -lambd ? x + bias : x > lambd ? x - bias : 0
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.activations import NARROW
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


@rewrites("Elu", "Selu")
def rewrite_exponential_unit(r: Rewriting) -> bool:
    """Leave float32 to TVM, and compute narrow types in it."""
    x = r.inputs[0]
    kind = r.element_type(x)
    if kind == TensorProto.FLOAT:
        return False
    if kind in NARROW:
        wide = r.add("Cast", [x], to=TensorProto.FLOAT)
        given = {a.name: r.attribute(a.name) for a in r.node.attribute}
        r.add("Cast", [r.add(r.node.op_type, [wide], **given)], r.outputs, to=kind)
        return True
    is_scaled = r.node.op_type == "Selu"
    found = _choice(r, x, x, r.attribute("alpha", _SELU_ALPHA if is_scaled else 1.0))
    gamma = r.attribute("gamma", _SELU_GAMMA) if is_scaled else 1.0
    r.add("Mul", [found, r.like(gamma, x)], r.outputs)
    return True


@rewrites("Celu")
def rewrite_celu(r: Rewriting) -> bool:
    """alpha Elu(x / alpha), of the operand's shape: onnx's function makes a vector of a scalar."""
    x = r.inputs[0]
    alpha = r.attribute("alpha", 1.0)
    share = r.add("Div", [x, r.like(alpha, x)])
    if alpha > 0:
        r.add("Mul", [r.add("Elu", [share]), r.like(alpha, x)], r.outputs)
    else:
        r.alias(_choice(r, x, share, alpha), r.outputs[0])
    return True


def _choice(r: Rewriting, x: str, power: str, alpha: float) -> str:
    """Return x > 0 ? x : alpha (exp(power) - 1)."""
    less = r.add("Sub", [r.add("Exp", [power]), r.like(1, x)])
    is_positive = r.add("Greater", [x, r.like(0, x)])
    return r.add("Where", [is_positive, x, r.add("Mul", [less, r.like(alpha, x)])])


@rewrites("Shrink")
def rewrite_shrink(r: Rewriting) -> bool:
    """Compare integers with the whole numbers next to the bound, and move them by whole ones."""
    x, bias, bound = r.inputs[0], r.attribute("bias", 0.0), r.attribute("lambd", 0.5)
    low, high = -bound, bound
    if r.dtype(x).kind in "iu":
        if not float(bias).is_integer() or not _lies_in(r, bias):
            kind = r.element_type(x)
            wide = r.add("Cast", [x], to=TensorProto.DOUBLE)
            r.add("Cast", [r.add("Shrink", [wide], bias=bias, lambd=bound)], r.outputs, to=kind)
            return True
        low, high = math.ceil(low), math.floor(high)
    zero = inner = r.like(0, x)
    if _lies_in(r, high):
        above = r.add("Greater", [x, r.like(high, x)])
        inner = r.add("Where", [above, r.add("Sub", [x, r.like(bias, x)]), inner])
    elif bound < 0:
        inner = r.add("Sub", [x, r.like(bias, x)])
    if _lies_in(r, low):
        below = r.add("Less", [x, r.like(low, x)])
        inner = r.add("Where", [below, r.add("Add", [x, r.like(bias, x)]), inner])
    elif bound < 0:
        inner = r.add("Add", [x, r.like(bias, x)])
    if inner == zero:
        inner = r.add("Expand", [zero, r.constant(r.dims(x), np.int64)])
    r.alias(inner, r.outputs[0])
    return True


def _lies_in(r: Rewriting, value: float) -> bool:
    dtype = r.dtype(r.inputs[0])
    return dtype.kind not in "iu" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max
