"""A block of queries of attention on a CPU: how the work is divided, and what it needs.

Scores, powers and values (`attention.scores`, `attention.softmax`, `attention.values`) are written
for one block of the queries of one head of keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx

from tvm_hetero.kernels.attention.common import Attention, Tensors, row_of, splits_even_odd
from tvm_hetero.kernels.attention.pairs import SHARED, uses_pairs
from tvm_hetero.kernels.cpu.amx import NARROW, REGISTERS, ROWS, WIDE
from tvm_hetero.kernels.tir.prefetch import ALL, DISTANCE, LINE, OUTER, prefetch_line
from tvm_hetero.kernels.tir.statements import tensor, whole

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# Below every score.
LOWEST = -3.0e38
# Queries that meet a tile of keys while it is near.
_BLOCK = 16
# Rows of values that stay in the first cache.
_STRETCH = 16
# Share of the registers that hold sums of values. But all of them where that holds the sums of all
# queries of a token: then each row is read once, in one stream.
_SUMS = 0.5
# What a vector of values costs beside its multiply-adds, where it is converted, in loads.
_CONVERTED = 2
# The same where tile registers multiply them, so many columns at a time (`attention.amx`).
_STRETCH_OF_TILES, _COLUMNS_OF_TILES = 64, 64
# The largest heads that they take: a register for each 32 numbers of the queries, but for two.
LARGEST = (REGISTERS - 2) * NARROW
# Registers for each query that reads a key together with others: of a chunk, and of one token.
_KEYS, _KEYS_OF_ONE = 16, 8
# Keys whose products are folded to one vector before the next ones are read.
_TOGETHER = 4


@dataclass(frozen=True)
class BlockSizes:
    """How the work is divided.

    Attributes
    ----------
    lanes
        Of a vector along a head; rows of a tile of keys.
    keys
        Rows of a tile that are read together.
    along
        Lanes of a vector along scores.
    block
        Queries that are computed together; the last block may repeat the last one.
    few
        Queries that read a key once.
    together, across
        Queries, and vectors of each, whose sums of values are in registers at once.
    stretch
        Rows of values that pass meanwhile.
    ahead, later, caches
        How many rows ahead of what is needed is asked for what comes, 0 for not at all, and where
        values pass in stretches; into which caches (`prefetch`).
    ordered
        Whether rows are read in their order (`llvm_functions`).
    pairs
        Whether pairs of bfloat16 are multiplied as they are (`attention.pairs`).
    amx
        Whether tile registers multiply (`attention.amx`): pairs, too.
    """

    lanes: int
    keys: int
    along: int
    block: int
    few: int
    together: int
    across: int
    stretch: int
    ahead: int
    later: int
    caches: int
    ordered: bool
    pairs: bool
    amx: bool


@dataclass(frozen=True)
class BlockScratch:
    """What a block of queries needs.

    Attributes
    ----------
    query
        The queries as they are used, and behind them (from `behind` on) for each few queries
        products of some keys that are folded half, or all queries as a right side. In one buffer,
        since LLVM takes loads of what a loop does not write out of it, and has no registers for so
        many queries then: it copies them to the stack, where 64 bytes cross the border of two
        lines.
    behind
        Where those begin.
    scores
        Scores, then powers; whole vectors of them. Rows are a vector longer than they need be:
        those of 4096 numbers would begin in the same set of the first cache.
    result
        Sums of values of all queries.
    sums
        Those of the few queries in registers, one buffer each.
    matrices
        `products` and `turned`: what tile registers leave of a tile's products, and rows of values
        put in turn for them.
    lanes
        A largest value and a sum for each lane.
    few
        For each query the largest score, and one over the sum of powers.
    """

    query: tirx.Var
    behind: int
    scores: tirx.Var
    result: tirx.Var
    sums: list[tirx.Var]
    matrices: list[tirx.Var]
    lanes: tirx.Var
    few: tirx.Var

    @property
    def buffers(self) -> list[tirx.Var]:
        """All of them."""
        first = [self.query, self.scores, self.result]
        return [*first, *self.sums, *self.matrices, self.lanes, self.few]

    @property
    def products(self) -> tirx.Var:
        """See `matrices`."""
        return self.matrices[0]

    @property
    def turned(self) -> tirx.Var:
        """See `matrices`."""
        return self.matrices[1]


def sizes_of(a: Attention, unit: VectorUnit) -> BlockSizes:
    """How the work is divided for a vector unit."""
    lanes = math.gcd(a.size, unit.lanes)
    block = min(a.rows * a.group, _BLOCK)
    vectors = a.size // lanes
    together, across = _sums(a, unit, block, vectors)
    few = _divisor(block, unit.registers // (_KEYS if a.rows > 1 else _KEYS_OF_ONE))
    alone = (together, across) == (block, vectors)
    stretch = a.length if alone else min(_STRETCH, a.length)
    keys = min(_TOGETHER, lanes)
    amx = by_amx(a, unit)
    stretch = _STRETCH_OF_TILES if amx else stretch
    pairs = amx or uses_pairs(a, unit)
    how = *_asked(a, unit, stretch), _ordered(a, unit), pairs
    return BlockSizes(lanes, keys, unit.lanes, block, few, together, across, stretch, *how, amx)


def _sums(a: Attention, unit: VectorUnit, block: int, vectors: int) -> tuple[int, int]:
    """Queries, and vectors of each, whose sums are in registers at once.

    For each few queries all values are read again, for each few vectors all powers: of what the
    registers hold, that which reads least.
    """
    if a.rows == 1 and block * vectors <= unit.registers:
        return block, vectors
    value = 1 if a.dtype == "float32" else 1 + _CONVERTED
    least = 2 if splits_even_odd(a, a.size // vectors) else 1
    most = int(_SUMS * unit.registers) // least

    def reads(queries: int) -> tuple[int, int, int]:
        across = least * _divisor(vectors // least, most // queries)
        return block // queries * vectors * value + vectors // across * block, -queries, across

    _, queries, across = min(reads(n) for n in range(1, min(block, most) + 1) if block % n == 0)
    return -queries, across


def _ordered(a: Attention, unit: VectorUnit) -> bool:
    """Whether rows are read in their order: those of one token, used as fast as they come.

    With several queries a key LLVM keeps then all queries in registers for the rows of a tile, for
    which there are too few: that pays where the prefetcher follows.
    """
    return a.rows == 1 and (a.group == 1 or unit.follows or uses_pairs(a, unit))


def _asked(a: Attention, unit: VectorUnit, stretch: int) -> tuple[int, int, int]:
    """How many rows ahead to ask, the same for stretches of values, and into which caches.

    A core whose prefetcher follows need not be asked for the rows of one token, which are read in
    their order (`llvm_functions`). Only stretches of values are read several times, a few columns
    at a time, and each row just once of those: there the stretch after the next one is asked into
    the outer caches, which is quicker on Zen 4 than the next one into all of them.
    """
    if unit.follows and a.rows == 1:
        return 0, 2 * stretch, OUTER
    alone = a.rows > 1 or a.group == 1
    return -(-(DISTANCE if alone else DISTANCE // 2) // row_bytes(a)), stretch, ALL


def by_amx(a: Attention, unit: VectorUnit) -> bool:
    """Whether tile registers multiply: many queries, heads whose queries fit in them."""
    queries = a.rows * a.group
    fits = a.size % NARROW == 0 and a.size <= LARGEST and unit.lanes == WIDE
    return unit.amx and a.dtype == "bfloat16" and queries >= SHARED and fits and a.length >= ROWS


def row_bytes(a: Attention) -> int:
    """Bytes of a row of a cache."""
    return a.size * int(tvm_ffi.dtype(a.dtype).bits) // 8


def columns_of_tiles(a: Attention) -> int:
    """Columns of values that tile registers multiply together."""
    return _COLUMNS_OF_TILES if a.size % _COLUMNS_OF_TILES == 0 else NARROW


def scratch_for(a: Attention, sizes: BlockSizes) -> BlockScratch:
    """Fresh buffers."""
    lanes, stretch = sizes.lanes, sizes.stretch if sizes.amx else 0
    padded = -(-a.length // sizes.along) * sizes.along + max(sizes.along, stretch)
    behind = sizes.block * a.size
    folds = sizes.few * lanes // sizes.keys * lanes
    more = a.size // 2 * WIDE if sizes.amx else folds
    return BlockScratch(
        tensor("query", [behind + more]),
        behind,
        tensor("scores", [sizes.block, padded]),
        tensor("result", [sizes.block, a.size]),
        [] if sizes.amx else _sums_of_few(sizes),
        _matrices(a, sizes) if sizes.amx else [],
        tensor("lanes", [2, sizes.along], scope="local"),
        tensor("few", [2, sizes.block], scope="local"),
    )


def _sums_of_few(sizes: BlockSizes) -> list[tirx.Var]:
    size = [sizes.across * sizes.lanes]
    return [tensor(f"sums_{m}", size, scope="local") for m in range(sizes.together)]


def _matrices(a: Attention, sizes: BlockSizes) -> list[tirx.Var]:
    return [tensor("products", [ROWS * WIDE]), tensor("turned", [sizes.stretch * a.size // 2])]


def _divisor(n: int, most: int) -> int:
    return max(d for d in range(1, min(n, most) + 1) if n % d == 0)


@dataclass(frozen=True)
class Block:
    """The ``b``-th block of queries of the head of keys ``g``; ``first`` is the first new row."""

    a: Attention
    tensors: Tensors
    sizes: BlockSizes
    scratch: BlockScratch
    first: Expr
    g: Expr
    b: Expr

    def number(self, n: Expr) -> Expr:
        """Which query of its head of keys the ``n``-th of the block is."""
        number, last = self.b * self.sizes.block + n, self.a.rows * self.a.group - 1
        return number if (last + 1) % self.sizes.block == 0 else tirx.min(number, whole(last))

    def place(self, n: Expr) -> tuple[Expr, Expr]:
        """The row and the first column that a query stands in."""
        query, group = self.number(n), self.a.group
        return query // group, (self.g * group + query % group) * self.a.size

    def row(self, n: Expr) -> Expr:
        """The last row that a query sees."""
        return row_of(self.a, self.first, self.number(n) // self.a.group)

    def ask(self, cache: tirx.Var, row: Expr, part: Expr, parts: int) -> list[tirx.Stmt]:
        """Ask for one of some parts of a row that is needed later.

        Few lines at a time: a core has so many misses under way and no more.
        """
        lines = range(0, self.a.size, LINE * self.a.size // row_bytes(self.a))
        each = -(-len(lines) // parts)
        places = [[self.g, row, (part * each + i) * lines.step] for i in range(each)]
        return [prefetch_line(cache, place, self.sizes.caches) for place in places]

    def ask_for_values(self, line: Expr) -> tirx.Stmt:
        """Ask for a line of the values of this head of keys, counted from their first row."""
        numbers = LINE * self.a.size // row_bytes(self.a)
        return prefetch_line(self.tensors.values, [self.g, whole(0), line * numbers], OUTER)
