"""What all kernels of attention share: parameters, tensors, the turning of a head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.cpu.llvm_functions import load_in_order
from tvm_hetero.kernels.tir.conversions import cast, to_float32, vector_type
from tvm_hetero.kernels.tir.nests import INDEX
from tvm_hetero.kernels.tir.statements import bind_value, load, loop, ramp, tensor, vectors, whole

if TYPE_CHECKING:
    Expr = Any
    # The number j of a head; what stores one.
    Read = Callable[[Expr], Expr]
    Write = Callable[[Expr, Expr], tirx.Stmt]


@dataclass(frozen=True)
class Attention:
    """The parameters of an attention kernel; see `attention.kernel.attend`."""

    heads: int
    kv_heads: int
    size: int
    length: int
    rows: int
    scale: float
    rotary: int
    dtype: str

    @property
    def group(self) -> int:
        """Heads that read the same keys."""
        return self.heads // self.kv_heads


@dataclass(frozen=True)
class Tensors:
    """The parameters of the function, in their order; ``table`` only where ``rotary``."""

    q: tirx.Var
    k: tirx.Var
    v: tirx.Var
    position: tirx.Var
    keys: tirx.Var
    values: tirx.Var
    table: tirx.Var | None
    out: tirx.Var

    @property
    def params(self) -> list[tirx.Var]:
        """All of them."""
        table = [] if self.table is None else [self.table]
        new = [self.q, self.k, self.v, self.position]
        return [*new, self.keys, self.values, *table, self.out]

    @property
    def written(self) -> list[tirx.Var]:
        """Those that the kernel writes."""
        return [self.keys, self.values, self.out]


def tensors_of(a: Attention) -> Tensors:
    """Fresh parameters."""
    cache = [a.kv_heads, a.length, a.size]
    return Tensors(
        tensor("q", [a.rows, a.heads * a.size]),
        tensor("k", [a.rows, a.kv_heads * a.size]),
        tensor("v", [a.rows, a.kv_heads * a.size]),
        tensor("position", [1], "int32"),
        tensor("keys", cache, a.dtype),
        tensor("values", cache, a.dtype),
        tensor("table", [a.length, a.rotary]) if a.rotary else None,
        tensor("out", [a.rows, a.heads * a.size]),
    )


def first_row(a: Attention, tensors: Tensors) -> tuple[Expr, tirx.Stmt]:
    """The row of the first token, clamped, and the statement that finds it."""
    given = tirx.Cast(INDEX, load(tensors.position, 0))
    return bind_value("first", tirx.max(tirx.min(given, whole(a.length - 1)), whole(0)))


def row_of(a: Attention, first: Expr, i: Expr) -> Expr:
    """The last row that token ``i`` reads: its own, or the last one of the cache."""
    return tirx.min(first + i, whole(a.length - 1))


def apply_rotary(
    a: Attention, tensors: Tensors, row: Expr, read: Read, write: Write, lanes: int = 1
) -> list[tirx.Stmt]:
    """A head's numbers, turned by the angles of a row, written one by one or in vectors."""
    half, table = a.rotary // 2, tensors.table
    if table is None:
        return [vectors("j", a.size, lanes, lambda j: write(j, read(j)))]

    def pair(j: Expr) -> list[tirx.Stmt]:
        cosine, sine = load(table, row, j), load(table, row, j + half)
        one, other = read(j), read(j + half)
        return [
            write(j, one * cosine - other * sine),
            write(j + half, other * cosine + one * sine),
        ]

    rest = a.size - a.rotary
    kept = [loop("j", rest, lambda j: write(j + a.rotary, read(j + a.rotary)))] if rest else []
    return [vectors("j", half, lanes, pair), *kept]


def write_key_value(
    a: Attention, tensors: Tensors, first: Expr, i: Expr, g: Expr, lanes: int = 1
) -> tirx.Stmt:
    """A token's key and value of some head, into the caches."""
    row = first + i

    def key(j: Expr, value: Expr) -> tirx.Stmt:
        return tirx.BufferStore(tensors.keys, cast(value, a.dtype), [g, row, j])

    def value(j: Expr) -> tirx.Stmt:
        given = load(tensors.v, i, g * a.size + j)
        return tirx.BufferStore(tensors.values, cast(given, a.dtype), [g, row, j])

    turn = apply_rotary(a, tensors, row, lambda j: load(tensors.k, i, g * a.size + j), key, lanes)
    copy = vectors("j", a.size, lanes, value)
    return tirx.IfThenElse(row < a.length, tirx.SeqStmt([*turn, copy]), None)


def splits_even_odd(a: Attention, lanes: int) -> bool:
    """Whether numbers of a head stand apart, see `read_cache_row`."""
    return a.dtype == "bfloat16" and lanes > 1 and a.size % (2 * lanes) == 0


def read_cache_row(
    a: Attention,
    cache: tirx.Var,
    place: Sequence[Expr],
    first: Expr,
    count: int,
    lanes: int,
    *,
    ordered: bool,
) -> tuple[list[Expr], list[tirx.Stmt]]:
    """Some vectors of a row of a cache as float32, and the statements that read them; in the order
    of the statements with `ordered` (`llvm_functions`).

    Of bfloat16 two vectors are read as one of words with two numbers each. A number's bits are the
    upper half of its float32's, so the even numbers are moved up, and the odd ones are there when
    the lower half is cleared: one instruction a vector. What is computed with them stands *apart*
    then: of every 2 L numbers first the even ones, then the odd ones.
    """
    found: list[Expr] = []
    statements: list[tirx.Stmt] = []

    def keep(name: str, value: Expr) -> Expr:
        var, bind = bind_value(name, value)
        statements.append(bind)
        return var

    if not splits_even_odd(a, lanes):
        places = [[*place, first * lanes + j] for j in range(0, count * lanes, lanes)]
        numbers = load_in_order if ordered and a.dtype == "float32" and lanes > 1 else _widened
        return [keep("number", numbers(cache, at, lanes)) for at in places], statements
    for j in range(0, count * lanes, 2 * lanes):
        at = [*place, first * lanes + j]
        bits = load_in_order(cache, at, lanes) if ordered else _pairs(cache, at, lanes)
        words = keep("words", tirx.reinterpret(vector_type("uint32", lanes), bits))
        upper = tirx.Broadcast(tirx.const(0xFFFF0000, "uint32"), lanes)
        sixteen = tirx.Broadcast(tirx.const(16, "uint32"), lanes)
        halves = tirx.shift_left(words, sixteen), tirx.bitwise_and(words, upper)
        wide = [tirx.reinterpret(vector_type("float32", lanes), half) for half in halves]
        found += [keep("number", half) for half in wide]
    return found, statements


def _widened(cache: tirx.Var, place: Sequence[Expr], lanes: int) -> Expr:
    *row, j = place
    return to_float32(load(cache, *row, ramp(j, lanes)), lanes)


def _pairs(cache: tirx.Var, place: Sequence[Expr], lanes: int) -> Expr:
    """Twice so many numbers of 16 bits."""
    *row, j = place
    stored = load(cache, *row, ramp(j, 2 * lanes))
    return tirx.reinterpret(vector_type("uint16", 2 * lanes), stored)
