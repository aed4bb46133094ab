"""Attention on a CPU: powers times values.

A few queries keep their sums in registers while a stretch of rows passes; the stretch stays in the
first cache until all queries of a block have met it, each few of which ask for a part of the next
one. Where a few queries are all, there is one stretch, of all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

from .attention_block import Block
from .attention_parts import widened
from .statements import bound, load, loop, ramp, real, spread, store, vectors, whole

if TYPE_CHECKING:
    Expr = Any


def values(block: Block, end: Expr) -> list[tirx.Stmt]:
    """Sums of the values of rows before ``end``, times the powers of each query."""
    sizes, result = block.sizes, block.scratch.result

    def zero(n: Expr) -> tirx.Stmt:
        return vectors("j", block.a.size, sizes.lanes, lambda j: store(result, [n, j], real(0)))

    def stretch(s: Expr) -> list[tirx.Stmt]:
        start = s * sizes.stretch
        rows, bind = bound("rows", tirx.min(end - start, whole(sizes.stretch)))
        parts = sizes.block // sizes.together
        return [bind, loop("part", parts, lambda p: _part(block, start, rows, p))]

    stretches = (end + (sizes.stretch - 1)) // sizes.stretch
    return [loop("n", sizes.block, zero), loop("stretch", stretches, stretch)]


def _part(block: Block, start: Expr, rows: Expr, p: Expr) -> list[tirx.Stmt]:
    """What a stretch of rows adds to the ``p``-th few queries."""
    n, result, sums = p * block.sizes.together, block.scratch.result, block.scratch.sums

    def moved(m: int, j: Expr, *, back: bool) -> tirx.Stmt:
        if back:
            return store(result, [n + m, j], load(sums[m], j))
        return store(sums[m], [j], load(result, n + m, j))

    def all_moved(*, back: bool) -> list[tirx.Stmt]:
        size, lanes = block.a.size, block.sizes.lanes
        return [
            vectors("j", size, lanes, lambda j, m=m: moved(m, j, back=back))  # type: ignore[misc]
            for m in range(len(sums))
        ]

    rows_of_stretch = loop("t", rows, lambda t: _row(block, start + t, n, p))
    return [*all_moved(back=False), rows_of_stretch, *all_moved(back=True)]


def _row(block: Block, t: Expr, n: Expr, p: Expr) -> list[tirx.Stmt]:
    """A row of values times the powers of a few queries."""
    lanes, parts = block.sizes.lanes, block.sizes.block // block.sizes.together
    ahead = block.sizes.stretch if parts > 1 else block.sizes.ahead
    statements = block.ask(block.tensors.values, t + ahead, p, parts)
    for j in range(0, block.a.size, lanes):
        at = ramp(whole(j), lanes)
        stored = load(block.tensors.values, block.g, t, at)
        value, bind = bound("value", widened(stored, lanes))
        statements.append(bind)
        for m, sums in enumerate(block.scratch.sums):
            power = spread(load(block.scratch.scores, n + m, t), lanes)
            statements.append(store(sums, [at], load(sums, at) + power * value))
    return statements
