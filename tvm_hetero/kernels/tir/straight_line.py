"""Code without loops: values that are named one after the other, and the statements that do so.

What is written out for vectors (transforms of tiles, transpositions) are some dozens of additions
and shuffles, each of which reads what others gave. `Straight` collects their statements, and
`transpose` is the one building block that several of them need.

A square of L vectors with L lanes each is transposed in log2 L steps of L shuffles: each step
interleaves the lanes of vectors i and i + L/2, low halves into vector 2i, high halves into vector
2i + 1. A step so turns the address of a value, the bits of its vector and of its lane as one
number, by one place; after log2 L steps vector and lane have changed places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import bind_value

if TYPE_CHECKING:
    Expr = Any


class Straight:
    """Statements without loops, in their order."""

    def __init__(self) -> None:
        self.statements: list[tirx.Stmt] = []

    def let(self, value: Expr) -> Expr:
        """The value under a name of its own, so that it is computed once."""
        var, bind = bind_value("v", value)
        self.statements.append(bind)
        return var

    def add(self, statement: tirx.Stmt) -> None:
        """Do that next."""
        self.statements.append(statement)


def transpose(code: Straight, vectors: Sequence[Expr]) -> list[Expr]:
    """The vectors whose lane i is lane j of the given vectors' i-th, for each j.

    Parameters
    ----------
    code
        Receives the statements.
    vectors
        As many vectors as each has lanes, a power of two.
    """
    lanes = half = len(vectors)
    low = [side * lanes + i for i in range(lanes // 2) for side in (0, 1)]
    high = [place + lanes // 2 for place in low]
    rows = list(vectors)
    while half > 1:
        pairs = zip(rows[: lanes // 2], rows[lanes // 2 :], strict=True)
        rows = [code.let(tirx.Shuffle(list(pair), part)) for pair in pairs for part in (low, high)]
        half //= 2
    return rows
