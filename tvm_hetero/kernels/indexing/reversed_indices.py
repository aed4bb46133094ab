"""Indices that count down and are taken apart, which TVM 0.27 puts together wrongly.

Problem
    A reshaped tensor that is read from its end has indices such as

        x[(19 - i) // 4, (19 - i) % 4 // 2, (19 - i) % 2]

    TVM simplifies each (``(3 - i) % 4 // 2``), and as it flattens the buffer makes one index of
    them again: ``16 - i``. Values are wrong, and what is in front of the operand is read. Of
    indices that count up it makes the right one (test_reversed_indices.py tries both).

Answer
    What is divided goes through the bits of a number of another type and back, of which the
    analyzer knows nothing. It is the same number in each of the indices, and LLVM sees through it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

if TYPE_CHECKING:
    Expr = Any

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
_WHOLE = ("int32", "int64")
_LIFT = 2**30


def hide_reversed_indices(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that computes the same, with no indices that TVM would flatten wrongly."""
    falling = _falling(func)

    def load(node: TensorLoad) -> Expr:
        return _hidden_within(node, falling) if _is_taken_apart(node.indices, falling) else node

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        if not _is_taken_apart(node.indices, falling):
            return node
        indices = [_hidden_within(each, falling) for each in node.indices]
        return tirx.BufferStore(node.buffer, node.value, indices, node.span)

    body = tvm_ffi.structural_map(func.body, [(TensorLoad, load), (tirx.BufferStore, store)])
    return func if body.same_as(func.body) else func.with_body(body)


def _falling(func: tirx.PrimFunc) -> list[tirx.Var]:
    """Iterators of blocks that count down as the loops around them count up."""
    found: list[tirx.Var] = []

    def visit(realize: s_tir.SBlockRealize) -> None:
        pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
        found.extend(iterator.var for iterator, value in pairs if _counts_down(value, found))

    tvm_ffi.structural_walk(func.body, (s_tir.SBlockRealize, visit), order="pre")
    return found


def _is_taken_apart(indices: Collection[Expr], falling: Collection[tirx.Var]) -> bool:
    """Whether at least two indices have a division of what counts down."""
    return sum(_divides(each, falling) for each in indices) > 1


def _divides(index: Expr, falling: Collection[tirx.Var]) -> bool:
    found = False

    def visit(node: Expr) -> None:
        nonlocal found
        found = found or _counts_down(node.a, falling)

    tvm_ffi.structural_walk(index, (_DIVISIONS, visit))
    return found


def _counts_down(value: Expr, falling: Collection[tirx.Var]) -> bool:
    """Whether something is subtracted in a number, or it has an iterator that falls."""
    found = False

    def subtracted(node: tirx.Sub) -> None:
        nonlocal found
        found = found or not isinstance(node.b, tirx.IntImm)

    def multiplied(node: tirx.Mul) -> None:
        nonlocal found
        found = found or any(isinstance(e, tirx.IntImm) and int(e) < 0 for e in (node.a, node.b))

    def read(node: tirx.Var) -> None:
        nonlocal found
        found = found or any(node.same_as(each) for each in falling)

    visits = [(tirx.Sub, subtracted), (tirx.Mul, multiplied), (tirx.Var, read)]
    tvm_ffi.structural_walk(value, visits)
    return found


def _hidden_within(node: Expr, falling: Collection[tirx.Var]) -> Expr:
    return tvm_ffi.structural_map(node, (_DIVISIONS, partial(_hidden, falling)))


def _hidden(falling: Collection[tirx.Var], division: Expr) -> Expr:
    """A division, its dividend hidden if that counts down."""
    kind = str(division.ty.dtype)
    if kind not in _WHOLE or not _counts_down(division.a, falling):
        return division
    # TVM narrows indices to 32 bits when it compiles, and then 64 would be too many. A number that
    # turns out to be 0 would be taken for a pointer.
    short = tirx.Cast("int32", division.a) if kind == "int64" else division.a
    lifted = tirx.reinterpret("uint32", short + tirx.const(_LIFT, "int32"))
    hidden = tirx.reinterpret("int32", lifted) - tirx.const(_LIFT, "int32")
    return type(division)(hidden if kind == "int32" else tirx.Cast(kind, hidden), division.b)
