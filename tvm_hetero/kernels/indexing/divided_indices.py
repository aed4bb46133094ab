"""Indices that are shifted, or count down, and are divided, which TVM 0.27 makes others of.

Problem
    A reshaped tensor that is read from its end has indices such as

        x[(19 - i) // 4, (19 - i) % 4 // 2, (19 - i) % 2]

    TVM simplifies each (``(3 - i) % 4 // 2``), and as it flattens the buffer makes one index of
    them again: ``16 - i``. Values are wrong, and what is in front of the operand is read. A single
    one, of a repeated tensor that is read from its end, is no better off: of ``x[(14 - i) % 5]`` it
    makes ``x[-(i % -5)]``. Nor are those that are shifted by unlike numbers (each ``i`` becomes
    ``i + 5`` in ``x[(i + 5) // 4 % 2, i % 4]``), nor what is shifted between two divisions. What
    is shifted alike, or not at all, is right (test_divided_indices.py draws all of them), and has
    to stay as it is: with its indices hidden a depthwise convolution takes four times as long.

Answer
    Such an access is looked for as it will be when TVM flattens it: written out by the loops around
    it, and simplified. What it divides then goes through the bits of a number of another type and
    back, of which the analyzer knows nothing, some of them turned (exclusive or). No constant is
    added to it: TVM would multiply that with the strides, beyond 32 bits. It is the same number in
    each of the indices, and LLVM sees through it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

if TYPE_CHECKING:
    Expr = Any

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
_WHOLE = ("int32", "int64")
_TURNED = 0x55555555


def hide_divided_indices(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that computes the same, with no indices that TVM would flatten wrongly."""
    values = _iterator_values(func)

    def load(node: TensorLoad) -> Expr:
        return _hidden_within(node) if _may_be_changed(node.indices, values) else node

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        if not _may_be_changed(node.indices, values):
            return node
        indices = [_hidden_within(each) for each in node.indices]
        return tirx.BufferStore(node.buffer, node.value, indices, node.span)

    body = tvm_ffi.structural_map(func.body, [(TensorLoad, load), (tirx.BufferStore, store)])
    return func if body.same_as(func.body) else func.with_body(body)


@dataclass(frozen=True)
class _Iterators:
    """What iterators of blocks stand for, and an analyzer that knows all loops."""

    values: list[tuple[tirx.Var, Expr]]
    analyzer: Analyzer

    def written_out(self, index: Expr) -> Expr:
        """An index of loop variables, as simple as it gets."""

        def bound(var: tirx.Var) -> Expr:
            found = [value for own, value in self.values if own.same_as(var)]
            return self.written_out(found[0]) if found else var

        return self.analyzer.simplify(tvm_ffi.structural_map(index, (tirx.Var, bound)))


def _iterator_values(func: tirx.PrimFunc) -> _Iterators:
    found = _Iterators([], Analyzer())

    def enter(realize: s_tir.SBlockRealize) -> None:
        found.values.extend(
            (iterator.var, value)
            for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        )

    def loop(node: tirx.For) -> None:
        found.analyzer.bind(node.loop_var, tvm.ir.Range.from_min_extent(node.min, node.extent))

    tvm_ffi.structural_walk(
        func.body, [(s_tir.SBlockRealize, enter), (tirx.For, loop)], order="pre"
    )
    return found


def _may_be_changed(indices: Collection[Expr], iterators: _Iterators) -> bool:
    """Whether one of them has, written out, a division that TVM may make another of."""
    if not _divisions(indices):  # of nearly all kernels, at once: to ask for each took four times
        return False
    divided = [iterators.written_out(index) for index in indices if _divisions(index)]
    divisions = [division for index in divided for division in _divisions(index)]
    roots = [_root(division) for division in divisions]
    shifted = [root for root in roots if _is_shifted(root)]
    return (
        any(_falls(division) for division in divisions)
        or any(_divisions(root) for root in shifted)
        or any(not tvm_ffi.structural_equal(a, b) for a in shifted for b in roots)
    )


def _root(division: Expr) -> Expr:
    """What is divided, by divisions of nothing else: ``i + 5`` of ``(i + 5) // 4 % 2``."""
    return _root(division.a) if isinstance(division, _DIVISIONS) else division


def _divisions(index: Expr | Collection[Expr]) -> list[Expr]:
    found: list[Expr] = []
    tvm_ffi.structural_walk(index, (_DIVISIONS, found.append))
    return found


def _is_shifted(value: Expr) -> bool:
    """Whether a number is added somewhere in it."""
    found = False

    def added(node: tirx.Add) -> None:
        nonlocal found
        found = found or any(isinstance(each, tirx.IntImm) for each in (node.a, node.b))

    tvm_ffi.structural_walk(value, (tirx.Add, added))
    return found


def _falls(division: Expr) -> bool:
    """Whether something is subtracted in what is divided, or the divisor is negative."""
    found = isinstance(division.b, tirx.IntImm) and int(division.b) < 0

    def subtracted(_: tirx.Sub) -> None:
        nonlocal found
        found = True

    def multiplied(node: tirx.Mul) -> None:
        nonlocal found
        found = found or any(isinstance(e, tirx.IntImm) and int(e) < 0 for e in (node.a, node.b))

    tvm_ffi.structural_walk(division.a, [(tirx.Sub, subtracted), (tirx.Mul, multiplied)])
    return found


def _hidden_within(node: Expr) -> Expr:
    return tvm_ffi.structural_map(node, (_DIVISIONS, _hidden))


def _hidden(division: Expr) -> Expr:
    """A division, its dividend hidden."""
    kind = str(division.ty.dtype)
    if kind not in _WHOLE:
        return division
    # TVM narrows indices to 32 bits when it compiles, and then 64 would be too many. A number that
    # turns out to be 0 would be taken for a pointer.
    short = tirx.Cast("int32", division.a) if kind == "int64" else division.a
    bits = tirx.reinterpret("uint32", tirx.bitwise_xor(short, tirx.const(_TURNED, "int32")))
    hidden = tirx.bitwise_xor(tirx.reinterpret("int32", bits), tirx.const(_TURNED, "int32"))
    return type(division)(hidden if kind == "int32" else tirx.Cast(kind, hidden), division.b)
