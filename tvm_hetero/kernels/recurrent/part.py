"""A part of the units of a recurrent kernel, in one group of gates and one step.

    sums = what the input contributes
    for each unit k of the state: sums += state[k] * weights[.., k, ..]
    state = the cell's functions of the sums                      `recurrent.cells`

A part is a few vectors of units of one block, in all gates of the group, for the few sequences of a
tile: its sums stand in registers while the weights pass, each of which is read once for the tile.
Where these are too few to hide how long a sum takes, k is *split*: every second one has sums of its
own, which are joined in the end.
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
    """Part ``p`` of the units in one group of gates, in step ``s``.

    The state before the step stands in the place ``now``, that after it in ``then``.
    """

    frame: RecurrentFrame
    group: GateGroup
    s: Expr
    p: Expr
    now: Expr
    then: Expr

    def statements(self, first: Expr, count: int) -> list[tirx.Stmt]:
        """What is done for a tile of so many sequences from the first one on."""
        frame, splits = self.frame, self.frame.tile.splits
        times = [frame.time(self.s, first + m) for m in range(count)]
        bound = [bind_value("time", time) for time, _ in times]
        made = [bind for _, bind in bound]
        for m, (time, _) in enumerate(bound):
            made += self._begin(first + m, m, time)
        steps = frame.layout.depth // splits
        made.append(loop("k", steps, lambda k: self._add(k * splits, first, count)))
        for m, (time, _) in enumerate(bound):
            made += self._join(first + m, m, time)
            for v in range(frame.tile.vectors):
                made.append(self._update(first + m, m, time, times[m][1], v))
        return made

    @property
    def _vectors(self) -> list[tuple[int, int]]:
        """Each gate, by its place in the group, and each vector of units."""
        return [
            (g, v) for g in range(len(self.group.gates)) for v in range(self.frame.tile.vectors)
        ]

    def _sum(self, g: int, v: int, split: int = 0) -> int:
        """Where the sums of a gate and vector begin."""
        tile, gates = self.frame.tile, len(self.group.gates)
        return ((split * gates + g) * tile.vectors + v) * tile.lanes

    def _sums(self, g: int, v: int, split: int = 0) -> Expr:
        """The places of a vector of sums."""
        return ramp(whole(self._sum(g, v, split)), self.frame.tile.lanes)

    def _begin(self, row: Expr, m: int, time: Expr) -> list[tirx.Stmt]:
        """Sums start with what the input contributes, but for the first split with nothing."""
        sums, tile = self.frame.scratch.gates[m], self.frame.tile
        zero = broadcast(tirx.const(0, self.frame.r.dtype), tile.lanes)
        made = []
        for g, v in self._vectors:
            made.append(store(sums, [self._sums(g, v)], self._contributed(time, row, g, v)))
            made += [store(sums, [self._sums(g, v, n)], zero) for n in range(1, tile.splits)]
        return made

    def _contributed(self, time: Expr, row: Expr, g: int, v: int) -> Expr:
        frame, lanes = self.frame, self.frame.tile.lanes
        if self.group.gates[g] == _NEW and frame.tensors.bias is not None:
            unit = self.p * frame.tile.units + v * lanes
            return load(frame.tensors.bias, ramp(unit, lanes))
        place = time, frame.sequence(row), ramp(self._column(g, v), lanes)
        return load(frame.tensors.product, *place)

    def _column(self, g: int, v: int) -> Expr:
        """The first column of the product for a vector of a gate."""
        n, inside = self._block()
        gates, units = len(self.group.gates), self.frame.layout.block
        offset = self.group.column + g * units + v * self.frame.tile.lanes
        return n * (gates * units) + inside + offset

    def _block(self) -> tuple[Expr, Expr]:
        """The block of units, and the unit in it that the part begins with."""
        parts = self.frame.layout.block // self.frame.tile.units
        if parts == 1:
            return self.p, whole(0)
        return self.p // parts, self.p % parts * self.frame.tile.units

    def _add(self, k: Expr, first: Expr, count: int) -> list[tirx.Stmt]:
        """What a unit of the state adds to all sums: as many units as there are splits."""
        frame, lanes = self.frame, self.frame.tile.lanes
        made: list[tirx.Stmt] = []
        for split in range(frame.tile.splits):
            bound = [bind_value("state", self._state(first + m, k + split)) for m in range(count)]
            made += [bind for _, bind in bound]
            for g, v in self._vectors:
                weight, bind = bind_value("weight", self._weight(k + split, g, v))
                made.append(bind)
                for m, (value, _) in enumerate(bound):
                    sums, at = frame.scratch.gates[m], self._sums(g, v, split)
                    total = load(sums, at) + broadcast(value, lanes) * weight
                    made.append(store(sums, [at], total))
        return made

    def _state(self, row: Expr, unit: Expr) -> Expr:
        """What is multiplied: the state, its levels, or what a GRU leaves for its last gate."""
        scratch = self.frame.scratch
        if scratch.levels is not None:
            return load(scratch.levels, row, unit)
        if scratch.reset is not None and _NEW in self.group.gates:
            return load(scratch.reset, row, unit)
        return load(scratch.h, self.now, row, unit)

    def _weight(self, unit: Expr, g: int, v: int) -> Expr:
        """The weights of a unit of the state for a vector of a gate."""
        n, inside = self._block()
        layout, gates = self.frame.layout, len(self.group.gates)
        row = (n * layout.depth + unit) * (gates * layout.block) + inside
        offset = self.group.weight + g * layout.block + v * self.frame.tile.lanes
        return load(self.frame.tensors.weights, ramp(row + offset, self.frame.tile.lanes))

    def _join(self, row: Expr, m: int, time: Expr) -> list[tirx.Stmt]:
        """Add the sums of all splits to the first one's."""
        return self._joined(self.frame.scratch.gates[m])

    def _joined(self, sums: tirx.Var) -> list[tirx.Stmt]:
        splits = self.frame.tile.splits
        return [
            store(sums, [self._sums(g, v)], load(sums, self._sums(g, v)) + load(sums, split))
            for g, v in self._vectors
            for split in (self._sums(g, v, n) for n in range(1, splits))
        ]

    def _update(self, row: Expr, m: int, time: Expr, active: Expr | None, v: int) -> tirx.Stmt:
        """The new state of a vector of units."""
        frame, lanes = self.frame, self.frame.tile.lanes
        unit = self.p * frame.tile.units + v * lanes
        index = self.group.gates.index

        def contributed(g: int, i: Expr) -> Expr:
            return load(
                frame.tensors.product, time, frame.sequence(row), self._column(index(g), v) + i
            )

        def lane(i: Expr) -> list[tirx.Stmt]:
            place = UnitPlace(
                frame.r, frame.tensors, frame.scratch, row, unit + i, self.now, self.then,
                frame.scratch.gates[m],
                lambda g: whole(self._sum(index(g), v)) + i,
                lambda g: contributed(g, i),
                active,
            )  # fmt: skip
            return update_state(self.group, place)

        return loop("i", lanes, lane, VECTORIZED if lanes > 1 else SERIAL)
