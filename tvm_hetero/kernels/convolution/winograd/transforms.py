"""The three transforms of Winograd's F(4x4, 3x3): tiles of data, windows, tiles of results.

Notation (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308,
section 4.3): Y = A' [ (G g G') * (B' d B) ] A for a tile d of 6x6 values, a window g of 3x3 and
results Y of 4x4, where * multiplies element by element: 36 products instead of 144. B, G and A
evaluate and interpolate polynomials at 0, 1, -1, 2, -2 and infinity.

Each transform is applied to the columns, then to the rows. Those of one line are written out here
with what their results have in common computed once, so that every line is one multiply-add or
one addition: 12 for data, 9 for windows, 10 for results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm_hetero.kernels.tir.statements import broadcast, real
from tvm_hetero.kernels.tir.straight_line import Straight

if TYPE_CHECKING:
    Expr = Any
    Line = Callable[[Straight, Sequence[Expr]], list[Expr]]

# Extents of a tile of data, of a tile of results, of a window.
TILE, STEP, WINDOW = 6, 4, 3
ELEMENTS = TILE * TILE


def data_line(code: Straight, d: Sequence[Expr]) -> list[Expr]:
    """B' d for one line of six vectors."""
    c = _constants(d)
    even, odd = code.let(d[4] - c(4) * d[2]), code.let(d[3] - c(4) * d[1])
    far, near = code.let(d[4] - d[2]), code.let(d[3] - d[1])
    return [
        code.let(c(4) * d[0] + code.let(d[4] - c(5) * d[2])),
        code.let(even + odd),
        code.let(even - odd),
        code.let(far + c(2) * near),
        code.let(far - c(2) * near),
        code.let(c(4) * d[1] + code.let(d[5] - c(5) * d[3])),
    ]


def window_line(code: Straight, g: Sequence[Expr]) -> list[Expr]:
    """G g for one line of three vectors."""
    c = _constants(g)
    both = code.let((g[0] + g[2]) * c(-1 / 6))
    wide = code.let(c(1 / 24) * g[0] + code.let(c(1 / 6) * g[2]))
    return [
        code.let(c(1 / 4) * g[0]),
        code.let(both - c(1 / 6) * g[1]),
        code.let(both + c(1 / 6) * g[1]),
        code.let(wide + c(1 / 12) * g[1]),
        code.let(wide - c(1 / 12) * g[1]),
        g[2],
    ]


def result_line(code: Straight, m: Sequence[Expr]) -> list[Expr]:
    """A' m for one line of six vectors."""
    c = _constants(m)
    one, other = code.let(m[1] + m[2]), code.let(m[1] - m[2])
    two, more = code.let(m[3] + m[4]), code.let(m[3] - m[4])
    return [
        code.let(m[0] + one + two),
        code.let(other + c(2) * more),
        code.let(one + c(4) * two),
        code.let(m[5] + other + c(8) * more),
    ]


def both_ways(code: Straight, line: Line, square: Sequence[Sequence[Expr]]) -> list[list[Expr]]:
    """The transform of a square of vectors, rows of columns: its columns first, then its rows."""
    columns = [line(code, column) for column in zip(*square, strict=True)]
    return [line(code, row) for row in zip(*columns, strict=True)]


def _constants(vectors: Sequence[Expr]) -> Callable[[float], Expr]:
    lanes = int(vectors[0].ty.dtype.lanes)
    return lambda value: broadcast(real(value), lanes)
