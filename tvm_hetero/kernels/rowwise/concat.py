"""Which kernels only put tensors one behind the other in memory.

A concatenation along an axis before which all extents are 1 (channels of one image) is such a
*join*: its result is the bytes of its first part, then those of the second, and so on. Who plans
memory may let the parts be made where they belong, and need not call the kernel at all
(`tvm_hetero.compiler.concat_elision`).

A kernel is known by what it computes, not by its name: one block, whose value is

    part_k[i_0, ..., i_axis - start_k, ...]   where start_k <= i_axis < start_(k + 1),

written as the nest of ``if_then_else`` that TVM makes of ``R.concat``.
"""

from __future__ import annotations

import math
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import Call, TensorLoad
from tvm.ir.prim.expr import LE, Sub
from tvm.s_tir import SBlockRealize

_CHOICE = "prim.if_then_else"


def join_starts(func: tirx.PrimFunc) -> tuple[int, ...] | None:
    """For each part (parameter) of a join where it begins in the result, in bytes.

    None for a kernel that is no join.
    """
    realize = _only_block(func)
    if realize is None or not isinstance(realize.block.body, tirx.BufferStore):
        return None
    block, store = realize.block, realize.block.body
    if not store.buffer.same_as(func.params[-1]) or not _whole(realize, store):
        return None
    axis = next((i for i, e in enumerate(store.buffer.shape) if int(e) != 1), 0)
    pieces = _pieces(store.value, [v.var for v in block.iter_vars], axis)
    parts = list(func.params[:-1])
    if pieces is None or len(pieces) != len(parts) or len(parts) < 2:
        return None
    begin, starts = 0, []
    for part, (start, source) in zip(parts, pieces, strict=True):
        if start != begin or not source.same_as(part) or not _alike(part, store.buffer, axis):
            return None
        starts.append(begin * _step(store.buffer, axis))
        begin += int(part.shape[axis])
    return tuple(starts) if begin == int(store.buffer.shape[axis]) else None


def _only_block(func: tirx.PrimFunc) -> Any | None:
    """The one block of a kernel that has no other and no memory of its own."""
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (SBlockRealize, found.append))
    inner = [each for each in found if not each.same_as(func.body)]
    if len(inner) != 1 or func.body.block.alloc_buffers:
        return None
    return inner[0]


def _whole(realize: Any, store: tirx.BufferStore) -> bool:
    """Whether each value of the result is stored at its own place, for all of them."""
    variables = realize.block.iter_vars
    shape = [int(extent) for extent in store.buffer.shape]
    return (
        [int(v.dom.extent) for v in variables] == shape
        and all(i.same_as(v.var) for i, v in zip(store.indices, variables, strict=True))
        and isinstance(realize.predicate, tirx.IntImm)
        and int(realize.predicate) == 1
    )


def _pieces(value: Any, variables: list[tirx.Var], axis: int) -> list[tuple[int, Any]] | None:
    """Start and source of each part, in order; the value that is written has them backwards."""
    found: list[tuple[int, Any]] = []
    while isinstance(value, Call) and getattr(value.op, "name", "") == _CHOICE:
        condition, piece, value = value.args
        if not isinstance(condition, LE) or not condition.b.same_as(variables[axis]):
            return None
        if not isinstance(condition.a, tirx.IntImm):
            return None
        found.append((int(condition.a), piece))
    found.append((0, value))
    if not all(_reads(piece, start, variables, axis) for start, piece in found):
        return None
    return [(start, piece.source) for start, piece in reversed(found)]


def _reads(piece: Any, start: int, variables: list[tirx.Var], axis: int) -> bool:
    """Whether a value is read at its own place, ``start`` further on along the axis."""
    if not isinstance(piece, TensorLoad) or len(piece.indices) != len(variables):
        return False
    for number, (index, variable) in enumerate(zip(piece.indices, variables, strict=True)):
        if number == axis and start > 0:
            shifted = isinstance(index, Sub) and isinstance(index.b, tirx.IntImm)
            if not shifted or not index.a.same_as(variable) or int(index.b) != start:
                return False
        elif not index.same_as(variable):
            return False
    return True


def _alike(part: Any, result: Any, axis: int) -> bool:
    """Whether a part is of the result's type, and of its extents but for the axis."""
    extents = [int(e) for e in part.shape], [int(e) for e in result.shape]
    own, whole = ([*e[:axis], *e[axis + 1 :]] for e in extents)
    return own == whole and str(part.dtype) == str(result.dtype)


def _step(buffer: Any, axis: int) -> int:
    """Bytes from one value to the next along an axis."""
    extents = [int(extent) for extent in buffer.shape[axis + 1 :]]
    return math.prod(extents) * tvm_ffi.dtype(str(buffer.dtype)).bits // 8
