"""Attention on a CPU: scores become powers.

Each query's largest score, exp of what is left, and the sum of these: two passes over its scores,
which are few numbers beside keys and values, in vectors along the rows. What is beyond the rows
that a query sees has the lowest score and becomes zero.

All that is arithmetic, during which the memory would rest. Where it is what is waited for before
and afterwards (`attention.amx`), a line of the values, the first ones that will be read, is asked
for with each vector of powers. (The kernel's time: `python -m benchmarks.decode_kernels`.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.attention.query_block import LOWEST, Block
from tvm_hetero.kernels.cpu.llvm_functions import pack_bfloat16
from tvm_hetero.kernels.tir.statements import (
    VECTORIZED,
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    real,
    store,
)

if TYPE_CHECKING:
    Expr = Any

# Which vector of a scratch's `lanes`, and which number of its `few`.
_LARGEST, SUM = 0, 1


def compute_numerators(block: Block, n: Expr, end: Expr) -> list[tirx.Stmt]:
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

    count = (end + (along - 1)) // along

    def each_vector(step: Callable[[Expr, Expr], Any], *, asks: bool = False) -> tirx.Stmt:
        def vector(s: Expr) -> list[tirx.Stmt]:
            line = n * count + s
            asked = [block.ask_for_values(line)] if asks and block.sizes.amx else []
            return [*asked, loop("i", along, lambda i: step(s * along, i), VECTORIZED)]

        return loop("s", count, vector)

    return [
        loop("i", along, start, VECTORIZED),
        each_vector(largest),
        *_over_lanes(block, _LARGEST, n, tirx.max),
        each_vector(power, asks=True),
        *_over_lanes(block, SUM, n, operator.add),
        store(few, [SUM, n], real(1) / load(few, SUM, n)),
        *([_nothing_behind(block, n, end)] if block.sizes.amx else []),
        *([_paired(block, n, end)] if block.sizes.pairs else []),
    ]


def _nothing_behind(block: Block, n: Expr, end: Expr) -> tirx.Stmt:
    """Zeros behind a query's powers, to the end of a stretch of values at least."""
    along, stretch = block.sizes.along, block.sizes.stretch
    first = (end + (along - 1)) // along * along

    def zeros(s: Expr) -> tirx.Stmt:
        place = ramp(first + s * along, along)
        return store(block.scratch.scores, [n, place], broadcast(real(0), along))

    return loop("s", stretch // along - 1, zeros)


def _paired(block: Block, n: Expr, end: Expr) -> tirx.Stmt:
    """A query's powers as pairs of one row and the next, in the first half of their place.

    What stands behind the last whole vector of powers becomes pairs that no one reads.
    """
    lanes, scores = block.sizes.lanes, block.scratch.scores

    def vector(s: Expr) -> list[tirx.Stmt]:
        both = [load(scores, n, ramp(s * (2 * lanes) + k, lanes)) for k in (0, lanes)]
        pairs, bind = bind_value("pairs", pack_bfloat16(*both))
        return [bind, store(scores, [n, ramp(s * lanes, lanes)], pairs)]

    rows = block.sizes.stretch if block.sizes.amx else 2 * lanes
    return loop("s", (end + (rows - 1)) // rows * (rows // (2 * lanes)), vector)


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
