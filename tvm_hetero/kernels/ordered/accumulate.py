"""Sums and products of all that comes before along an axis.

out[o, t, i] = out[o, t-1, i] + x[o, t, i]      or times it
exclusive: of what comes before t alone; reverse: from the end
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import (
    VECTORIZED,
    function,
    load,
    loop,
    store,
    tensor,
    whole,
)

if TYPE_CHECKING:
    Expr = Any

_LANES = 16
OPAQUE = {"op_pattern": 8}


def accumulate(
    extents: tuple[int, int, int],
    dtype: str,
    *,
    product: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> tirx.PrimFunc:
    """The kernel of running sums or products along the middle one of three axes.

    Parameters
    ----------
    extents
        Of the tensor.
    dtype
        Of its elements.
    product
        Whether it multiplies.
    exclusive
        Whether an element counts only for those behind it.
    reverse
        Whether it begins at the end.
    """
    outer, length, inner = extents
    data, out = tensor("data", extents, dtype), tensor("out", extents, dtype)

    def place(step: Expr) -> Expr:
        return whole(length - 1) - step if reverse else step

    def first(o: Expr, i: Expr) -> tirx.Stmt:
        at = [o, place(whole(0)), i]
        start = tirx.const(int(product), dtype) if exclusive else load(data, *at)
        return store(out, at, start)

    def following(o: Expr, t: Expr, i: Expr) -> tirx.Stmt:
        at, before = [o, place(t + 1), i], [o, place(t), i]
        new = load(data, *(before if exclusive else at))
        old = load(out, *before)
        return store(out, at, old * new if product else old + new)

    def row(o: Expr) -> list[tirx.Stmt]:
        return [
            _in_vectors(inner, lambda i: first(o, i)),
            loop("t", length - 1, lambda t: _in_vectors(inner, lambda i: following(o, t, i))),
        ]

    body = loop("o", outer, row)
    return function([data, out], body, "accumulate", [out], attrs=OPAQUE)


def _in_vectors(extent: int, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
    """A loop in vectors, if they divide it: LLVM does not see that a row is not the next one."""
    if extent % _LANES:
        return loop("i", extent, body)

    def vector(v: Expr) -> tirx.Stmt:
        return loop("lane", _LANES, lambda lane: body(v * _LANES + lane), VECTORIZED)

    return loop("i", extent // _LANES, vector)
