"""As many vectors as each has lanes, rows to columns.

Two neighbours at a time are shuffled into one vector of the first and one of the second half of
their columns, the rows side by side: of L vectors with lanes (column, row) half of the columns are
left in each, twice the rows. After log L such steps a vector has one column and all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from .statements import bound

if TYPE_CHECKING:
    Expr = Any
    Vectors = tuple[list[Expr], list[tirx.Stmt]]


def transposed(rows: Sequence[Expr]) -> Vectors:
    """A vector for each column, and the statements that they need.

    Parameters
    ----------
    rows
        As many vectors as each has lanes, a power of two.
    """
    return _columns(list(rows), len(rows), 1)


def _columns(vectors: list[Expr], columns: int, rows: int) -> Vectors:
    """Of vectors with lanes (column, row), one for each column."""
    if columns == 1:
        return vectors, []
    found, statements = [], []
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    for half in (0, 1):
        order = _order(columns, rows, half)
        moved = [bound("column", tirx.Shuffle(list(pair), order)) for pair in pairs]
        own, more = _columns([var for var, _ in moved], columns // 2, 2 * rows)
        found += own
        statements += [*(bind for _, bind in moved), *more]
    return found, statements


def _order(columns: int, rows: int, half: int) -> list[int]:
    """The lanes of two vectors that hold the first or second half of their columns."""
    first = half * columns // 2
    return [
        vector * columns * rows + column * rows + row
        for column in range(first, first + columns // 2)
        for vector in range(2)
        for row in range(rows)
    ]
