"""Attention on a CPU with tile registers (`amx`): caches of bfloat16 at the memory's pace.

What many queries need of a head of keys is a product of matrices, of which a tile register takes 16
queries as easily as one:

    scores[t, n] = keys[t, :] . query[n, :]        left: 16 rows of keys, as they stand in memory
                                                   right: queries, put in turn once for a block
    result[n, j] = sum of power[n, t] value[t, j]  left: pairs of powers (`attention.softmax`)
                                                   right: rows of values, two put in turn

Rows of values are put in turn as vectors do it, within each 128 bits, so sums stand in that order
(`cpu.bfloat16_pairs.deinterleave_sums`). A stretch of them is put in turn, and multiplied before it
leaves the first cache, as many columns at a time as there are registers for sums. Scores come row
by row and are transposed (`transpose`).

Queries and powers are rounded to bfloat16, as the caches are; sums are of float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.attention.pairs import pairs_of_row
from tvm_hetero.kernels.attention.query_block import LOWEST, Block, columns_of_tiles, row_bytes
from tvm_hetero.kernels.attention.scores import store_masked_scores
from tvm_hetero.kernels.cpu.amx import (
    BFLOAT16,
    NARROW,
    REGISTERS,
    ROWS,
    WIDE,
    configure_tiles,
    dot_tiles,
    load_tile,
    release_tiles,
    rows_of,
    store_tile,
    zero_tile,
)
from tvm_hetero.kernels.cpu.bfloat16_pairs import interleave_rows
from tvm_hetero.kernels.tir.prefetch import LINE, prefetch_line
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    real,
    store,
    vectors,
    whole,
)
from tvm_hetero.kernels.tir.straight_line import Straight, transpose

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.amx import Sizes

    Expr = Any

# Registers: a product of scores, keys; the queries behind them. Sums of values, powers, values.
_PRODUCT, _KEYS, _QUERIES = 0, 1, 2
_SUMS, _POWERS, _VALUES = range(4), 4, 5


def registers_of_values(queries: int) -> Sizes:
    """The sizes of the registers while values are summed up."""
    return rows_of([queries] * (_POWERS + 1) + [ROWS] * (REGISTERS - _POWERS - 1))


# The same while scores are computed.
REGISTERS_OF_SCORES = rows_of([ROWS] * REGISTERS)
# What meets what.
PRODUCTS = [
    *((BFLOAT16, _PRODUCT, _KEYS, q) for q in range(_QUERIES, REGISTERS)),
    *((BFLOAT16, c, _POWERS, _VALUES) for c in _SUMS),
]


def _put_in_turn(block: Block) -> tirx.Stmt:
    """The pairs of all queries as right sides: for each two numbers, those of query after query."""
    size, behind, query = block.a.size, block.scratch.behind, block.scratch.query

    def moved(n: Expr, j: Expr) -> tirx.Stmt:
        given = tirx.min(n, whole(block.sizes.block - 1))  # the last one fills a register up
        return store(query, [behind + j * WIDE + n], load(query, given * size + j))

    return loop("n", WIDE, lambda n: loop("j", size // 2, lambda j: moved(n, j)))


def scores_by_tiles(block: Block, end: Expr) -> list[tirx.Stmt]:
    """The scores of all queries and the rows before ``end``.

    Where vectors do not divide the cache, the last tile begins before the one before it ends, and
    what is behind the cache scores lowest.
    """
    a, query = block.a, block.scratch.query
    steps = range(a.size // NARROW)

    def tile(t: Expr) -> list[tirx.Stmt]:
        start, bind = bind_value("start", tirx.min(t * ROWS, whole(a.length - ROWS)))
        return [bind, *_tile(block, start)]

    queries = [
        load_tile(_QUERIES + s, query, [whole(block.scratch.behind + s * ROWS * WIDE)], LINE)
        for s in steps
    ]
    tiles = loop("tile", (end + (ROWS - 1)) // ROWS, tile)
    before = [_put_in_turn(block), *_behind_cache(block)]
    return [*before, configure_tiles(REGISTERS_OF_SCORES), *queries, tiles]


def _behind_cache(block: Block) -> list[tirx.Stmt]:
    """The lowest scores in the vectors that the end of the cache stands in."""
    place = ramp(whole(block.a.length // ROWS * ROWS), ROWS)

    def lowest(n: Expr) -> tirx.Stmt:
        return store(block.scratch.scores, [n, place], broadcast(real(LOWEST), ROWS))

    return [loop("n", block.sizes.block, lowest)] if block.a.length % ROWS else []


def _tile(block: Block, t: Expr) -> list[tirx.Stmt]:
    """The scores of 16 rows from ``t`` on; the next ones are asked for meanwhile."""
    a, keys, products = block.a, block.tensors.keys, block.scratch.products
    row = row_bytes(a)
    statements = [_ask(block, keys, t + ROWS, i) for i in range(ROWS * row // LINE)]
    statements.append(zero_tile(_PRODUCT))
    for s in range(a.size // NARROW):
        statements.append(load_tile(_KEYS, keys, [block.g, t, whole(s * NARROW)], row))
        statements.append(dot_tiles(BFLOAT16, _PRODUCT, _KEYS, _QUERIES + s))
    statements.append(store_tile(_PRODUCT, products, [whole(0)], LINE))
    code = Straight()
    rows = [code.let(load(products, ramp(whole(r * WIDE), WIDE))) for r in range(ROWS)]
    found = transpose(code, rows)
    scores = [store_masked_scores(block, whole(n), t, found[n]) for n in range(block.sizes.block)]
    return [*statements, *code.statements, *scores]


def values_by_tiles(block: Block, end: Expr) -> list[tirx.Stmt]:
    """Sums of the values of rows before ``end``, times the powers of each query."""
    sizes, size, result = block.sizes, block.a.size, block.scratch.result
    last, bind = bind_value("last", end - 1)

    def nothing(n: Expr) -> tirx.Stmt:
        return vectors("j", size, WIDE, lambda j: store(result, [n, j], real(0)))

    def stretch(s: Expr) -> list[tirx.Stmt]:
        turning = loop("r", sizes.stretch // 2, lambda r: _turned(block, s, last, r))
        parts = size // columns_of_tiles(block.a)
        return [turning, loop("part", parts, lambda p: _part(block, s, p))]

    return [
        bind,
        loop("n", sizes.block, nothing),
        configure_tiles(registers_of_values(sizes.block)),
        loop("stretch", (end + (sizes.stretch - 1)) // sizes.stretch, stretch),
        release_tiles(),
    ]


def _part(block: Block, s: Expr, p: Expr) -> list[tirx.Stmt]:
    """What a stretch of rows adds to the ``p``-th few columns of the sums."""
    scratch, size, registers = block.scratch, block.a.size, columns_of_tiles(block.a) // WIDE
    rows, first = block.sizes.stretch, p * registers

    def sums(move: Any) -> list[tirx.Stmt]:
        return [move(_SUMS[j], scratch.result, [whole(0), (first + j) * WIDE], 4 * size)
                for j in range(registers)]  # fmt: skip

    products = []
    for k in range(rows // NARROW):
        word = s * (rows // 2) + k * WIDE  # a pair of powers to a word
        stride = 4 * int(scratch.scores.ty.shape[1])
        products.append(load_tile(_POWERS, scratch.scores, [whole(0), word], stride))
        for j in range(registers):
            place = (first + k * (size // WIDE) + j) * (ROWS * WIDE)
            products.append(load_tile(_VALUES, scratch.turned, [place], LINE))
            products.append(dot_tiles(BFLOAT16, _SUMS[j], _POWERS, _VALUES))
    return [*sums(load_tile), *products, *sums(store_tile)]


def _turned(block: Block, s: Expr, last: Expr, r: Expr) -> list[tirx.Stmt]:
    """The ``r``-th two rows of a stretch, put in turn; what comes later is asked for.

    Behind the ``last`` row comes the same again, for powers of zero: what a cache holds there may
    be no number.
    """
    values, stretch, count = block.tensors.values, block.sizes.stretch, block.a.size // NARROW
    lines = -(-2 * row_bytes(block.a) // LINE)
    later = s * stretch + r * 2 + block.sizes.ahead
    statements = [_ask(block, values, later, whole(i)) for i in range(lines)]
    rows = []
    for k in (0, 1):
        place = [block.g, tirx.min(s * stretch + r * 2 + k, last)]
        found, read = pairs_of_row(values, place, whole(0), count)
        rows.append(found)
        statements += read
    halves = [half for pair in zip(*rows, strict=True) for half in interleave_rows(*pair)]
    for j, half in enumerate(halves):
        at = (r // ROWS * len(halves) + j) * (ROWS * WIDE) + r % ROWS * WIDE
        statements.append(store(block.scratch.turned, [ramp(at, WIDE)], half))
    return statements


def _ask(block: Block, cache: tirx.Var, row: Expr, line: Expr) -> tirx.Stmt:
    """Ask for a line of a cache, counted from the beginning of a row."""
    return prefetch_line(cache, [block.g, row, whole(LINE // 2) * line])
