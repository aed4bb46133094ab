"""Divisions of whole numbers by what stands in memory, which no processor may be asked blindly.

A division of integers by 0, or of the least one by -1, ends the process on x86. Here

    a / 0 = 0        a mod 0 = 0        a / -1 = 0 - a (which wraps)        a mod -1 = 0

as NumPy has it; ONNX says nothing of it. Divisors that are constants of the kernel stay as they
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

if TYPE_CHECKING:
    Expr = Any

_QUOTIENTS = (tirx.Div, tirx.FloorDiv)
_REMAINDERS = (tirx.Mod, tirx.FloorMod)


def guard_divisions(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that divides integers by nothing that would end the process; perhaps itself."""
    changed = False

    def guarded(node: Expr) -> Expr:
        nonlocal changed
        kind = str(node.ty.dtype)
        if not kind.startswith(("int", "uint")) or not _is_read(node.b):
            return node
        changed = True
        return _guarded(node, kind)

    body = tvm_ffi.structural_map(func.body, ((*_QUOTIENTS, *_REMAINDERS), guarded))
    return func.with_body(body) if changed else func


def _guarded(node: Expr, kind: str) -> Expr:
    zero, one = tirx.const(0, kind), tirx.const(1, kind)
    a, b = node.a, node.b
    nothing, signed = tirx.EQ(b, zero), kind.startswith("int")
    minus = tirx.EQ(b, tirx.const(-1, kind)) if signed else tirx.const(False, "bool")
    harmless = tirx.Select(tirx.Or(nothing, minus), one, b)
    result = type(node)(a, harmless)
    opposite = tirx.Sub(zero, a) if isinstance(node, _QUOTIENTS) else zero
    if signed:
        result = tirx.Select(minus, opposite, result)
    return tirx.Select(nothing, zero, result)


def _is_read(value: Expr) -> bool:
    """Whether a number depends on what stands in memory."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (TensorLoad, found.append))
    return bool(found)
