"""Updates of a cache for models that compute with what the cache is afterwards.

A model whose caches are inputs and outputs says ``new = update(cache, ...)`` and goes on with
``new``. As state the cache is written in place, and ``new`` is a tensor of its own, a copy:

    update_rows    rows[c] of an axis become row c of ``source``; rows beyond the axis are left out
    update_where   what ``mask`` says becomes ``source``, all else stays

So a step writes and reads each cache once more than attention that keeps its caches itself
(`attention.kernel`) would. Kernels are written out and not scheduled; they are for CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import function, load, loop, store, tensor, when, whole

if TYPE_CHECKING:
    Expr = Any

_ATTRS = {"op_pattern": 8}


def update_rows(
    shape: Sequence[int], axis: int, rows: int, dtype: str, index_dtype: str
) -> tirx.PrimFunc:
    """Of ``cache``, ``index [rows]``, ``source`` (``rows`` long on the axis) and ``out``."""
    cache, out = tensor("cache", shape, dtype), tensor("out", shape, dtype)
    index = tensor("index", [rows], index_dtype)
    source = tensor("source", [*shape[:axis], rows, *shape[axis + 1 :]], dtype)

    def write(at: Sequence[Expr]) -> tirx.Stmt:
        row = tirx.Cast("int64", load(index, at[axis]))
        target = [*at[:axis], row, *at[axis + 1 :]]
        inside = tirx.all(row >= whole(0), row < whole(shape[axis]))
        return when(inside, store(cache, target, load(source, *at)))

    body = [
        _each([*shape[:axis], rows, *shape[axis + 1 :]], write),
        _each(shape, lambda at: store(out, at, load(cache, *at))),
    ]
    params = [cache, index, source, out]
    return function(params, body, "update_rows", [cache, out], attrs=_ATTRS)


def update_where(
    shape: Sequence[int],
    mask: Sequence[int],
    source: Sequence[int],
    dtype: str,
    *,
    kept: bool,
) -> tirx.PrimFunc:
    """Of ``cache``, ``mask``, ``source`` (both broadcast to the cache) and ``out``.

    ``kept``: the mask says what of the cache stays, and not what is written.
    """
    cache, out = tensor("cache", shape, dtype), tensor("out", shape, dtype)
    given, values = tensor("mask", mask, "bool"), tensor("source", source, dtype)

    def write(at: Sequence[Expr]) -> tirx.Stmt:
        said = load(given, *_broadcast(at, mask))
        new = tirx.Not(said) if kept else said
        return when(new, store(cache, at, load(values, *_broadcast(at, source))))

    body = [
        _each(shape, write),
        _each(shape, lambda at: store(out, at, load(cache, *at))),
    ]
    params = [cache, given, values, out]
    return function(params, body, "update_where", [cache, out], attrs=_ATTRS)


def _broadcast(at: Sequence[Expr], shape: Sequence[int]) -> list[Expr]:
    """The place in a tensor of fewer dimensions, or of extents 1."""
    last = at[len(at) - len(shape) :]
    return [whole(0) if n == 1 else i for i, n in zip(last, shape, strict=True)]


def _each(shape: Sequence[int], body: Callable[[Sequence[Expr]], tirx.Stmt]) -> tirx.Stmt:
    """Loops over all places of a tensor."""

    def below(at: Sequence[Expr]) -> tirx.Stmt:
        if len(at) == len(shape):
            return body(at)
        return loop(f"i{len(at)}", shape[len(at)], lambda i: below([*at, i]))

    return below([])
