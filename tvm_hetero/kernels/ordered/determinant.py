"""Determinants by Gaussian elimination with partial pivoting.

    for each column c:  bring the largest of rows c.. to row c      (each swap changes the sign)
                        det = det * a[c, c]
                        a[r, k] -= a[r, c] / a[c, c] * a[c, k]      for the rows below

A pivot of 0 means that the rest of the column is 0: then so is the determinant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.ordered.accumulate import OPAQUE
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    function,
    load,
    loop,
    store,
    tensor,
    when,
    whole,
)

if TYPE_CHECKING:
    Expr = Any


def determinant(count: int, size: int, dtype: str) -> tirx.PrimFunc:
    """The kernel of `count` determinants of square matrices.

    Parameters
    ----------
    count
        How many matrices there are.
    size
        Of their sides.
    dtype
        float32 or float64.
    """
    data, out = tensor("data", [count, size, size], dtype), tensor("out", [count], dtype)
    rows = tensor("rows", [size, size], dtype)

    def each(at: Any) -> tirx.Stmt:
        return loop("r", size, lambda r: loop("k", size, lambda k: at(r, k)))

    def swap(r: Expr, c: Expr, m: Expr) -> tirx.Stmt:
        larger = tirx.abs(load(rows, r, c)) > tirx.abs(load(rows, c, c))

        def one(k: Expr) -> list[tirx.Stmt]:
            value, keep = bind_value("value", load(rows, c, k))
            return [keep, store(rows, [c, k], load(rows, r, k)), store(rows, [r, k], value)]

        turned = store(out, [m], tirx.const(0, dtype) - load(out, m))
        return when(larger, [loop("k", size, one), turned])

    def eliminate(r: Expr, c: Expr) -> list[tirx.Stmt]:
        factor, keep = bind_value("factor", load(rows, r, c) / load(rows, c, c))
        less = lambda k: load(rows, r, k) - factor * load(rows, c, k)  # noqa: E731
        return [keep, loop("k", size, lambda k: store(rows, [r, k], less(k)))]

    def column(c: Expr, m: Expr) -> list[tirx.Stmt]:
        below = whole(size - 1) - c
        pivot = load(rows, c, c)
        return [
            loop("r", below, lambda r: swap(c + 1 + r, c, m)),
            store(out, [m], load(out, m) * pivot),
            when(
                pivot != tirx.const(0, dtype),
                loop("r", below, lambda r: eliminate(c + 1 + r, c)),
            ),
        ]

    def matrix(m: Expr) -> list[tirx.Stmt]:
        return [
            each(lambda r, k: store(rows, [r, k], load(data, m, r, k))),
            store(out, [m], tirx.const(1, dtype)),
            loop("c", size, lambda c: column(c, m)),
        ]

    body = loop("m", count, matrix)
    return function([data, out], body, "determinant", [out], [rows], attrs=OPAQUE)
