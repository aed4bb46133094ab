"""Attention on a CPU: scores become powers.

Each query's largest score, exp of what is left, and the sum of these: two passes over its scores,
which are few numbers beside keys and values, in vectors along the rows. What is beyond the rows
that a query sees has the lowest score and becomes zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import tirx

from .attention_block import LOWEST, Block
from .llvm_functions import packed_bfloat16
from .statements import VECTORIZED, bound, load, loop, ramp, real, store

if TYPE_CHECKING:
    Expr = Any

# Which vector of `Scratch.lanes`, and which number of `Scratch.few`.
_LARGEST, SUM = 0, 1


def powers(block: Block, n: Expr, end: Expr) -> list[tirx.Stmt]:
    """The powers of a query, and the inverse of their sum."""
    along, scores = block.sizes.along, block.scratch.scores
    lanes, few = block.scratch.lanes, block.scratch.few

    def start(i: Expr) -> list[tirx.Stmt]:
        return [store(lanes, [_LARGEST, i], real(LOWEST)), store(lanes, [SUM, i], real(0))]

    def largest(s: Expr, i: Expr) -> tirx.Stmt:
        score = load(scores, n, s + i)
        return store(lanes, [_LARGEST, i], tirx.max(load(lanes, _LARGEST, i), score))

    def power(s: Expr, i: Expr) -> list[tirx.Stmt]:
        raised = tirx.exp(load(scores, n, s + i) - load(few, _LARGEST, n))
        summed = load(lanes, SUM, i) + load(scores, n, s + i)
        return [store(scores, [n, s + i], raised), store(lanes, [SUM, i], summed)]

    def each_vector(step: Callable[[Expr, Expr], Any]) -> tirx.Stmt:
        def vector(s: Expr) -> tirx.Stmt:
            return loop("i", along, lambda i: step(s * along, i), VECTORIZED)

        return loop("s", (end + (along - 1)) // along, vector)

    return [
        loop("i", along, start, VECTORIZED),
        each_vector(largest),
        *_over_lanes(block, _LARGEST, n, tirx.max),
        each_vector(power),
        *_over_lanes(block, SUM, n, operator.add),
        store(few, [SUM, n], real(1) / load(few, SUM, n)),
        *([_paired(block, n, end)] if block.sizes.pairs else []),
    ]


def _paired(block: Block, n: Expr, end: Expr) -> tirx.Stmt:
    """A query's powers as pairs of one row and the next, in the first half of their place.

    What stands behind the last whole vector of powers becomes pairs that nobody reads.
    """
    lanes, scores = block.sizes.lanes, block.scratch.scores

    def vector(s: Expr) -> list[tirx.Stmt]:
        both = [load(scores, n, ramp(s * (2 * lanes) + k, lanes)) for k in (0, lanes)]
        pairs, bind = bound("pairs", packed_bfloat16(*both))
        return [bind, store(scores, [n, ramp(s * lanes, lanes)], pairs)]

    return loop("s", (end + (2 * lanes - 1)) // (2 * lanes), vector)


def _over_lanes(
    block: Block, which: int, n: Expr, join: Callable[[Expr, Expr], Expr]
) -> list[tirx.Stmt]:
    """One number of the lanes of a vector, kept for a query."""
    lanes, few = block.scratch.lanes, block.scratch.few
    first = store(few, [which, n], load(lanes, which, 0))
    rest = range(1, block.sizes.along)
    return [
        first,
        *(store(few, [which, n], join(load(few, which, n), load(lanes, which, i))) for i in rest),
    ]
