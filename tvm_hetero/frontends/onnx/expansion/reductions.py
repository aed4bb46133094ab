"""Reductions of which TVM computes another thing, or nothing.

``ReduceLogSumExp`` subtracts the largest value m of a row first, so that no power overflows; where
m is infinite the difference would be NaN, and nothing is subtracted:

    log sum exp(x - m') + m',    m' = m where m is finite, else 0
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.expansion.wide_sums import rewrite_wide
from tvm_hetero.frontends.onnx.model.axes import checked_axis

_AXES_ARE_OPERAND = 18


@rewrites("ReduceMax", "ReduceMin")
def rewrite_extreme_of_bool(r: Rewriting) -> bool:
    """Take the largest of truth values as that of bytes."""
    x = r.inputs[0]
    if r.element_type(x) != TensorProto.BOOL:
        return False
    byte = r.add("Cast", [x], to=TensorProto.UINT8)
    reduced = r.add(r.node.op_type, [byte, *r.inputs[1:]], **_attributes(r))
    r.add("Cast", [reduced], r.outputs, to=TensorProto.BOOL)
    return True


@rewrites("ReduceLogSumExp")
def rewrite_log_sum_exp(r: Rewriting) -> bool:
    """Write out the logarithm of a sum of powers, right for infinities."""
    x = r.inputs[0]
    axes = _axes(r)
    if axes is None:
        r.alias(x, r.outputs[0])
        return True
    if r.dtype(x).kind in "iu":
        return False
    most = _reduced(r, "ReduceMax", x, axes)
    is_finite = r.add("Less", [r.add("Abs", [most]), r.like(math.inf, x)])
    shift = r.add("Where", [is_finite, most, r.like(0, x)])
    powers = r.add("Exp", [r.add("Sub", [x, shift])])
    total = r.add("Log", [_reduced(r, "ReduceSum", powers, axes)])
    if r.attribute("keepdims", 1):
        r.add("Add", [total, shift], r.outputs)
    else:
        found = r.add("Add", [total, shift])
        r.add("Squeeze", [found, r.constant(axes, "int64")], r.outputs)
    return True


@rewrites("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare")
def rewrite_mapped_sum(r: Rewriting) -> bool:
    """Map each element, which is a sum by itself where no axes are reduced."""
    x = r.inputs[0]
    if _axes(r) is not None:
        return rewrite_wide(r)
    if r.node.op_type == "ReduceSumSquare":
        r.add("Mul", [x, x], r.outputs)
    else:
        r.add("Log" if r.node.op_type == "ReduceLogSum" else "Abs", [x], r.outputs)
    return True


@rewrites("ReduceMean")
def rewrite_mean(r: Rewriting) -> bool:
    """Divide the sum of integers in their own type: TVM's mean of int32 is int64."""
    x = r.inputs[0]
    if r.dtype(x).kind not in "iu":
        return rewrite_wide(r)
    axes = _axes(r)
    if axes is None:
        return False
    count = math.prod(r.dims(x)[axis] for axis in axes)
    if not count:
        r.refuse("takes the mean of no integers, which is no integer")
    if count > np.iinfo(r.dtype(x)).max:
        r.refuse(f"divides by {count}, which is beyond {r.dtype(x)}")
    total = r.add("ReduceSum", [x, r.constant(axes, "int64")], keepdims=r.attribute("keepdims", 1))
    r.add("Div", [total, r.like(count, x)], r.outputs)
    return True


def _axes(r: Rewriting) -> list[int] | None:
    """Return the axes that are reduced; None where the node reduces none."""
    rank = r.rank(r.inputs[0])
    if r.opset >= _AXES_ARE_OPERAND:
        given = r.constant_of(1, "axes").tolist() if r.operand(1) else []
    else:
        given = list(r.attribute("axes") or [])
    if not given and r.attribute("noop_with_empty_axes", 0):
        return None
    return sorted(checked_axis(r.refuse, axis, rank) for axis in given) or list(range(rank))


def _reduced(r: Rewriting, operator: str, x: str, axes: list[int]) -> str:
    """Add a reduction that keeps its axes; returns the name of what it makes."""
    if r.opset >= _AXES_ARE_OPERAND or operator == "ReduceSum":
        return r.add(operator, [x, r.constant(axes, "int64")], keepdims=1)
    # Of a single number there are none, and an empty list is no attribute.
    return r.add(operator, [x], axes=axes or None, keepdims=1)


def _attributes(r: Rewriting) -> dict[str, Any]:
    """Return the attributes of the node as they are."""
    return {a.name: r.attribute(a.name) for a in r.node.attribute}
