"""Codes that are read as floats at once: the rounded and clipped float is the code already.

QuantizeLinear and DequantizeLinear, fused one behind the other, make a code of eight bits and a
float of it again:

    float32(uint8(int32(min(max(round(x / s) + z, 0), 255))))

What is converted is a whole number within the code's range, so the conversions there and back
change nothing, and three instructions a vector go. For NaN, of which int32 makes what the hardware
likes, the least code is taken, as ONNX Runtime's vector code does.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_hetero.kernels.tir.vector_math import NEAREST

Expr: TypeAlias = Any

_CODES = {"uint8": (0, 255), "int8": (-128, 127)}


def keep_codes_float(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled kernel without conversions to codes and back."""
    body = tvm_ffi.structural_map(func.body, (tirx.Cast, _without_code))
    return func if body.same_as(func.body) else func.with_body(body)


def _without_code(cast: tirx.Cast) -> Expr:
    """A cast; of a code that is made of a clipped whole number in float32, that number."""
    code = cast.value
    if str(cast.ty.dtype) != "float32" or not isinstance(code, tirx.Cast):
        return cast
    bounds = _CODES.get(str(code.ty.dtype))
    value = code.value
    if isinstance(value, tirx.Cast) and str(value.ty.dtype) == "int32":
        value = value.value
    if bounds is None or str(value.ty.dtype) != "float32":
        return cast
    clipped = _clipped(value, bounds)
    return cast if clipped is None else clipped


def _clipped(value: Expr, bounds: tuple[int, int]) -> Expr | None:
    """The value where it is a whole number between bounds, else None; NaN is the lower bound."""
    above, value = _with_constant(value, tirx.Min)
    below, value = _with_constant(value, tirx.Max)
    if above is None or below is None or not _is_whole(value):
        return None
    low, high = bounds
    if not low <= below <= above <= high or below % 1 or above % 1:
        return None
    floor, ceiling = (tirx.const(each, "float32") for each in (below, above))
    return tirx.Min(tirx.Max(value, floor), ceiling)


def _with_constant(expr: Expr, kind: Any) -> tuple[float | None, Expr]:
    """The constant of a minimum or maximum and its other operand; None where there is none."""
    if isinstance(expr, kind):
        for constant, other in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(constant, tirx.FloatImm):
                return float(constant.value), other
    return None, expr


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number (or none): rounded, perhaps with a whole one added."""
    if isinstance(value, tirx.Add | tirx.Sub):
        constant = value.b
        is_shift = isinstance(constant, tirx.FloatImm) and float(constant.value) % 1 == 0
        return is_shift and _is_whole(value.a)
    return isinstance(value, Call) and getattr(value.op, "name", "") == NEAREST
