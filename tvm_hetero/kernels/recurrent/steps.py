"""The loops of a recurrent kernel, for whatever vectors and threads there are.

    for each step
        levels of the state, where it is quantized                        `recurrent.levels`
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
from tvm_hetero.kernels.recurrent.levels import Levels, find_range, levels_of
from tvm_hetero.kernels.recurrent.part import RecurrentPart
from tvm_hetero.kernels.recurrent.part_in_bytes import BytesPart
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

    def parts(self, parts: int, body: Callable[[Expr], Body]) -> list[tirx.Stmt]:
        """Loop over parts of the units."""
        return [loop("part", parts, body, self._kind)]

    def units(self, extent: int, padded: int, body: Callable[[Expr], Body]) -> list[tirx.Stmt]:
        """Loop over units; there are ``padded`` ones with those that no one reads."""
        return [loop("unit", extent, body)]


@dataclass(frozen=True)
class RecurrentSteps:
    """Writes the statements of a frame with some kind of loops."""

    frame: RecurrentFrame
    loops: RecurrentLoops

    def body(self) -> list[tirx.Stmt]:
        """All steps, from the first states to the last ones."""
        frame = self.frame
        last = whole(frame.r.steps % 2)
        return [
            *self._each(frame.layout.padded, self._begin),
            loop("s", frame.r.steps, self._step),
            *self._each(frame.r.hidden, lambda row, unit: self._end(last, row, unit)),
        ]

    def _each(self, extent: int, body: Callable[[Expr, Expr], Body]) -> list[tirx.Stmt]:
        """Loops over the sequences, and so many of the units."""
        padded = self.frame.layout.padded

        def row(b: Expr) -> list[tirx.Stmt]:
            return self.loops.units(extent, padded, lambda unit: body(b, unit))

        return [loop("b", self.frame.sequences, row)]

    def _begin(self, row: Expr, unit: Expr) -> list[tirx.Stmt]:
        """The states before the first step; those of units that no one reads are zero."""
        frame, t, hidden = self.frame, self.frame.tensors, self.frame.r.hidden

        def given(tensor: tirx.Var | None) -> Expr:
            zero = tirx.const(0, frame.r.dtype)
            if tensor is None:
                return zero
            there = load(tensor, frame.sequence(row), tirx.min(unit, whole(hidden - 1)))
            return tirx.Select(unit < hidden, there, zero)

        stores = [store(frame.scratch.h, [0, row, unit], given(t.first_h))]
        if frame.scratch.c is not None:
            stores.append(store(frame.scratch.c, [row, unit], given(t.first_c)))
        return stores

    def _end(self, last: Expr, row: Expr, unit: Expr) -> list[tirx.Stmt]:
        """The states after the last step; zero for a sequence without a step."""
        frame, t = self.frame, self.frame.tensors
        length, place = frame.length(row), [frame.sequence(row), unit]

        def kept(value: Expr) -> Expr:
            none = tirx.const(0, frame.r.dtype)
            return value if length is None else tirx.Select(length > whole(0), value, none)

        stores = [store(t.last_h, place, kept(load(frame.scratch.h, last, row, unit)))]
        if t.last_c is not None and frame.scratch.c is not None:
            stores.append(store(t.last_c, place, kept(load(frame.scratch.c, row, unit))))
        return stores

    def _step(self, s: Expr) -> list[tirx.Stmt]:
        """One step of all sequences."""
        now, bind_now = bind_value("now", s % 2)
        then, bind_then = bind_value("then", whole(1) - now)
        made, levels = [bind_now, bind_then], None
        if self.frame.scratch.levels is not None:
            levels, quantized = self._quantize(now)
            made += quantized
        for group in self.frame.layout.groups:
            made += self._group((self.frame, group, s), (now, then), levels)
        shown = self._each(self.frame.r.hidden, lambda row, unit: self._show(s, then, row, unit))
        return [*made, *shown]

    def _quantize(self, now: Expr) -> tuple[Levels, list[tirx.Stmt]]:
        """Put the state into levels of its range, or their codes, for the products."""
        frame, levels, found = self.frame, self.frame.scratch.levels, self.frame.scratch.range
        assert levels is not None and found is not None

        def state(row: Expr, unit: Expr) -> Expr:
            return load(frame.scratch.h, now, row, unit)

        def put(row: Expr, unit: Expr) -> tirx.Stmt:
            value = state(row, unit)
            if frame.r.in_bytes:  # by way of int32: from there it is one instruction
                code = tirx.Cast("uint8", tirx.Cast("int32", made.code_of(value)))
                return store(levels, [row, unit], code)
            return store(levels, [row, unit], made.level_of(value))

        widened = find_range(found, frame.sequences, frame.r.hidden, state)
        made, bound = levels_of(found)
        return made, [*widened, *bound, *self._each(frame.layout.padded, put)]

    def _show(self, s: Expr, then: Expr, row: Expr, unit: Expr) -> tirx.Stmt:
        """A number of Y: zero behind the end of its sequence."""
        frame = self.frame
        time, active = frame.time(s, row)
        value, none = load(frame.scratch.h, then, row, unit), tirx.const(0, frame.r.dtype)
        value = value if active is None else tirx.Select(active, value, none)
        return store(frame.tensors.y, [time, frame.sequence(row), unit], value)

    def _group(
        self,
        what: tuple[RecurrentFrame, GateGroup, Expr],
        states: tuple[Expr, Expr],
        levels: Levels | None,
    ) -> list[tirx.Stmt]:
        """A group of gates in a step, for all units of all sequences."""
        frame, rows = self.frame, self.frame.tile.rows
        full, rest = divmod(frame.sequences, rows)

        def part(p: Expr) -> list[tirx.Stmt]:
            work = RecurrentPart(*what, p, *states)
            if frame.r.in_bytes and levels is not None:
                work = BytesPart(*what, p, *states, levels)
            tiles = [loop("tile", full, lambda b: work.statements(b * rows, rows))] if full else []
            return [*tiles, *(work.statements(whole(full * rows), rest) if rest else [])]

        return self.loops.parts(frame.layout.padded // frame.tile.units, part)
