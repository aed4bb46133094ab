"""The loops of a recurrent kernel, for whatever vectors and threads there are.

    for each step
        for each group of gates
            for each part of the units, for each tile of the sequences        `recurrent.part`
        Y = state

`RecurrentLoops` says how loops over parts are made; the states of a step are all read before the
next one writes there, since they stand in two places in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.recurrent.frame import RecurrentFrame
from tvm_hetero.kernels.recurrent.layout import GateGroup
from tvm_hetero.kernels.recurrent.part import RecurrentPart
from tvm_hetero.kernels.tir.statements import (
    PARALLEL,
    SERIAL,
    bind_value,
    load,
    loop,
    store,
    whole,
)

if TYPE_CHECKING:
    from tvm_hetero.kernels.tir.statements import Body

    Expr = Any


class RecurrentLoops:
    """Loops of a CPU: one after the other, or parts shared among its cores."""

    def __init__(self, shared: bool = False) -> None:
        self._kind = PARALLEL if shared else SERIAL

    def parts(self, parts: int, body: Callable[[Expr], Body]) -> tirx.Stmt:
        """Loop over parts of the units; each has its own loop over the tiles."""
        return loop("part", parts, body, self._kind)

    def each(self, name: str, extent: int, body: Callable[[Expr], Body]) -> tirx.Stmt:
        """Loop over what is moved only."""
        return loop(name, extent, body)

    def whole(self, body: list[tirx.Stmt]) -> list[tirx.Stmt]:
        """All that the kernel does."""
        return body


@dataclass(frozen=True)
class RecurrentSteps:
    """Writes the kernel."""

    frame: RecurrentFrame
    loops: RecurrentLoops

    def body(self) -> list[tirx.Stmt]:
        """All steps, from the first states to the last ones."""
        last = whole(self.frame.r.steps % 2)
        return self.loops.whole([
            self.loops.each("i", self.frame.r.batch * self.frame.layout.padded, self._first),
            loop("s", self.frame.r.steps, self._step),
            self.loops.each("i", self.frame.r.batch * self.frame.r.hidden, lambda i: self._last(last, i)),
        ])  # fmt: skip

    def _first(self, i: Expr) -> list[tirx.Stmt]:
        row, unit = i // self.frame.layout.padded, i % self.frame.layout.padded
        t, zero = self.frame.tensors, tirx.const(0, self.frame.r.dtype)

        def given(tensor: tirx.Var | None) -> Expr:
            if tensor is None:
                return zero
            there = load(tensor, row, tirx.min(unit, whole(self.frame.r.hidden - 1)))
            return tirx.Select(unit < self.frame.r.hidden, there, zero)

        stores = [store(self.frame.scratch.h, [0, row, unit], given(t.first_h))]
        if self.frame.scratch.c is not None:
            stores.append(store(self.frame.scratch.c, [row, unit], given(t.first_c)))
        return stores

    def _last(self, last: Expr, i: Expr) -> list[tirx.Stmt]:
        row, unit = i // self.frame.r.hidden, i % self.frame.r.hidden

        def kept(value: Expr) -> Expr:
            length = self.frame.length(row)
            none = tirx.const(0, self.frame.r.dtype)
            return value if length is None else tirx.Select(length > whole(0), value, none)

        stores = [store(self.frame.tensors.last_h, [row, unit], kept(load(self.frame.scratch.h, last, row, unit)))]
        if self.frame.tensors.last_c is not None and self.frame.scratch.c is not None:
            cell = kept(load(self.frame.scratch.c, row, unit))
            stores.append(store(self.frame.tensors.last_c, [row, unit], cell))
        return stores

    def _step(self, s: Expr) -> list[tirx.Stmt]:
        now, bind_now = bind_value("now", s % 2)
        then, bind_then = bind_value("then", whole(1) - now)

        def result(i: Expr) -> tirx.Stmt:
            row, unit = i // self.frame.r.hidden, i % self.frame.r.hidden
            time, active = self.frame.time(s, row)
            value, none = load(self.frame.scratch.h, then, row, unit), tirx.const(0, self.frame.r.dtype)
            shown = value if active is None else tirx.Select(active, value, none)
            return store(self.frame.tensors.y, [time, row, unit], shown)

        groups = [self._group(s, group, now, then) for group in self.frame.layout.groups]
        results = self.loops.each("i", self.frame.r.batch * self.frame.r.hidden, result)
        return [bind_now, bind_then, *groups, results]

    def _group(self, s: Expr, group: GateGroup, now: Expr, then: Expr) -> tirx.Stmt:
        parts, rows = self.frame.layout.padded // self.frame.tile.units, self.frame.tile.rows

        def part(p: Expr) -> list[tirx.Stmt]:
            def tile(first: Expr, count: int) -> list[tirx.Stmt]:
                return RecurrentPart(self.frame, group, s, p, now, then).statements(first, count)

            full, rest = divmod(self.frame.r.batch, rows)
            tiles = [loop("tile", full, lambda b: tile(b * rows, rows))] if full else []
            return [*tiles, *(tile(whole(full * rows), rest) if rest else [])]

        return self.loops.parts(parts, part)
