"""Attention (`attention.kernel`) on a CPU: loops that read each cache once, in vectors.

For each head of keys, its *queries* are the rows times the heads that read it. A block of them at
a time:

    queries    turned and scaled, side by side
    scores     of all rows, a tile of keys at a time                      `attention.scores`
    powers     exp of scores less the largest, and their sum              `attention.softmax`
    values     sums of values times powers                                `attention.values`
    both products, where there are tile registers                         `attention.amx`
    results    the sums, divided

So a step of one token is one pass over the keys and one over the values, at the memory's pace; a
chunk has more queries, and becomes two products of matrices.

Vectors have L lanes, the widest power of two that divides a head's size. Where a vector's lanes do
not divide the length of the cache, the last tile reads the cache's last row several times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.attention.amx import (
    PRODUCTS,
    REGISTERS_OF_SCORES,
    registers_of_values,
    scores_by_tiles,
    values_by_tiles,
)
from tvm_hetero.kernels.attention.common import (
    Attention,
    Tensors,
    apart,
    first_row,
    tensors_of,
    turned,
    written,
)
from tvm_hetero.kernels.attention.query_block import (
    Block,
    BlockScratch,
    BlockSizes,
    scratch_for,
    sizes_of,
)
from tvm_hetero.kernels.attention.scores import scores
from tvm_hetero.kernels.attention.softmax import SUM, powers
from tvm_hetero.kernels.attention.values import values
from tvm_hetero.kernels.cpu.amx import tile_functions
from tvm_hetero.kernels.cpu.bfloat16_pairs import in_order
from tvm_hetero.kernels.cpu.llvm_functions import (
    PACKING,
    loading,
    multiplying,
    packed_bfloat16,
    with_functions,
)
from tvm_hetero.kernels.tir.statements import (
    PARALLEL,
    SERIAL,
    bound,
    function,
    load,
    loop,
    ramp,
    real,
    spread,
    store,
    whole,
)

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any


def attention_on_cpu(a: Attention, unit: VectorUnit, cores: int) -> tirx.PrimFunc:
    """The kernel for a vector unit; heads of keys are shared among ``cores``."""
    sizes, tensors = sizes_of(a, unit), tensors_of(a)
    scratch = scratch_for(a, sizes)
    first, bind = first_row(a, tensors)
    heads = loop(
        "g",
        a.kv_heads,
        lambda g: _head(a, tensors, sizes, scratch, first, g),
        PARALLEL if cores > 1 and a.kv_heads > 1 else SERIAL,
    )
    needed = _functions(sizes, unit)
    body = with_functions(needed, [bind, heads])
    return function(tensors.params, body, "attention", tensors.written, scratch.buffers)


def _functions(sizes: BlockSizes, unit: VectorUnit) -> list[str]:
    """The texts of the functions that the kernel calls."""
    needed = [loading(sizes.lanes)]
    if sizes.pairs:
        needed += [PACKING, multiplying(unit.dots)]
    if sizes.amx:
        rows = [REGISTERS_OF_SCORES, registers_of_values(sizes.block)]
        needed += tile_functions(rows, PRODUCTS)
    return needed


def _head(
    a: Attention, tensors: Tensors, sizes: BlockSizes, scratch: BlockScratch, first: Expr, g: Expr
) -> list[tirx.Stmt]:
    """A head of keys: what is new of it into the caches, then its queries."""
    write = loop("i", a.rows, lambda i: written(a, tensors, first, i, g, sizes.lanes))
    blocks = -(-a.rows * a.group // sizes.block)
    return [
        write,
        loop("block", blocks, lambda b: _block(Block(a, tensors, sizes, scratch, first, g, b))),
    ]


def _block(block: Block) -> list[tirx.Stmt]:
    queries = block.sizes.block
    end, bind = bound("end", block.row(whole(queries - 1)) + 1)
    by_amx = block.sizes.amx
    return [
        bind,
        loop("n", queries, lambda n: _query(block, n)),
        *(scores_by_tiles(block, end) if by_amx else [scores(block, end)]),
        loop("n", queries, lambda n: powers(block, n, end)),
        *(values_by_tiles if by_amx else values)(block, end),
        loop("n", queries, lambda n: _result(block, n)),
    ]


def _query(block: Block, n: Expr) -> list[tirx.Stmt]:
    """A query, turned and scaled."""
    i, column = block.place(n)
    row, bind = bound("row", block.row(n))

    def read(j: Expr) -> Expr:
        return load(block.tensors.q, i, column + j)

    def write(j: Expr, number: Expr) -> tirx.Stmt:
        return store(block.scratch.query, [n * block.a.size + j], number * real(block.a.scale))

    turn = turned(block.a, block.tensors, row, read, write, block.sizes.lanes)
    return [bind, *turn, *(_packed if block.sizes.pairs else _taken_apart)(block, n)]


def _packed(block: Block, n: Expr) -> list[tirx.Stmt]:
    """A query's numbers as pairs, which take the first half of its place."""
    lanes, start, query = block.sizes.lanes, n * block.a.size, block.scratch.query
    statements = []
    for j in range(0, block.a.size, 2 * lanes):
        both = [load(query, ramp(start + j + k, lanes)) for k in (0, lanes)]
        pairs, bind = bound("pairs", packed_bfloat16(*both))
        statements += [bind, store(query, [ramp(start + j // 2, lanes)], pairs)]
    return statements


def _taken_apart(block: Block, n: Expr) -> list[tirx.Stmt]:
    """A query's numbers in the order in which those of a row of a cache come."""
    lanes, query = block.sizes.lanes, block.scratch.query
    if not apart(block.a, lanes):
        return []
    statements = []
    for j in range(0, block.a.size, 2 * lanes):
        places = [ramp(n * block.a.size + j + k, lanes) for k in (0, lanes)]
        pair, binds = zip(*(bound("pair", load(query, at)) for at in places), strict=True)
        halves = [tirx.Shuffle(list(pair), list(range(k, 2 * lanes, 2))) for k in (0, 1)]
        stores = [store(query, [at], half) for at, half in zip(places, halves, strict=True)]
        statements += [*binds, *stores]
    return statements


def _result(block: Block, n: Expr) -> list[tirx.Stmt]:
    """A query's sums, divided by the sum of powers."""
    lanes, (i, column) = block.sizes.lanes, block.place(n)
    inverse, bind = bound("inverse", load(block.scratch.few, SUM, n))
    statements = [bind]
    for j, sums in _in_order(block, n):
        value = sums * spread(inverse, lanes)
        statements.append(store(block.tensors.out, [i, ramp(column + j, lanes)], value))
    return statements


def _in_order(block: Block, n: Expr) -> Iterator[tuple[int, Expr]]:
    """A query's sums, vector by vector, and where each begins."""
    lanes, size = block.sizes.lanes, block.a.size
    sums = [load(block.scratch.result, n, ramp(whole(j), lanes)) for j in range(0, size, lanes)]
    if block.sizes.pairs:
        sums = in_order(sums)
    elif apart(block.a, lanes):
        turns = [k // 2 + k % 2 * lanes for k in range(2 * lanes)]
        sums = [
            tirx.Shuffle(sums[k : k + 2], half)
            for k in range(0, len(sums), 2)
            for half in (turns[:lanes], turns[lanes:])
        ]
    yield from zip(range(0, size, lanes), sums, strict=True)
