"""Attention on a CPU: queries times keys.

A tile of L rows of keys (L: lanes) at a time, a few queries at a time: a vector of products for
each row and query, and these folded into one vector of L scores for each query
(`tir.horizontal_sums`). A key is read once for the few queries; all queries of a block meet a tile
while it is near.

The rows of a tile are taken in steps of four, in a loop: what four of them fold to is one vector
for each query, which is stored, and after the tile the rest is folded. As straight code for all
L rows LLVM takes the loads of keys out of the loop over the queries, copies a whole tile to the
stack first, and waits for the memory meanwhile.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.attention.common import read_cache_row
from tvm_hetero.kernels.attention.pairs import multiply_pairs, pairs_of_row
from tvm_hetero.kernels.attention.query_block import LOWEST, Block
from tvm_hetero.kernels.tir.horizontal_sums import fold, fold_parts
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    real,
    store,
    whole,
)

if TYPE_CHECKING:
    Expr = Any


def compute_scores(block: Block, end: Expr) -> tirx.Stmt:
    """The scores of all queries and the rows before ``end``."""
    sizes = block.sizes

    def tile(t: Expr) -> tirx.Stmt:
        parts = sizes.block // sizes.few
        return loop("part", parts, lambda p: _tile(block, p, t * sizes.lanes))

    whole_vectors = (end + (sizes.along - 1)) // sizes.along
    return loop("tile", whole_vectors * (sizes.along // sizes.lanes), tile)


def _tile(block: Block, p: Expr, t: Expr) -> list[tirx.Stmt]:
    """The scores of the ``p``-th few queries and the keys of rows ``t`` ..."""
    sizes, query = block.sizes, block.scratch.query
    queries = [p * sizes.few + m for m in range(sizes.few)]
    steps = sizes.lanes // sizes.keys

    def place(m: int, s: Expr) -> Expr:
        return ramp(block.scratch.behind + (m * steps + s) * sizes.lanes, sizes.lanes)

    def step(s: Expr) -> list[tirx.Stmt]:
        sums, statements = fold_parts(
            lambda u: _products(block, queries, p, t + (s * sizes.keys + u)), sizes.lanes
        )
        kept = [store(query, [place(m, s)], total) for m, total in enumerate(sums)]
        return [*statements, *kept]

    halves = [[load(query, place(m, whole(s))) for m in range(sizes.few)] for s in range(steps)]
    sums, statements = fold(halves, sizes.lanes)
    stores = [
        store_masked_scores(block, n, t, total) for n, total in zip(queries, sums, strict=True)
    ]
    return [loop("step", steps, step), *statements, *stores]


def _products(
    block: Block, queries: Sequence[Expr], p: Expr, t: Expr
) -> tuple[list[Expr], list[tirx.Stmt]]:
    """A few queries times a key, lane by lane."""
    a, sizes = block.a, block.sizes
    row = t if a.length % sizes.along == 0 else tirx.min(t, whole(a.length - 1))
    parts = sizes.block // sizes.few
    asked = block.ask(block.tensors.keys, t + sizes.ahead, p, parts) if sizes.ahead else []
    keys, read = _key(block, row, ordered=sizes.ordered)
    statements = [*asked, *read]
    totals = []
    for i, n in enumerate(queries):
        if i == 1 and sizes.ordered and a.dtype == "float32":
            # Loads that are not ordered become operands of multiply-adds: no register needed.
            keys, read = _key(block, row, ordered=False)
            statements += read
        total, bind = bind_value("product", _product(block, n, keys))
        totals.append(total)
        statements.append(bind)
    return totals, statements


def _key(block: Block, row: Expr, *, ordered: bool) -> tuple[list[Expr], list[tirx.Stmt]]:
    """The vectors of a key, and the statements that read them."""
    a, sizes, keys = block.a, block.sizes, block.tensors.keys
    place, vectors = [block.g, row], a.size // sizes.lanes
    if sizes.pairs:
        return pairs_of_row(keys, place, whole(0), vectors // 2)
    return read_cache_row(a, keys, place, whole(0), vectors, sizes.lanes, ordered=ordered)


def _product(block: Block, n: Expr, keys: Sequence[Expr]) -> Expr:
    """A query times a key, lane by lane."""
    query, start, lanes = block.scratch.query, n * block.a.size, block.sizes.lanes
    if block.sizes.pairs:
        return multiply_pairs(query, start, keys)
    numbers = [load(query, ramp(start + j * lanes, lanes)) for j in range(len(keys))]
    return functools.reduce(operator.add, map(operator.mul, numbers, keys))


def store_masked_scores(block: Block, n: Expr, t: Expr, scores: Expr) -> tirx.Stmt:
    """Store the scores of a query; rows that it must not see score lowest."""
    lanes = block.sizes.lanes
    last = tirx.Cast("int32", block.row(n) - t)
    seen = ramp(tirx.const(0, "int32"), lanes) <= broadcast(last, lanes)
    scores = tirx.Select(seen, scores, broadcast(real(LOWEST), lanes))
    return store(block.scratch.scores, [n, ramp(t, lanes)], scores)
