"""High-level operators that are rewritten into cheaper ones before they become kernels.

``x ** 0.75``        ``powf`` is a call of the C library for each value; square roots are vector
                     instructions. Exponents that are multiples of 1/4 up to 4 become products of
                     powers and square roots (LRN raises to 0.75).
``batch_norm``       with constant statistics is one multiply and one add for each value; the
                     decomposition of TVM subtracts, divides, multiplies and adds.
norms, ``power``     of bfloat16, for which TVM has no kernels, are those of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_QUARTERS = 16


def power(
    bb: relax.BlockBuilder, call: relax.Call, exponent: NDArray[Any] | None
) -> relax.Expr | None:
    """``relax.power`` with a scalar exponent k/4 by square roots; None for any other.

    The base of a fractional power must not be negative, as for ``pow`` itself (both give NaN).
    """
    if exponent is None or exponent.size != 1 or str(call.ty.dtype) != "float32":
        return None
    quarters = float(exponent.reshape(-1)[0]) * 4
    # NaN and infinity have no nearest whole number to ask for.
    if not 0 < abs(quarters) <= _MOST_QUARTERS or quarters != round(quarters):
        return None
    base = call.args[0]
    if len(base.ty.shape) != len(call.ty.shape):
        return None  # the exponent's rank is larger: the result is not of the base's shape
    if quarters < 0 and round(quarters) & 3:
        base = _without_sign(bb, base, -0.0)
    result = _quarters(bb, base, abs(round(quarters)))
    if quarters < 0:
        result = bb.emit(relax.op.divide(relax.const(1.0, "float32"), result))
    return result


def in_float32(
    bb: relax.BlockBuilder,
    call: relax.Call,
    known: Callable[[Any], NDArray[Any] | None],
) -> relax.Expr | None:
    """An operator on bfloat16 as one on float32, rounded; None for any other type."""
    if str(bb.normalize(call).ty.dtype) != "bfloat16":
        return None

    def wide(arg: relax.Expr) -> relax.Expr:
        value = known(arg)
        if value is None:
            return bb.emit(relax.op.astype(arg, "float32"))
        return relax.const(value.astype(np.float32))

    found = bb.emit(relax.Call(call.op, [wide(a) for a in call.args], call.attrs, call.ty_args))
    return relax.op.astype(found, "bfloat16")


def _without_sign(bb: relax.BlockBuilder, base: relax.Expr, value: float) -> relax.Expr:
    """The base, this value without its sign: ``sqrt`` has NaN of -inf and -0 of -0, ``pow`` not."""
    found = relax.op.equal(base, relax.const(value, "float32"))
    return bb.emit(relax.op.where(found, relax.const(abs(value), "float32"), base))


def _quarters(bb: relax.BlockBuilder, base: relax.Expr, quarters: int) -> relax.Expr:
    """``base ** (quarters / 4)`` as a product of base ** 1/4, 1/2, 1, 2, 4."""
    factors: list[relax.Expr] = []
    if quarters & 3:
        base = _without_sign(bb, base, -np.inf)
        root = bb.emit(relax.op.sqrt(base))
        if quarters & 1:
            factors.append(bb.emit(relax.op.sqrt(root)))
        if quarters & 2:
            factors.append(root)
    power_of_base, rest = base, quarters >> 2
    while rest:
        if rest & 1:
            factors.append(power_of_base)
        rest >>= 1
        if rest:
            power_of_base = bb.emit(relax.op.multiply(power_of_base, power_of_base))
    result = factors[0]
    for factor in factors[1:]:
        result = bb.emit(relax.op.multiply(result, factor))
    return result


def batch_norm(
    bb: relax.BlockBuilder, call: relax.Call, known: Callable[[Any], NDArray[Any] | None]
) -> relax.Expr | None:
    """``relax.nn.batch_norm`` in inference with constant statistics as ``x * scale + shift``.

    Returns the operator's tuple (result, mean, variance), or None where this does not fit.
    """
    data, *rest = call.args
    values = [known(arg) for arg in rest[:4]]
    attrs = call.attrs
    if any(v is None or v.dtype != np.float32 for v in values) or bool(attrs.training):
        return None
    gamma, beta, mean, variance = (v.astype(np.float64) for v in values if v is not None)
    scale = 1.0 / np.sqrt(variance + float(attrs.epsilon))
    scale = scale * gamma if attrs.scale else scale
    shift = -mean * scale + (beta if attrs.center else 0.0)
    extents = [1] * len(data.ty.shape)
    extents[int(attrs.axis)] = -1
    scaled = bb.emit(relax.op.multiply(data, _constant(scale, extents)))
    result = bb.emit(relax.op.add(scaled, _constant(shift, extents)))
    return relax.Tuple([result, rest[2], rest[3]])


def _constant(value: NDArray[Any], extents: Sequence[int]) -> relax.Expr:
    return relax.const(value.astype(np.float32).reshape(extents))
