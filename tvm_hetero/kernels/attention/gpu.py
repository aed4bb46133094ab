"""Attention (`attention.kernel`) on a GPU: right, and no more than that.

A block of threads for each head of keys: it writes what is new of it into the caches, and then
computes one of its queries after the other, a tile of rows at a time, each thread a row:

    scores       of the tile, as the largest so far allows: if a larger one comes, the sums of the
                 tiles before are worth less (Milakov and Gimelshein, arXiv:1805.02867)
    values       each thread some numbers of a head

Steps are loops over the threads, with all that one leaves to the next in shared memory; TVM puts
the barriers between them, which it does not where a condition is around a step. Where GPUs run
decoders in earnest this wants a kernel of its own: blocks for parts of the rows, which are joined,
and tensor cores for chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.attention.common import (
    Attention,
    Tensors,
    apply_rotary,
    first_row,
    row_of,
    tensors_of,
    write_key_value,
)
from tvm_hetero.kernels.tir.conversions import cast
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    function,
    load,
    loop,
    real,
    store,
    tensor,
    when,
    whole,
)
from tvm_hetero.kernels.tir.threads import Threads

if TYPE_CHECKING:
    from tvm_hetero.kernels.tir.statements import Body

    Expr = Any

_LOWEST = -3.0e38
_THREADS = 128
# What stands in `_SharedMemory.now` and `_SharedMemory.then`.
_LARGEST, _SUM = range(2)


@dataclass(frozen=True)
class _SharedMemory:
    """What the threads of a block leave to each other.

    Attributes
    ----------
    query
        As it is used.
    scores
        Of a tile; then powers.
    sums
        Of values, one for each thread or several.
    now, then
        The largest score and the sum of powers before a tile, and after it.
    own
        A number of each thread's own.
    """

    query: tirx.Var
    scores: tirx.Var
    sums: tirx.Var
    now: tirx.Var
    then: tirx.Var
    own: tirx.Var

    @property
    def buffers(self) -> list[tirx.Var]:
        """All of them."""
        return [self.query, self.scores, self.sums, self.now, self.then, self.own]


@dataclass(frozen=True)
class _GpuKernel:
    """Writes the kernel; ``parallel`` says how its loops over threads are made."""

    a: Attention
    tensors: Tensors
    shared: _SharedMemory
    parallel: Threads

    def head(self, g: Expr) -> list[tirx.Stmt]:
        """All that a block does."""
        first, bind = first_row(self.a, self.tensors)
        return [
            bind,
            self._each(
                "i", self.a.rows, lambda i: write_key_value(self.a, self.tensors, first, i, g)
            ),
            *self.parallel.barrier(),
            loop("n", self.a.rows * self.a.group, lambda n: self._query(first, g, n)),
        ]

    def _each(self, name: str, extent: int, body: Callable[[Expr], Body]) -> tirx.Stmt:
        """``for name in range(extent)``, shared among the threads."""

        def thread(x: Expr) -> tirx.Stmt:
            def turn(s: Expr) -> Body:
                index = s * _THREADS + x
                if extent % _THREADS == 0:
                    return body(index)
                return when(index < extent, body(index))

            return loop(f"{name}_turn", -(-extent // _THREADS), turn)

        return self.parallel.loop("threadIdx.x", _THREADS, thread)

    def _all(self, body: Body) -> tirx.Stmt:
        """What every thread does, and would be enough if one did: barriers stand in no branch."""
        return self.parallel.loop("threadIdx.x", _THREADS, lambda _: body)

    def _query(self, first: Expr, g: Expr, n: Expr) -> list[tirx.Stmt]:
        a, shared = self.a, self.shared
        i, column = n // a.group, (g * a.group + n % a.group) * a.size
        row, bind = bind_value("row", row_of(a, first, i))

        def write(j: Expr, number: Expr) -> tirx.Stmt:
            return store(shared.query, [j], number * real(a.scale))

        def result(j: Expr) -> tirx.Stmt:
            value = load(shared.sums, j) / load(shared.now, _SUM)
            return store(self.tensors.out, [i, column + j], value)

        turn = apply_rotary(
            a, self.tensors, row, lambda j: load(self.tensors.q, i, column + j), write
        )
        none = [store(shared.now, [_LARGEST], real(_LOWEST)), store(shared.now, [_SUM], real(0))]
        return [
            bind,
            self._all([*turn, *none]),
            self._each("j", _padded(a.size), lambda j: store(shared.sums, [j], real(0))),
            loop("tile", (row + _THREADS) // _THREADS, lambda t: self._tile(g, row, t * _THREADS)),
            self._each("j", a.size, result),
        ]

    def _tile(self, g: Expr, row: Expr, t: Expr) -> list[tirx.Stmt]:
        """What the rows from ``t`` on add to a query."""
        scores, now, then = self.shared.scores, self.shared.now, self.shared.then
        worth = tirx.exp(load(now, _LARGEST) - load(then, _LARGEST))

        def power(u: Expr) -> tirx.Stmt:
            return store(scores, [u], tirx.exp(load(scores, u) - load(then, _LARGEST)))

        largest = self._joined(load(now, _LARGEST), _THREADS, lambda u, so_far: tirx.max(
            so_far, load(scores, u)))  # fmt: skip
        total = self._joined(load(now, _SUM) * worth, _THREADS, lambda u, so_far: (
            so_far + load(scores, u)))  # fmt: skip
        own = load(self.shared.own, 0)
        rows = tirx.min(row - t + 1, whole(_THREADS))
        return [
            self._each("u", _THREADS, lambda u: self._score(g, row, t, u)),
            self._all([*largest, store(then, [_LARGEST], own)]),
            self._each("u", _THREADS, power),
            self._all([*total, store(then, [_SUM], own)]),
            self._each("j", _padded(self.a.size), lambda j: self._value(g, t, j, rows, worth)),
            self._all([store(now, [i], load(then, i)) for i in (_LARGEST, _SUM)]),
        ]

    def _joined(
        self, start: Expr, extent: Expr | int, join: Callable[[Expr, Expr], Expr]
    ) -> list[tirx.Stmt]:
        """A sum or maximum, in a number of the thread's own."""
        own = self.shared.own
        step = loop("u", extent, lambda u: store(own, [0], join(u, load(own, 0))))
        return [store(own, [0], start), step]

    def _score(self, g: Expr, row: Expr, t: Expr, u: Expr) -> list[tirx.Stmt]:
        """The score of a row, the lowest for those that the query must not see."""
        at = tirx.min(t + u, row)

        def add(j: Expr, so_far: Expr) -> Expr:
            key = cast(load(self.tensors.keys, g, at, j), "float32")
            return so_far + load(self.shared.query, j) * key

        score = tirx.Select(t + u <= row, load(self.shared.own, 0), real(_LOWEST))
        sums = self._joined(real(0), self.a.size, add)
        return [*sums, store(self.shared.scores, [u], score)]

    def _value(self, g: Expr, t: Expr, j: Expr, rows: Expr, worth: Expr) -> list[tirx.Stmt]:
        """A number of the sum of values, with a tile more."""

        def add(u: Expr, so_far: Expr) -> Expr:
            stored = load(self.tensors.values, g, t + u, tirx.min(j, whole(self.a.size - 1)))
            return so_far + load(self.shared.scores, u) * cast(stored, "float32")

        sums = self._joined(load(self.shared.sums, j) * worth, rows, add)
        return [*sums, store(self.shared.sums, [j], load(self.shared.own, 0))]


def _padded(size: int) -> int:
    """Numbers of a head with those of idle threads."""
    return -(-size // _THREADS) * _THREADS


def attention_on_gpu(a: Attention, parallel: Threads = Threads()) -> tirx.PrimFunc:
    """The kernel for a GPU."""
    tensors, scope = tensors_of(a), parallel.scope
    shared = _SharedMemory(
        tensor("query", [a.size], scope=scope),
        tensor("scores", [_THREADS], scope=scope),
        tensor("sums", [_padded(a.size)], scope=scope),
        tensor("now", [2], scope=scope),
        tensor("then", [2], scope=scope),
        tensor("own", [1], scope="local"),
    )
    body = parallel.loop("blockIdx.x", a.kv_heads, _GpuKernel(a, tensors, shared, parallel).head)
    return function(tensors.params, body, "attention", tensors.written, shared.buffers)
