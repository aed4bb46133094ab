"""Statements of kernels that are written out: loops, stores, buffers, the function around them.

Most kernels are computations that a schedule turns into loops. One that writes its arguments in
place and runs to an extent known only when it runs has no such description: its loops are written
down. These few functions are for that; each makes one statement of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm import s_tir, tirx

from tvm_hetero.kernels.tir.nests import INDEX, range_of

if TYPE_CHECKING:
    Expr = Any
    Body: TypeAlias = tirx.Stmt | Iterable[tirx.Stmt]

SERIAL, PARALLEL = tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL
VECTORIZED, UNROLLED = tirx.ForKind.VECTORIZED, tirx.ForKind.UNROLLED


def tensor(
    name: str, shape: Sequence[int], dtype: str = "float32", scope: str = "global"
) -> tirx.Var:
    """A parameter or a buffer of a kernel."""
    extents = [tirx.const(extent, INDEX) for extent in shape]
    return tirx.decl_buffer(extents, dtype, name, scope=scope, layout=None)


def sequence(body: Body) -> tirx.Stmt:
    """One statement after the other."""
    if isinstance(body, tirx.Stmt):
        return body
    statements: list[tirx.Stmt] = list(body)
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


def loop(
    name: str,
    extent: Expr | int,
    body: Callable[[Expr], Body],
    kind: tirx.ForKind = SERIAL,
) -> tirx.Stmt:
    """``for name in range(extent): body(name)``; the extent may be known only when it runs."""
    var = tirx.Var(name, INDEX)
    last = tirx.const(extent, INDEX) if isinstance(extent, int) else extent
    return tirx.For(var, tirx.const(0, INDEX), last, kind, sequence(body(var)))


def vectors(name: str, extent: int, lanes: int, body: Callable[[Expr], Body]) -> tirx.Stmt:
    """``for name in range(extent): body(name)`` in vectors of so many lanes, if they divide it."""
    if lanes == 1 or extent % lanes:
        return loop(name, extent, body)

    def vector(v: Expr) -> Body:
        return loop(f"{name}_lane", lanes, lambda i: body(v * lanes + i), VECTORIZED)

    return loop(name, extent // lanes, vector, UNROLLED)


def when(condition: Expr, body: Body) -> tirx.Stmt:
    """``if condition: body``."""
    return tirx.IfThenElse(condition, sequence(body), None)


def bind_value(name: str, value: Expr) -> tuple[tirx.Var, tirx.Stmt]:
    """A variable that holds a value, and the statement that gives it that."""
    var = tirx.Var(name, str(value.ty.dtype))
    return var, tirx.Bind(var, value)


def store(buffer: tirx.Var, indices: Sequence[Expr | int], value: Expr) -> tirx.Stmt:
    """``buffer[indices] = value``."""
    return tirx.BufferStore(buffer, value, [_index(i) for i in indices])


def load(buffer: tirx.Var, *indices: Expr | int) -> Expr:
    """``buffer[indices]``."""
    return tirx.BufferLoad(buffer, [_index(i) for i in indices])


def _index(index: Expr | int) -> Expr:
    return tirx.const(index, INDEX) if isinstance(index, int) else index


def real(value: float) -> Expr:
    """A float32."""
    return tirx.const(float(value), "float32")


def whole(value: int) -> Expr:
    """An index."""
    return tirx.const(value, INDEX)


def wide(value: Expr) -> Expr:
    """A whole number of any type, as an index."""
    return value if str(value.ty.dtype) == INDEX else tirx.Cast(INDEX, value)


def function(
    params: Sequence[tirx.Var],
    body: Body,
    name: str,
    written: Sequence[tirx.Var],
    buffers: Sequence[tirx.Var] = (),
    attrs: Mapping[str, Any] | None = None,
) -> tirx.PrimFunc:
    """A kernel that is one opaque block.

    Parameters
    ----------
    params
        Its parameters.
    body
        What it does.
    name
        Of the block.
    written
        Which of the parameters it writes; it may read all of them.
    buffers
        What it needs beside them.
    attrs
        Of the function.
    """
    true = tirx.const(True, "bool")
    reads, writes = [whole_region(p) for p in params], [whole_region(p) for p in written]
    inner = s_tir.SBlock([], reads, writes, name, sequence(body))
    around = s_tir.SBlockRealize([], true, inner)
    root = s_tir.SBlock([], [], [], "root", around, alloc_buffers=list(buffers))
    func = tirx.PrimFunc(list(params), s_tir.SBlockRealize([], true, root))
    return func.with_attrs({"tirx.noalias": True, "s_tir": True, **(attrs or {})})


def whole_region(buffer: tirx.Var) -> Any:
    """The region of all of a buffer."""
    return tirx.BufferRegion(buffer, [range_of(0, extent) for extent in extents_of(buffer)])


def extents_of(buffer: tirx.Var) -> list[int]:
    """The shape of a buffer."""
    return [int(extent) for extent in buffer.ty.shape]


def ramp(first: Expr, lanes: int) -> Expr:
    """The indices of a vector."""
    return first if lanes == 1 else tirx.Ramp(first, tirx.const(1, str(first.ty.dtype)), lanes)


def broadcast(value: Expr, lanes: int) -> Expr:
    """A vector of one value."""
    return value if lanes == 1 else tirx.Broadcast(value, lanes)
