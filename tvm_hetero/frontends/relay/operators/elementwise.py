"""Elementwise operators: of one tensor, of two with broadcasting, and the few with attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from tvm_hetero.frontends.relay.operators.rule_context import (
    Result,
    Rule,
    Site,
    constant,
    dtype_name,
    shape_of,
)

_UNARY = [
    "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "negative", "floor", "ceil", "trunc",
    "sign", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "erf", "logical_not", "bitwise_not", "isnan", "isfinite", "isinf",
]  # fmt: skip
_BINARY = [
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "floor_divide",
    "floor_mod",
]  # fmt: skip


def _unary(make: Callable[[Any], Any]) -> Rule:
    def rule(site: Site) -> Result:
        site.expect(1)
        return site.emit(make(site.tensor(0)))

    return rule


def _binary(make: Callable[[Any, Any], Any]) -> Rule:
    def rule(site: Site) -> Result:
        site.expect(2)
        return site.emit(make(site.tensor(0), site.tensor(1)))

    return rule


def scalar(value: float, like: relax.Expr) -> relax.Expr:
    """A constant of another expression's type."""
    return relax.const(value, dtype_name(like))


def _log_to(base: float) -> Rule:
    def rule(site: Site) -> Result:
        site.expect(1)
        natural = site.emit(relax.op.log(site.tensor(0)))
        return site.emit(relax.op.multiply(natural, scalar(1 / math.log(base), natural)))

    return rule


def _round(site: Site) -> Result:
    """Half goes away from zero, as in C; what Relax calls round goes to the even neighbour."""
    x = site.tensor(0)
    whole = site.emit(relax.op.trunc(x))
    rest = site.emit(relax.op.abs(site.emit(relax.op.subtract(x, whole))))
    up = site.emit(relax.op.greater_equal(rest, scalar(0.5, x)))
    step = site.emit(relax.op.multiply(
        site.emit(relax.op.astype(up, dtype_name(x))), site.emit(relax.op.sign(x))
    ))  # fmt: skip
    return site.emit(relax.op.add(whole, step))


def _mod(site: Site) -> Result:
    """The remainder has the sign of the first, as in C."""
    site.expect(2)
    a, b = site.tensor(0), site.tensor(1)
    size = site.emit(relax.op.floor_mod(site.emit(relax.op.abs(a)), site.emit(relax.op.abs(b))))
    return site.emit(relax.op.multiply(size, site.emit(relax.op.sign(a))))


def _clip(site: Site) -> Result:
    least, most = site.number("a_min"), site.number("a_max")
    x = site.tensor(0)
    if "int" in dtype_name(x):
        info = np.iinfo(dtype_name(x))
        bounds = (
            max(math.ceil(max(least, info.min)), info.min),
            min(math.floor(min(most, info.max)), info.max),
        )
        low = site.emit(relax.op.maximum(x, relax.const(bounds[0], dtype_name(x))))
        return site.emit(relax.op.minimum(low, relax.const(bounds[1], dtype_name(x))))
    low = site.emit(relax.op.maximum(x, scalar(least, x))) if least > -math.inf else x
    return site.emit(relax.op.minimum(low, scalar(most, x))) if most < math.inf else low


def _leaky_relu(site: Site) -> Result:
    return site.emit(relax.op.nn.leakyrelu(site.tensor(0), site.number("alpha", 0.25)))


def _prelu(site: Site) -> Result:
    site.expect(2)
    axis = site.axis(site.integer("axis", 1), site.rank())
    slopes = broadcast_along(site, site.tensor(1), axis, site.rank())
    x = site.tensor(0)
    positive = site.emit(relax.op.greater(x, scalar(0, x)))
    scaled = site.emit(relax.op.multiply(x, slopes))
    return site.emit(relax.op.where(positive, x, scaled))


def broadcast_along(site: Site, vector: relax.Expr, axis: int, rank: int) -> relax.Expr:
    """A vector, shaped so that it broadcasts along one axis."""
    shape = [1] * rank
    shape[axis] = shape_of(vector)[0] if len(shape_of(vector)) == 1 else -1
    if shape[axis] < 0:
        raise site.error(f"a tensor of {len(shape_of(vector))} dimensions, expected a vector")
    while len(shape) > 1 and shape[0] == 1:
        shape.pop(0)
    return reshape(site, vector, shape)


def reshape(site: Site, value: relax.Expr, shape: list[int]) -> relax.Expr:
    """A tensor in another shape; constants are reshaped here and now."""
    if shape_of(value) == shape:
        return value
    known = getattr(value, "value", None)
    if known is not None and hasattr(known, "numpy"):
        return constant(known.numpy().reshape(shape))
    return site.emit(relax.op.reshape(value, shape))


def _bias_add(site: Site) -> Result:
    site.expect(2)
    axis = site.axis(site.integer("axis", 1), site.rank())
    bias = broadcast_along(site, site.tensor(1), axis, site.rank())
    return site.emit(relax.op.add(site.tensor(0), bias))


def _cast(site: Site) -> Result:
    dtype = site.dtype("dtype")
    return site.emit(relax.op.astype(site.tensor(0), dtype)) if dtype else site.tensor(0)


def _cast_like(site: Site) -> Result:
    site.expect(2)
    return site.emit(relax.op.astype(site.tensor(0), dtype_name(site.tensor(1))))


def _where(site: Site) -> Result:
    site.expect(3)
    condition = site.tensor(0)
    if dtype_name(condition) != "bool":
        zero = relax.const(0, dtype_name(condition))
        condition = site.emit(relax.op.not_equal(condition, zero))
    return site.emit(relax.op.where(condition, site.tensor(1), site.tensor(2)))


def _dropout(site: Site) -> Result:
    """Nothing at inference; the second output, the mask, is not there."""
    site.ignore("rate")
    return [site.tensor(0)]


RULES: dict[str, Rule] = {
    **{name: _unary(getattr(relax.op, name)) for name in _UNARY},
    **{name: _binary(getattr(relax.op, name)) for name in _BINARY},
    "fast_exp": _unary(relax.op.exp),
    "fast_tanh": _unary(relax.op.tanh),
    "fast_erf": _unary(relax.op.erf),
    "log2": _log_to(2.0),
    "log10": _log_to(10.0),
    "round": _round,
    "mod": _mod,
    "clip": _clip,
    "cast": _cast,
    "cast_like": _cast_like,
    "where": _where,
    "nn.relu": _unary(relax.op.nn.relu),
    "nn.leaky_relu": _leaky_relu,
    "nn.prelu": _prelu,
    "nn.bias_add": _bias_add,
    "nn.dropout": _dropout,
}
