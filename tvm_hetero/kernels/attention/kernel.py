"""Attention over a cache that the kernel itself keeps: what it computes.

Notation
    C rows (tokens of one sequence), H heads of D numbers, G heads of keys and values (H is a
    multiple of G: head h reads those of h G / H), caches of ``length`` rows, the first token at
    row p = position.

For i in 0 .. C-1, as long as p + i < length:

    keys[g, p + i] = R(k[i, g])    values[g, p + i] = v[i, g]

and for all i and h, with g = h G / H and n = min(p + i, length - 1):

    w_t = exp(scale R(q[i, h]) . keys[g, t] - largest)    t = 0 .. n
    out[i, h] = sum of w_t values[g, t] / sum of w_t

R turns the first ``rotary`` numbers of a head by angles that a table has, cosines and then sines
for the row of the token; number j goes with number j + rotary / 2 (Su et al., RoFormer,
doi:10.1016/j.neucom.2023.127063, in the order of halves that Llama's weights are stored for).

The caches are *state*: parameters that are read and written. Rows above n are not read, so that a
chunk may be padded with any tokens; ``position`` is clamped, so that none is outside.

`attend` gives the plain loops: right, slow, and what TVM makes of it when nobody schedules it.
They bear their parameters (`attention_of`), of which `select.schedule_kernel` makes the kernel for
a target: `attention.cpu` or `attention.gpu`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.attention.common import (
    Attention,
    Tensors,
    first_row,
    row_of,
    tensors_of,
    turned,
    written,
)
from tvm_hetero.kernels.tir.conversions import cast
from tvm_hetero.kernels.tir.index_values import FLOPS
from tvm_hetero.kernels.tir.kernel_attr import ATTENTION, KERNEL_ATTR, kernel_parameters
from tvm_hetero.kernels.tir.statements import bound, function, load, loop, real, store, tensor

if TYPE_CHECKING:
    Expr = Any

_NUMBERS = ("heads", "kv_heads", "size", "length", "rows", "rotary")
_OPAQUE = 8
_LOWEST = -3.0e38  # below every score that is a number
CACHE_TYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class _KernelScratch:
    """A head's query, turned and scaled; its scores; their largest, and the sum of powers."""

    query: tirx.Var
    scores: tirx.Var
    total: tirx.Var

    @property
    def buffers(self) -> list[tirx.Var]:
        """All of them."""
        return [self.query, self.scores, self.total]


def attend(
    heads: int,
    kv_heads: int,
    size: int,
    length: int,
    rows: int = 1,
    scale: float | None = None,
    rotary: int = 0,
    dtype: str = "float32",
) -> tirx.PrimFunc:
    """Attention of ``rows`` tokens over a cache that they are written to first.

    Parameters
    ----------
    heads, kv_heads
        Heads of the queries, and of keys and values.
    size
        Numbers of a head.
    length
        Rows of the caches.
    rows
        Tokens.
    scale
        Of the products; by default one over the root of ``size``.
    rotary
        How many numbers of a head are turned, 0 for none.
    dtype
        Of the caches; all other tensors are float32, and sums are.

    Returns
    -------
    tirx.PrimFunc
        Of ``q [rows, heads * size]``, ``k`` and ``v [rows, kv_heads * size]``, ``position [1]``,
        ``keys`` and ``values [kv_heads, length, size]``, with ``rotary`` the ``table [length,
        rotary]``, and ``out [rows, heads * size]``. Not scheduled.

    Raises
    ------
    ModelError
        There is no such kernel.
    """
    scale = 1.0 / math.sqrt(size) if scale is None and size > 0 else float(scale or 0.0)
    a = Attention(heads, kv_heads, size, length, rows, scale, rotary, dtype)
    _check(a)
    tensors = tensors_of(a)
    scratch = _KernelScratch(
        tensor("query", [a.size]), tensor("scores", [a.length]), tensor("total", [2])
    )
    first, bind = first_row(a, tensors)
    body = [bind, _write(a, tensors, first), _read(a, tensors, first, scratch)]
    # Half of the cache is full on average: two products of so many numbers for each row of it.
    flops = 4.0 * a.rows * a.heads * a.size * a.length / 2
    attrs = {"op_pattern": _OPAQUE, FLOPS: flops, KERNEL_ATTR: {"name": ATTENTION, **asdict(a)}}
    return function(tensors.params, body, ATTENTION, tensors.written, scratch.buffers, attrs)


def attention_of(func: tirx.PrimFunc) -> Attention | None:
    """The parameters of an attention kernel; None for any other kernel."""
    value = kernel_parameters(func, ATTENTION)
    if value is None:
        return None
    heads, kv_heads, size, length, rows, rotary = (int(value[name]) for name in _NUMBERS)
    scale, dtype = float(value["scale"]), str(value["dtype"])
    return Attention(heads, kv_heads, size, length, rows, scale, rotary, dtype)


def _check(a: Attention) -> None:
    least = min(a.heads, a.kv_heads, a.size, a.length, a.rows)
    if least < 1 or a.heads % max(1, a.kv_heads):
        raise ModelError(
            f"attention of {a.heads} heads over {a.kv_heads}, of {a.size} numbers, {a.rows} rows "
            f"over {a.length}: expected at least one of each, and heads a multiple of those whose "
            "keys they read"
        )
    if a.rotary % 2 or not 0 <= a.rotary <= a.size:
        raise ModelError(
            f"rotary {a.rotary} of {a.size} numbers: expected an even number, at most all of them"
        )
    if a.dtype not in CACHE_TYPES:
        raise ModelError(f"caches of {a.dtype}: expected one of {', '.join(CACHE_TYPES)}")


def _write(a: Attention, tensors: Tensors, first: Expr) -> tirx.Stmt:
    """The tokens' keys and values, into the caches."""
    return loop(
        "i",
        a.rows,
        lambda i: loop("g", a.kv_heads, lambda g: written(a, tensors, first, i, g)),
    )


def _read(a: Attention, tensors: Tensors, first: Expr, scratch: _KernelScratch) -> tirx.Stmt:
    """The results of all tokens and heads, one after the other."""
    return loop(
        "i",
        a.rows,
        lambda i: loop("h", a.heads, lambda h: _head(a, tensors, first, scratch, i, h)),
    )


def _head(
    a: Attention, tensors: Tensors, first: Expr, scratch: _KernelScratch, i: Expr, h: Expr
) -> list[tirx.Stmt]:
    """The result of one token and head."""
    g = h // a.group
    row, bind = bound("row", row_of(a, first, i))
    total, scores, query = scratch.total, scratch.scores, scratch.query
    largest, summed = (load(total, 0), load(total, 1))

    def turn(j: Expr, number: Expr) -> tirx.Stmt:
        return store(query, [j], number * real(a.scale))

    def score(t: Expr) -> list[tirx.Stmt]:
        def add(j: Expr) -> tirx.Stmt:
            key = cast(load(tensors.keys, g, t, j), "float32")
            return store(scores, [t], load(scores, t) + load(query, j) * key)

        most = store(total, [0], tirx.max(largest, load(scores, t)))
        return [store(scores, [t], real(0)), loop("j", a.size, add), most]

    def power(t: Expr) -> list[tirx.Stmt]:
        return [
            store(scores, [t], tirx.exp(load(scores, t) - largest)),
            store(total, [1], summed + load(scores, t)),
        ]

    def result(j: Expr) -> list[tirx.Stmt]:
        place = [i, h * a.size + j]

        def add(t: Expr) -> tirx.Stmt:
            value = cast(load(tensors.values, g, t, j), "float32")
            return store(tensors.out, place, load(tensors.out, *place) + load(scores, t) * value)

        divide = store(tensors.out, place, load(tensors.out, *place) / summed)
        return [store(tensors.out, place, real(0)), loop("t", row + 1, add), divide]

    return [
        bind,
        store(total, [0], real(_LOWEST)),
        store(total, [1], real(0)),
        *turned(a, tensors, row, lambda j: load(tensors.q, i, h * a.size + j), turn),
        loop("t", row + 1, score),
        loop("t", row + 1, power),
        loop("j", a.size, result),
    ]
