"""Attention (`attention`) on a CPU: loops that read each cache once, in vectors.

For each head of keys, its *queries* are the rows times the heads that read it. A block of them at
a time:

    queries    turned and scaled, side by side
    scores     for each tile of L rows of keys (L: lanes) and each query: a vector of products for
               each row, and these folded into one vector of L scores (`folding`). What a query
               must not see scores lowest. All queries of a block meet a tile while it is near
    powers     each query's largest score, exp of what is left, and their sum: vectors along rows
    values     sums of values times powers: a few queries keep their sums in registers while a
               stretch of rows passes, which stays near for the next few

So a step of one token is one pass over the keys and one over the values, at the memory's pace; a
chunk has more queries, and becomes two products of matrices.

L is the widest power of two that divides a head's size. Where it does not divide the length of the
cache, the last tile reads its last row several times.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx

from .attention_parts import (
    Attention,
    Tensors,
    first_row,
    row_of,
    tensors_of,
    turned,
    widened,
    written,
)
from .folding import folded
from .prefetch import DISTANCE, LINE, ask
from .statements import (
    PARALLEL,
    SERIAL,
    VECTORIZED,
    bound,
    function,
    load,
    loop,
    real,
    store,
    tensor,
    vectors,
    whole,
)

if TYPE_CHECKING:
    from .facts import VectorUnit

    Expr = Any

_LOWEST = -3.0e38
# Queries that meet a tile of keys while it is near.
_BLOCK = 16
# Bytes of values that stay in the first cache.
_NEAR = 1 << 14
# Share of the registers that hold sums of values.
_SUMS = 0.5
# Of the registers, for each query that reads a key together with others.
_KEYS = 16


@dataclass(frozen=True)
class _Sizes:
    """How the work is divided.

    Attributes
    ----------
    lanes
        Of a vector along a head; rows of a tile of keys.
    along
        Lanes of a vector along scores.
    block
        Queries that are computed together; the last block may repeat the last one.
    few
        Queries that read a key once.
    together
        Queries whose sums of values are in registers at once.
    stretch
        Rows of values that pass meanwhile.
    """

    lanes: int
    along: int
    block: int
    few: int
    together: int
    stretch: int


@dataclass(frozen=True)
class _Scratch:
    """What a block of queries needs.

    Attributes
    ----------
    query
        The queries as they are used.
    scores
        Scores, then powers; whole vectors of them.
    result
        Sums of values of all queries.
    sums
        Those of the few queries in registers, one buffer each.
    lanes
        A largest value or a sum for each lane; two vectors.
    few
        For each query: the largest score, one over the sum of powers.
    """

    query: tirx.Var
    scores: tirx.Var
    result: tirx.Var
    sums: list[tirx.Var]
    lanes: tirx.Var
    few: tirx.Var

    @property
    def buffers(self) -> list[tirx.Var]:
        """All of them."""
        return [self.query, self.scores, self.result, *self.sums, self.lanes, self.few]


def attention_on_cpu(a: Attention, unit: VectorUnit, cores: int) -> tirx.PrimFunc:
    """The kernel for a vector unit; heads of keys are shared among ``cores``."""
    sizes = _sizes(a, unit)
    kernel = _Kernel(a, tensors_of(a), sizes, _scratch(a, sizes))
    return kernel.function(PARALLEL if cores > 1 and a.kv_heads > 1 else SERIAL)


def _sizes(a: Attention, unit: VectorUnit) -> _Sizes:
    lanes = math.gcd(a.size, unit.lanes)
    queries = a.rows * a.group
    block = min(queries, _BLOCK)
    most = max(1, int(_SUMS * unit.registers) // max(1, a.size // lanes))
    together = _divisor(block, most)
    few = _divisor(block, unit.registers // _KEYS)
    rows = a.length if together == block else max(1, _NEAR // (4 * a.size))
    return _Sizes(lanes, unit.lanes, block, few, together, min(rows, a.length))


def _divisor(n: int, most: int) -> int:
    return max(d for d in range(1, min(n, most) + 1) if n % d == 0)


def _scratch(a: Attention, sizes: _Sizes) -> _Scratch:
    padded = -(-a.length // sizes.along) * sizes.along
    return _Scratch(
        tensor("query", [sizes.block, a.size]),
        tensor("scores", [sizes.block, padded]),
        tensor("result", [sizes.block, a.size]),
        [tensor(f"sums_{m}", [a.size], scope="local") for m in range(sizes.together)],
        tensor("lanes", [2, sizes.along], scope="local"),
        tensor("few", [2, sizes.block], scope="local"),
    )


@dataclass(frozen=True)
class _Kernel:
    """Writes the statements of one kernel."""

    a: Attention
    tensors: Tensors
    sizes: _Sizes
    scratch: _Scratch

    def function(self, kind: tirx.ForKind) -> tirx.PrimFunc:
        """The kernel; ``kind`` is that of the loop over heads of keys."""
        first, bind = first_row(self.a, self.tensors)
        heads = loop("g", self.a.kv_heads, lambda g: self._head(first, g), kind)
        params, buffers = self.tensors.params, self.scratch.buffers
        return function(params, [bind, heads], "attention", self.tensors.written, buffers)

    def _head(self, first: Expr, g: Expr) -> list[tirx.Stmt]:
        """A head of keys: what is new of it into the caches, then its queries."""
        a, lanes = self.a, self.sizes.lanes
        blocks = -(-a.rows * a.group // self.sizes.block)
        write = loop("i", a.rows, lambda i: written(a, self.tensors, first, i, g, lanes))
        return [write, loop("block", blocks, lambda b: self._block(first, g, b))]

    def _block(self, first: Expr, g: Expr, b: Expr) -> list[tirx.Stmt]:
        end, bind = bound("end", self._row(first, b, whole(self.sizes.block - 1)) + 1)
        return [
            bind,
            loop("n", self.sizes.block, lambda n: self._query(first, g, b, n)),
            self._scores(first, g, b, end),
            loop("n", self.sizes.block, lambda n: self._powers(n, end)),
            *self._values(g, end),
            loop("n", self.sizes.block, lambda n: self._result(g, b, n)),
        ]

    def _place(self, g: Expr, b: Expr, n: Expr) -> tuple[Expr, Expr]:
        """The row and the first column that a query stands in."""
        query = self._number(b, n)
        return query // self.a.group, (g * self.a.group + query % self.a.group) * self.a.size

    def _number(self, b: Expr, n: Expr) -> Expr:
        """Which query of its head of keys it is."""
        number, last = b * self.sizes.block + n, self.a.rows * self.a.group - 1
        return number if (last + 1) % self.sizes.block == 0 else tirx.min(number, whole(last))

    def _row(self, first: Expr, b: Expr, n: Expr) -> Expr:
        """The last row that a query sees."""
        return row_of(self.a, first, self._number(b, n) // self.a.group)

    def _query(self, first: Expr, g: Expr, b: Expr, n: Expr) -> list[tirx.Stmt]:
        """A query, turned and scaled."""
        i, column = self._place(g, b, n)
        row, bind = bound("row", self._row(first, b, n))

        def read(j: Expr) -> Expr:
            return load(self.tensors.q, i, column + j)

        def write(j: Expr, number: Expr) -> tirx.Stmt:
            return store(self.scratch.query, [n, j], number * real(self.a.scale))

        return [bind, *turned(self.a, self.tensors, row, read, write, self.sizes.lanes)]

    def _scores(self, first: Expr, g: Expr, b: Expr, end: Expr) -> tirx.Stmt:
        """The scores of all queries, a tile of keys at a time."""
        lanes, along = self.sizes.lanes, self.sizes.along

        few = self.sizes.few

        def tile(t: Expr) -> tirx.Stmt:
            parts = self.sizes.block // few
            return loop("part", parts, lambda p: self._tile(first, g, b, p * few, t * lanes))

        whole_vectors = (end + (along - 1)) // along
        return loop("tile", whole_vectors * (along // lanes), tile)

    def _tile(self, first: Expr, g: Expr, b: Expr, n: Expr, t: Expr) -> list[tirx.Stmt]:
        """The scores of a few queries, ``n`` ..., and the keys of rows ``t`` ..."""
        a, lanes = self.a, self.sizes.lanes
        queries = [n + m for m in range(self.sizes.few)]

        def products(u: int) -> tuple[list[Expr], list[tirx.Stmt]]:
            row = (
                t + u if a.length % self.sizes.along == 0 else tirx.min(t + u, whole(a.length - 1))
            )
            return self._products(g, queries, row)

        sums, statements = folded(products, lanes)
        shown = []
        for query, scores in zip(queries, sums, strict=True):
            last = tirx.Cast("int32", self._row(first, b, query) - t)
            seen = _ramp(tirx.const(0, "int32"), lanes) <= _spread(last, lanes)
            scores = tirx.Select(seen, scores, _spread(real(_LOWEST), lanes))
            shown.append(store(self.scratch.scores, [query, _ramp(t, lanes)], scores))
        return [*self._ask_keys(g, n, t), *statements, *shown]

    def _products(
        self, g: Expr, queries: Sequence[Expr], row: Expr
    ) -> tuple[list[Expr], list[tirx.Stmt]]:
        """A few queries times a key, lane by lane."""
        lanes, keys, statements = self.sizes.lanes, [], []
        places = [_ramp(whole(j), lanes) for j in range(0, self.a.size, lanes)]
        for at in places:
            key, bind = bound("key", widened(load(self.tensors.keys, g, row, at), lanes))
            keys.append(key)
            statements.append(bind)
        totals = []
        for n in queries:
            products = [
                load(self.scratch.query, n, at) * key for at, key in zip(places, keys, strict=True)
            ]
            total, bind = bound("product", functools.reduce(operator.add, products))
            totals.append(total)
            statements.append(bind)
        return totals, statements

    def _ask_keys(self, g: Expr, n: Expr, t: Expr) -> list[tirx.Stmt]:
        """Each few queries ask for some rows of a tile that comes later."""
        lanes = self.sizes.lanes
        tiles = -(-DISTANCE // (lanes * self._row_bytes))
        each = -(-lanes * self.sizes.few // self.sizes.block)
        return [
            ask(
                self.tensors.keys,
                [g, t + (tiles * lanes + u) + n // self.sizes.few * each, whole(j)],
            )
            for u in range(each)
            for j in self._lines()
        ]

    @property
    def _row_bytes(self) -> int:
        return self.a.size * int(tvm_ffi.dtype(self.a.dtype).bits) // 8

    def _lines(self) -> range:
        """The numbers of a row that stand first in a line of the cache."""
        return range(0, self.a.size, LINE * self.a.size // self._row_bytes)

    def _powers(self, n: Expr, end: Expr) -> list[tirx.Stmt]:
        """Scores become powers; the inverse of their sum is kept."""
        along, scores = self.sizes.along, self.scratch.scores
        lanes, few = self.scratch.lanes, self.scratch.few
        vectors_of_scores = (end + (along - 1)) // along

        def start(i: Expr) -> list[tirx.Stmt]:
            return [store(lanes, [0, i], real(_LOWEST)), store(lanes, [1, i], real(0))]

        def most(s: Expr, i: Expr) -> tirx.Stmt:
            return store(lanes, [0, i], tirx.max(load(lanes, 0, i), load(scores, n, s + i)))

        def power(s: Expr, i: Expr) -> list[tirx.Stmt]:
            raised = store(scores, [n, s + i], tirx.exp(load(scores, n, s + i) - load(few, 0, n)))
            return [raised, store(lanes, [1, i], load(lanes, 1, i) + load(scores, n, s + i))]

        def along_scores(step: Callable[[Expr, Expr], Any]) -> tirx.Stmt:
            def vector(s: Expr) -> tirx.Stmt:
                return loop("i", along, lambda i: step(s * along, i), VECTORIZED)

            return loop("s", vectors_of_scores, vector)

        return [
            loop("i", along, start, VECTORIZED),
            along_scores(most),
            *self._over_lanes(0, n, tirx.max),
            along_scores(power),
            *self._over_lanes(1, n, operator.add),
            store(few, [1, n], real(1) / load(few, 1, n)),
        ]

    def _over_lanes(
        self, which: int, n: Expr, join: Callable[[Expr, Expr], Expr]
    ) -> list[tirx.Stmt]:
        """One number of the lanes of a vector, kept for a query."""
        lanes, few = self.scratch.lanes, self.scratch.few
        return [
            store(few, [which, n], load(lanes, which, 0)),
            *(
                store(few, [which, n], join(load(few, which, n), load(lanes, which, i)))
                for i in range(1, self.sizes.along)
            ),
        ]

    def _values(self, g: Expr, end: Expr) -> list[tirx.Stmt]:
        """Sums of values times powers, a stretch of rows at a time."""
        size, lanes, result = self.a.size, self.sizes.lanes, self.scratch.result
        together, stretch = self.sizes.together, self.sizes.stretch

        def move(n: Expr, m: int, load_: bool) -> tirx.Stmt:
            sums = self.scratch.sums[m]

            def number(j: Expr) -> tirx.Stmt:
                if load_:
                    return store(sums, [j], load(result, n + m, j))
                return store(result, [n + m, j], load(sums, j))

            return vectors("j", size, lanes, number)

        def part(s: Expr, rows: Expr, p: Expr) -> list[tirx.Stmt]:
            n = p * together
            return [
                *(move(n, m, True) for m in range(together)),
                loop("t", rows, lambda t: self._value(g, s * stretch + t, n, p)),
                *(move(n, m, False) for m in range(together)),
            ]

        def some(s: Expr) -> list[tirx.Stmt]:
            rows, bind = bound("rows", tirx.min(end - s * stretch, whole(stretch)))
            parts = self.sizes.block // together
            return [bind, loop("part", parts, lambda p: part(s, rows, p))]

        zeros = loop(
            "n",
            self.sizes.block,
            lambda n: vectors("j", size, lanes, lambda j: store(result, [n, j], real(0))),
        )
        return [zeros, loop("stretch", (end + (stretch - 1)) // stretch, some)]

    def _ask_values(self, g: Expr, t: Expr, p: Expr) -> list[tirx.Stmt]:
        """Each few queries ask for some lines of a row that comes later."""
        parts = self.sizes.block // self.sizes.together
        ahead = self.sizes.stretch if parts > 1 else -(-DISTANCE // self._row_bytes)
        lines = self._lines()
        each = -(-len(lines) // parts)
        return [
            ask(self.tensors.values, [g, t + ahead, (p * each + i) * lines.step])
            for i in range(each)
        ]

    def _value(self, g: Expr, t: Expr, n: Expr, p: Expr) -> list[tirx.Stmt]:
        """A row of values times the powers of a few queries."""
        lanes, statements = self.sizes.lanes, self._ask_values(g, t, p)
        for j in range(0, self.a.size, lanes):
            at = _ramp(whole(j), lanes)
            stored = load(self.tensors.values, g, t, at)
            value, bind = bound("value", widened(stored, lanes))
            statements.append(bind)
            for m, sums in enumerate(self.scratch.sums):
                power = _spread(load(self.scratch.scores, n + m, t), lanes)
                statements.append(store(sums, [at], load(sums, at) + power * value))
        return statements

    def _result(self, g: Expr, b: Expr, n: Expr) -> tirx.Stmt:
        """A query's sums, divided by the sum of powers."""
        i, column = self._place(g, b, n)

        def number(j: Expr) -> tirx.Stmt:
            value = load(self.scratch.result, n, j) * load(self.scratch.few, 1, n)
            return store(self.tensors.out, [i, column + j], value)

        return vectors("j", self.a.size, self.sizes.lanes, number)


def _ramp(first: Expr, lanes: int) -> Expr:
    """The indices of a vector."""
    return first if lanes == 1 else tirx.Ramp(first, tirx.const(1, str(first.ty.dtype)), lanes)


def _spread(value: Expr, lanes: int) -> Expr:
    return value if lanes == 1 else tirx.Broadcast(value, lanes)
