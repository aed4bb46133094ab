"""Activations that keep NaN and infinities as ONNX Runtime does, and hyperbolic functions.

TVM has no code for ``sinh`` and ``cosh`` on a plain CPU.  With e = exp(|x| / 2), which overflows no
sooner than they do,

    cosh(x) = e e / 2 + 1 / (2 e e)
    sinh(x) = sign(x) (e e / 2 - 1 / (2 e e))     for |x| >= 1
              x (1 + x^2/3! + x^4/5! + ...)       for |x| < 1, where the difference cancels
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Types that are computed in float32."""

# 1 / 19! is below the rounding of float64.
_TERMS = 9


@rewrites("Sign")
def rewrite_sign(r: Rewriting) -> bool:
    """Sign(x) = x > 0 ? 1 : x < 0 ? -1 : x, which is NaN for NaN."""
    x, kind = r.inputs[0], r.dtype(r.inputs[0]).kind
    if kind == "i":
        return False
    if kind == "u":
        r.add("Cast", [r.add("Cast", [x], to=TensorProto.BOOL)], r.outputs, to=r.element_type(x))
        return True
    zero, one, minus = (r.like(value, x) for value in (0, 1, -1))
    lower = r.add("Where", [r.add("Less", [x, zero]), minus, x])
    r.add("Where", [r.add("Greater", [x, zero]), one, lower], r.outputs)
    return True


@rewrites("ThresholdedRelu")
def rewrite_thresholded_relu(r: Rewriting) -> bool:
    """x > alpha ? x : 0, which is 0 for -inf (a product with 0 would be NaN)."""
    x = r.inputs[0]
    above = r.add("Greater", [x, r.like(r.attribute("alpha", 1.0), x)])
    r.add("Where", [above, x, r.like(0, x)], r.outputs)
    return True


@rewrites("PRelu")
def rewrite_prelu(r: Rewriting) -> bool:
    """x < 0 ? slope x : x, with a slope of any shape that broadcasts."""
    x, slope = r.inputs
    if all(d == 1 for d in r.dims(slope)):
        return False
    r.add("Where", [r.add("Less", [x, r.like(0, x)]), r.add("Mul", [x, slope]), x], r.outputs)
    return True


@rewrites("HardSigmoid")
def rewrite_hard_sigmoid(r: Rewriting) -> bool:
    """clip(alpha x + beta, 0, 1)."""
    x = r.inputs[0]
    slope, offset = r.attribute("alpha", 0.2), r.attribute("beta", 0.5)
    line = r.add("Add", [r.add("Mul", [x, r.like(slope, x)]), r.like(offset, x)])
    r.add("Clip", [line, r.like(0, x), r.like(1, x)], r.outputs)
    return True


@rewrites("IsInf")
def rewrite_is_inf(r: Rewriting) -> bool:
    """Compare with the infinities that are asked for; without one, nothing is below itself."""
    x = r.inputs[0]
    positive, negative = r.attribute("detect_positive", 1), r.attribute("detect_negative", 1)
    if positive and negative:
        return False
    if not positive and not negative:
        r.add("Less", [x, x], r.outputs)
    else:
        r.add("Equal", [x, r.like(math.inf if positive else -math.inf, x)], r.outputs)
    return True


@rewrites("Cosh")
def rewrite_cosh(r: Rewriting) -> bool:
    """By exponentials."""
    x, dtype = _wide(r)
    half, inverse = _half_powers(r, x, dtype)
    _narrow(r, r.add("Add", [half, inverse]))
    return True


@rewrites("Sinh")
def rewrite_sinh(r: Rewriting) -> bool:
    """By exponentials, and near 0 by its series."""
    x, dtype = _wide(r)
    half, inverse = _half_powers(r, x, dtype)
    large = r.add("Mul", [r.add("Sign", [x]), r.add("Sub", [half, inverse])])
    square = r.add("Mul", [x, x])
    series = r.constant(1 / math.factorial(2 * _TERMS + 1), dtype)
    for term in reversed(range(_TERMS)):
        factor = r.constant(1 / math.factorial(2 * term + 1), dtype)
        series = r.add("Add", [r.add("Mul", [series, square]), factor])
    is_small = r.add("Less", [square, r.constant(1, dtype)])
    _narrow(r, r.add("Where", [is_small, r.add("Mul", [series, x]), large]))
    return True


def _half_powers(r: Rewriting, x: str, dtype: Any) -> tuple[str, str]:
    """Return exp(|x|) / 2 and exp(-|x|) / 2."""
    half = r.constant(0.5, dtype)
    root = r.add("Exp", [r.add("Mul", [r.add("Abs", [x]), half])])
    first = r.add("Mul", [r.add("Mul", [root, half]), root])
    inverse = r.add("Reciprocal", [root])
    return first, r.add("Mul", [r.add("Mul", [inverse, half]), inverse])


def _wide(r: Rewriting) -> tuple[str, Any]:
    """Return the operand in float32 at least, and its type then."""
    x = r.inputs[0]
    if r.element_type(x) not in NARROW:
        return x, r.dtype(x)
    return r.add("Cast", [x], to=TensorProto.FLOAT), np.float32


def _narrow(r: Rewriting, result: str) -> None:
    """Give the result in the operand's type under the node's own name."""
    kind = r.element_type(r.inputs[0])
    if kind in NARROW:
        r.add("Cast", [result], r.outputs, to=kind)
    else:
        r.alias(result, r.outputs[0])
