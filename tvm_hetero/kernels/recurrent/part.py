"""A part of the units of a recurrent kernel, in one group of gates and one step.

    sums = what the input contributes
    for each unit k of the state: sums += state[k] * weights[.., k, ..]
    state = the cell's functions of the sums                      `recurrent.cells`

A part is a few vectors of units of one block, in all gates of the group, for the few sequences of a
tile: its sums stand in registers while the weights pass, each of which is read once for the tile.
Where that is too few sums to hide how long one takes, every second k has sums of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.recurrent.cells import UnitPlace, update_state
from tvm_hetero.kernels.recurrent.frame import RecurrentFrame
from tvm_hetero.kernels.recurrent.layout import GateGroup
from tvm_hetero.kernels.tir.statements import (
    SERIAL,
    VECTORIZED,
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    store,
    whole,
)

if TYPE_CHECKING:
    Expr = Any

# Which gate of a GRU has a bias of its own.
_NEW = 2


@dataclass(frozen=True)
class RecurrentPart:
    """A part of the units in one group of gates, in one step."""

    frame: RecurrentFrame
    group: GateGroup
    s: Expr
    p: Expr
    now: Expr
    then: Expr

    @property
    def _vectors(self) -> list[tuple[int, int]]:
        """Each gate of the group, and each vector of units."""
        gates, tile = range(len(self.group.gates)), self.frame.tile
        return [(g, v) for g in gates for v in range(tile.vectors)]

    def _sum(self, g: int, v: int, split: int = 0) -> int:
        """Where the sums of a gate and vector begin."""
        tile, gates = self.frame.tile, len(self.group.gates)
        return ((split * gates + g) * tile.vectors + v) * tile.lanes

    def statements(self, first: Expr, count: int) -> list[tirx.Stmt]:
        """What is done for a tile of so many sequences from the first one on."""
        frame = self.frame
        made: list[tirx.Stmt] = []
        times: list[tuple[Expr, Expr | None]] = []
        for m in range(count):
            time, active = frame.time(self.s, first + m)
            time, bind = bind_value("t", time)
            times.append((time, active))
            made += [bind, *self._begin(first + m, m, time)]
        splits = frame.tile.splits if frame.r.hidden % frame.tile.splits == 0 else 1
        add = loop("k", frame.r.hidden // splits, lambda k: self._add(k, first, count, splits))
        made.append(add)
        for m, (time, active) in enumerate(times):
            made += self._joined(m, splits)
            made += [self._update(first + m, m, time, active, v) for v in range(frame.tile.vectors)]
        return made

    def _begin(self, row: Expr, m: int, time: Expr) -> list[tirx.Stmt]:
        """Sums start with what the input contributes, all but the first parts with nothing."""
        frame, sums = self.frame, self.frame.scratch.gates[m]
        lanes, tile = frame.tile.lanes, frame.tile
        zero = broadcast(tirx.const(0, frame.r.dtype), lanes)
        made = []
        splits = tile.splits if frame.r.hidden % tile.splits == 0 else 1
        for g, v in self._vectors:
            start = self._contributed(time, row, g, v)
            made.append(store(sums, [ramp(whole(self._sum(g, v)), lanes)], start))
            for split in range(1, splits):
                made.append(store(sums, [ramp(whole(self._sum(g, v, split)), lanes)], zero))
        return made

    def _contributed(self, time: Expr, row: Expr, g: int, v: int) -> Expr:
        frame, lanes = self.frame, self.frame.tile.lanes
        if self.group.gates[g] == _NEW and frame.tensors.bias is not None:
            unit = self.p * frame.tile.units + v * lanes
            return load(frame.tensors.bias, ramp(unit, lanes))
        return load(frame.tensors.product, time, row, ramp(self._column(g, v), lanes))

    def _column(self, g: int, v: int) -> Expr:
        """The first column of the product for a vector of a gate."""
        block, inside = self._block()
        gates, units = len(self.group.gates), self.frame.layout.block
        return block * (gates * units) + inside + (self.group.column + g * units + self._at(v))

    def _block(self) -> tuple[Expr, Expr]:
        """The block of units, and the unit in it that the part begins with."""
        parts = self.frame.layout.block // self.frame.tile.units
        if parts == 1:
            return self.p, whole(0)
        return self.p // parts, self.p % parts * self.frame.tile.units

    def _at(self, v: int) -> int:
        return v * self.frame.tile.lanes

    def _add(self, k: Expr, first: Expr, count: int, splits: int) -> list[tirx.Stmt]:
        """What some units of the state add to all sums."""
        frame, lanes = self.frame, self.frame.tile.lanes
        made: list[tirx.Stmt] = []
        for split in range(splits):
            unit = k * splits + split
            rows = []
            for m in range(count):
                value, bind = bind_value("state", self._state(first + m, unit))
                rows.append(value)
                made.append(bind)
            for g, v in self._vectors:
                weight, bind = bind_value("weight", self._weight(unit, g, v))
                made.append(bind)
                at = ramp(whole(self._sum(g, v, split)), lanes)
                for m, value in enumerate(rows):
                    sums = frame.scratch.gates[m]
                    total = load(sums, at) + broadcast(value, lanes) * weight
                    made.append(store(sums, [at], total))
        return made

    def _state(self, row: Expr, unit: Expr) -> Expr:
        scratch = self.frame.scratch
        last_of_two = len(self.frame.layout.groups) == 2 and self.group.weight > 0
        if last_of_two and scratch.reset is not None:
            return load(scratch.reset, row, unit)
        return load(scratch.h, self.now, row, unit)

    def _weight(self, unit: Expr, g: int, v: int) -> Expr:
        block, inside = self._block()
        layout, gates = self.frame.layout, len(self.group.gates)
        row = (block * layout.hidden + unit) * (gates * layout.block) + inside
        first = row + (self.group.weight + g * layout.block + self._at(v))
        return load(self.frame.tensors.weights, ramp(first, self.frame.tile.lanes))

    def _joined(self, m: int, splits: int) -> list[tirx.Stmt]:
        """All parts of the sums, added to the first."""
        sums, lanes = self.frame.scratch.gates[m], self.frame.tile.lanes
        made = []
        for g, v in self._vectors if splits > 1 else []:
            total = load(sums, ramp(whole(self._sum(g, v)), lanes))
            for split in range(1, splits):
                total = total + load(sums, ramp(whole(self._sum(g, v, split)), lanes))
            made.append(store(sums, [ramp(whole(self._sum(g, v)), lanes)], total))
        return made

    def _update(self, row: Expr, m: int, time: Expr, active: Expr | None, v: int) -> tirx.Stmt:
        """The new state of a vector of units."""
        frame = self.frame
        unit = self.p * frame.tile.units + v * frame.tile.lanes

        def lane(i: Expr) -> list[tirx.Stmt]:
            place = UnitPlace(
                frame.r, frame.tensors, frame.scratch, row, unit + i, self.now, self.then,
                frame.scratch.gates[m],
                lambda g: whole(self._sum(self.group.gates.index(g), v)) + i,
                lambda g: load(frame.tensors.product, time, row, self._column(g, v) + i),
                active,
            )  # fmt: skip
            return update_state(self.group, place)

        return loop("i", frame.tile.lanes, lane, VECTORIZED if frame.tile.lanes > 1 else SERIAL)
