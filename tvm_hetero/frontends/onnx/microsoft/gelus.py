"""The Gelu family: exact, by tanh, by the logistic function, with a bias before it.

Gelu(x)      = x (1 + erf(x / sqrt 2)) / 2
FastGelu(x)  = x (1 + tanh(0.7978845608 x + 0.0356774081 x^3)) / 2
QuickGelu(x) = x sigmoid(alpha x)
"""

from __future__ import annotations

import math

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import contributed

# Those of the kernel: sqrt(2 / pi), and it times 0.044715.
_FAST_LINEAR, _FAST_CUBIC = 0.7978845608028654, 0.035677408136300125


@contributed("Gelu", operands=1)
def rewrite_gelu(r: Rewriting) -> None:
    """Say it by the error function."""
    _gelu(r, r.inputs[0], r.outputs)


@contributed("BiasGelu", operands=2)
def rewrite_bias_gelu(r: Rewriting) -> None:
    """Add the bias first."""
    _gelu(r, r.add("Add", r.inputs), r.outputs)


@contributed("BiasSplitGelu", operands=2)
def rewrite_bias_split_gelu(r: Rewriting) -> None:
    """Split what the bias was added to: left times Gelu of right."""
    biased = r.add("Add", r.inputs)
    axis = r.rank(r.inputs[0]) - 1
    size = r.dims(r.inputs[0])[axis]
    if size % 2:
        r.refuse(f"splits {size} elements in two halves")
    halves = [r.fresh("left"), r.fresh("right")]
    r.add("Split", [biased, r.constant([size // 2] * 2, "int64")], halves, axis=axis)
    r.add("Mul", [halves[0], _gelu(r, halves[1], 1)], r.outputs)


@contributed("FastGelu", operands=2)
def rewrite_fast_gelu(r: Rewriting) -> None:
    """Say it by tanh; the bias is optional."""
    x = r.add("Add", r.inputs) if r.operand(1) else r.inputs[0]
    square = r.add("Mul", [x, x])
    scaled = r.add("Mul", [square, r.like(_FAST_CUBIC, r.inputs[0])])
    slope = r.add("Add", [scaled, r.like(_FAST_LINEAR, r.inputs[0])])
    bent = r.add("Tanh", [r.add("Mul", [x, slope])])
    _half_of_product(r, x, bent, r.outputs)


@contributed("QuickGelu", operands=1, attributes=("alpha",))
def rewrite_quick_gelu(r: Rewriting) -> None:
    """Say it by the logistic function."""
    x = r.inputs[0]
    scaled = r.add("Mul", [x, r.like(float(r.attribute("alpha", 1.702)), x)])
    r.add("Mul", [x, r.add("Sigmoid", [scaled])], r.outputs)


def _gelu(r: Rewriting, x: str, outputs: int | list[str]) -> str:
    """Add Gelu of a value, which is of the type of the node's first operand."""
    bent = r.add("Erf", [r.add("Mul", [x, r.like(math.sqrt(0.5), r.inputs[0])])])
    return _half_of_product(r, x, bent, outputs)


def _half_of_product(r: Rewriting, x: str, bent: str, outputs: int | list[str]) -> str:
    """Add ``x (1 + bent) / 2``."""
    risen = r.add("Add", [bent, r.like(1.0, r.inputs[0])])
    half = r.add("Mul", [x, r.like(0.5, r.inputs[0])])
    return r.add("Mul", [half, risen], outputs)
