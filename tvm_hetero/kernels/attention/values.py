"""Attention on a CPU: powers times values.

A few vectors of the sums of a few queries are in registers while a stretch of rows passes; the
stretch stays in the first cache until all sums of a block have met it, each few of which ask for a
part of the next one. Where the few are all, there is one stretch, of all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.attention.common import row_of_cache
from tvm_hetero.kernels.attention.pairs import pairs_of_row
from tvm_hetero.kernels.attention.query_block import Block
from tvm_hetero.kernels.cpu.bfloat16_pairs import in_turn
from tvm_hetero.kernels.cpu.llvm_functions import dot_bfloat16
from tvm_hetero.kernels.tir.statements import (
    bound,
    load,
    loop,
    ramp,
    real,
    spread,
    store,
    vectors,
    whole,
)

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
        return [bind, loop("part", _parts(block), lambda p: _part(block, start, rows, p))]

    stretches = (end + (sizes.stretch - 1)) // sizes.stretch
    return [loop("n", sizes.block, zero), loop("stretch", stretches, stretch)]


def _parts(block: Block) -> int:
    """Parts of the sums, of few queries and few vectors each."""
    sizes = block.sizes
    return block.a.size // (sizes.across * sizes.lanes) * (sizes.block // sizes.together)


def _part(block: Block, start: Expr, rows: Expr, p: Expr) -> list[tirx.Stmt]:
    """What a stretch of rows adds to the ``p``-th part of the sums."""
    sizes, result, sums = block.sizes, block.scratch.result, block.scratch.sums
    size, groups = sizes.across * sizes.lanes, sizes.block // sizes.together
    n, first = p % groups * sizes.together, p // groups * sizes.across

    def moved(m: int, j: Expr, *, back: bool) -> tirx.Stmt:
        column = first * sizes.lanes + j
        if back:
            return store(result, [n + m, column], load(sums[m], j))
        return store(sums[m], [j], load(result, n + m, column))

    def all_moved(*, back: bool) -> list[tirx.Stmt]:
        return [
            vectors("j", size, sizes.lanes, lambda j, m=m: moved(m, j, back=back))  # type: ignore[misc]
            for m in range(len(sums))
        ]

    if sizes.pairs:
        last = start + rows - 1
        pairs = (rows + 1) // 2
        each = loop("t", pairs, lambda t: _two_rows(block, start + t * 2, last, n, first, p))
        return [*all_moved(back=False), each, *all_moved(back=True)]
    rows_of_stretch = loop("t", rows, lambda t: _row(block, start + t, n, first, p))
    return [*all_moved(back=False), rows_of_stretch, *all_moved(back=True)]


def _two_rows(block: Block, t: Expr, last: Expr, n: Expr, first: Expr, p: Expr) -> list[tirx.Stmt]:
    """A few vectors of two rows of values times the powers of a few queries.

    Behind the ``last`` row comes the same once more, times a power of zero: what a cache holds
    there may be no number.
    """
    sizes, cache, parts = block.sizes, block.tensors.values, _parts(block)
    ahead = sizes.later if parts > 1 else sizes.ahead
    asked = [ask for k in (0, 1) if ahead for ask in block.ask(cache, t + k + ahead, p, parts)]
    rows, statements = [], [*asked]
    for row in (t, tirx.min(t + 1, last)):
        place, column = [block.g, row], first * sizes.lanes
        found, read = pairs_of_row(cache, place, column, sizes.across // 2)
        rows.append(found)
        statements += read
    halves = [bound("values", half) for pair in zip(*rows, strict=True) for half in in_turn(*pair)]
    statements += [bind for _, bind in halves]
    for m, sums in enumerate(block.scratch.sums):
        power, bind = bound("power", load(block.scratch.scores, n + m, t // 2))
        statements.append(bind)
        for j, (value, _) in enumerate(halves):
            at = ramp(whole(j * sizes.lanes), sizes.lanes)
            total = dot_bfloat16(load(sums, at), spread(power, sizes.lanes), value)
            statements.append(store(sums, [at], total))
    return statements


def _row(block: Block, t: Expr, n: Expr, first: Expr, p: Expr) -> list[tirx.Stmt]:
    """A few vectors of a row of values times the powers of a few queries."""
    a, sizes, cache = block.a, block.sizes, block.tensors.values
    parts = _parts(block)
    ahead = sizes.later if parts > 1 else sizes.ahead
    asked = block.ask(cache, t + ahead, p, parts) if ahead else []
    found, statements = row_of_cache(
        a, cache, [block.g, t], first, sizes.across, sizes.lanes, ordered=sizes.ordered
    )
    statements = [*asked, *statements]
    for m, sums in enumerate(block.scratch.sums):
        power, bind = bound("power", load(block.scratch.scores, n + m, t))
        statements.append(bind)
        for j, value in enumerate(found):
            at = ramp(whole(j * sizes.lanes), sizes.lanes)
            statements.append(
                store(sums, [at], load(sums, at) + spread(power, sizes.lanes) * value)
            )
    return statements
