"""Casts between integers that TVM's analyzer takes for the number before the cast.

TVM bounds a cast by the numbers that its operand and its type share: of ``int8(x)`` for a uint8 x
it says 0 to 127, though 255 becomes -1. Then it takes ``max(int8(x), 0)`` for ``int8(x)``, and a
check of an index, ``int8(x) < 0``, for false. It says nothing of a number's bits that are read as
another type: so are casts written here that would be taken for something else. What is negative
and becomes unsigned is counted down from the greatest number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

if TYPE_CHECKING:
    Expr = Any


def with_exact_casts(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that computes the same, with no cast of which TVM's analyzer thinks wrongly."""
    body = tvm_ffi.structural_map(func.body, (tirx.Cast, _rewritten))
    return func if body.same_as(func.body) else func.with_body(body)


def exact_cast(kind: str, value: Expr) -> Expr:
    """A whole number as another type, as hardware makes it of its bits."""
    return value if str(value.ty.dtype) == kind else _rewritten(tirx.Cast(kind, value))


def _rewritten(cast: tirx.Cast) -> Expr:
    kind, given = str(cast.ty.dtype), str(cast.value.ty.dtype)
    if not (_is_whole(kind) and _is_whole(given)):
        return cast
    bound, target = _bound(cast.value), _range(kind)
    if _within(bound, target) or _within(target, bound):
        return cast
    if _bits(given) == 64 and _within(bound, _range("int32")):
        # TVM narrows such a number when it compiles, and then its bits would be too few.
        return _read_as(kind, tirx.Cast("int32", cast.value))
    return _read_as(kind, cast.value)


def _read_as(kind: str, value: Expr) -> Expr:
    """The least bits of a whole number, its sign before them, as another type."""
    given = str(value.ty.dtype)
    bits = _bits(given)
    if _sign(kind) == "uint" and _sign(given) == "int" and _bits(kind) >= bits:
        below = tirx.max_value(kind) - tirx.Cast(kind, tirx.const(-1, given) - value)
        return tirx.Select(value < tirx.const(0, given), below, tirx.Cast(kind, value))
    if _sign(kind) == _sign(given):  # fewer bits of a number with bounds, which are hidden
        other = "int" if _sign(kind) == "uint" else "uint"
        value = tirx.reinterpret(f"{other}{bits}", value)
    hidden = tirx.reinterpret(f"{_sign(kind)}{bits}", value)
    return hidden if _bits(kind) == bits else tirx.Cast(kind, hidden)


def _is_whole(kind: str) -> bool:
    return _sign(kind) in ("int", "uint") and kind.removeprefix(_sign(kind)).isdigit()


def _sign(kind: str) -> str:
    return kind.rstrip("0123456789")


def _bits(kind: str) -> int:
    return int(tvm_ffi.dtype(kind).bits)


def _range(kind: str) -> tuple[int, int]:
    bits = _bits(kind)
    return (0, 2**bits - 1) if _sign(kind) == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _bound(value: Expr) -> tuple[int, int]:
    """Numbers that a value may be; the analyzer's own have 63 bits, and none beyond them."""
    bound, most = Analyzer().const_int_bound(value), _range(str(value.ty.dtype))
    least, greatest = int(bound.min_value), int(bound.max_value)
    return (
        most[0] if least <= -(2**63) + 1 else max(least, most[0]),
        most[1] if greatest >= 2**63 - 1 else min(greatest, most[1]),
    )


def _within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
