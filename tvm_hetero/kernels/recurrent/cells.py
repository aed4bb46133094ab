"""What becomes of the sums of the gates: the new state of one unit of one sequence.

The statements stand in a loop over the lanes of a vector. A value that is used twice is stored, in
the place of the sum that it was made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.recurrent.activations import CellActivation, activate
from tvm_hetero.kernels.recurrent.layout import GateGroup
from tvm_hetero.kernels.recurrent.recurrence import GRU, LSTM, Recurrence
from tvm_hetero.kernels.recurrent.tensors import RecurrentScratch, RecurrentTensors
from tvm_hetero.kernels.tir.statements import load, store

if TYPE_CHECKING:
    Expr = Any

# The order of an LSTM's gates, of its peepholes, and of a GRU's gates.
_INPUT, _OUTPUT, _FORGET, _CELL = range(4)
_PEEPHOLES = {_INPUT: 0, _OUTPUT: 1, _FORGET: 2}
_UPDATE, _RESET, _NEW = range(3)


@dataclass(frozen=True)
class UnitPlace:
    """One unit of one sequence, in one step.

    Attributes
    ----------
    row, unit
        Which.
    now, then
        Where the state before the step is, and where that after it goes.
    sums
        Of the gates of the group, ``place`` says where the one of each gate is.
    product
        What the input contributes to a gate.
    active
        Whether the sequence has the step; None where all have all.
    """

    r: Recurrence
    tensors: RecurrentTensors
    scratch: RecurrentScratch
    row: Expr
    unit: Expr
    now: Expr
    then: Expr
    sums: tirx.Var
    place: Callable[[int], Expr]
    product: Callable[[int], Expr]
    active: Expr | None

    def gate(self, g: int) -> Expr:
        """The sum of a gate, or what has been made of it."""
        return load(self.sums, self.place(g))

    def keep(self, g: int, value: Expr) -> tirx.Stmt:
        """Remember a value in the place of a gate."""
        return store(self.sums, [self.place(g)], value)

    def activated(self, g: int, function: CellActivation, value: Expr) -> list[tirx.Stmt]:
        """Make of a gate the function of a value, which is clipped before."""
        clipped = self.keep(g, _clip(value, self.r))
        return [clipped, self.keep(g, activate(function, self.gate(g)))]

    @property
    def before(self) -> Expr:
        """The state before the step."""
        return load(self.scratch.h, self.now, self.row, self.unit)

    def finish(self, value: Expr) -> tirx.Stmt:
        """The state after the step, which is the old one where the sequence has ended."""
        kept = value if self.active is None else tirx.Select(self.active, value, self.before)
        return store(self.scratch.h, [self.then, self.row, self.unit], kept)


def _clip(value: Expr, r: Recurrence) -> Expr:
    if not r.clip:
        return value
    low, high = (tirx.const(limit, r.dtype) for limit in (-r.clip, r.clip))
    above = tirx.Select(value < low, low, value)
    return tirx.Select(value > high, high, above)


def update_state(group: GateGroup, at: UnitPlace) -> list[tirx.Stmt]:
    """The statements that make the new state, or what the next group of gates needs for it."""
    if at.r.cell == LSTM:
        return _lstm(at)
    if at.r.cell != GRU:
        return [*at.activated(0, at.r.activations[0], at.gate(0)), at.finish(at.gate(0))]
    if at.r.reset_after:
        return _gru_reset_after(at)
    return _gru_gates(at) if _NEW not in group.gates else _gru_new(at)


def _lstm(at: UnitPlace) -> list[tirx.Stmt]:
    f, g, k = at.r.activations
    assert at.scratch.c is not None
    cell = load(at.scratch.c, at.row, at.unit)
    one = tirx.const(1.0, at.r.dtype)
    forget = (
        [at.keep(_FORGET, one - at.gate(_INPUT))]
        if at.r.coupled
        else at.activated(_FORGET, f, _peep(at, _FORGET, cell))
    )
    made = at.gate(_FORGET) * cell + at.gate(_INPUT) * at.gate(_CELL)
    kept = at.gate(_CELL) if at.active is None else tirx.Select(at.active, at.gate(_CELL), cell)
    return [
        *at.activated(_INPUT, f, _peep(at, _INPUT, cell)),
        *forget,
        *at.activated(_CELL, g, at.gate(_CELL)),
        at.keep(_CELL, made),
        *at.activated(_OUTPUT, f, _peep(at, _OUTPUT, at.gate(_CELL))),
        at.finish(at.gate(_OUTPUT) * activate(k, at.gate(_CELL))),
        store(at.scratch.c, [at.row, at.unit], kept),
    ]


def _peep(at: UnitPlace, g: int, cell: Expr) -> Expr:
    """The sum of a gate, with what it sees of the cell."""
    if at.tensors.peepholes is None:
        return at.gate(g)
    return at.gate(g) + load(at.tensors.peepholes, _PEEPHOLES[g], at.unit) * cell


def _gru_reset_after(at: UnitPlace) -> list[tirx.Stmt]:
    f, g = at.r.activations
    new = at.product(_NEW) + at.gate(_RESET) * at.gate(_NEW)
    return [
        *at.activated(_UPDATE, f, at.gate(_UPDATE)),
        *at.activated(_RESET, f, at.gate(_RESET)),
        *at.activated(_NEW, g, new),
        at.finish(_mixed(at, at.gate(_UPDATE))),
    ]


def _gru_gates(at: UnitPlace) -> list[tirx.Stmt]:
    f, _ = at.r.activations
    assert at.scratch.c is not None and at.scratch.reset is not None
    place = [at.row, at.unit]
    return [
        *at.activated(_UPDATE, f, at.gate(_UPDATE)),
        *at.activated(_RESET, f, at.gate(_RESET)),
        store(at.scratch.c, place, at.gate(_UPDATE)),
        store(at.scratch.reset, place, at.gate(_RESET) * at.before),
    ]


def _gru_new(at: UnitPlace) -> list[tirx.Stmt]:
    assert at.scratch.c is not None
    update = load(at.scratch.c, at.row, at.unit)
    new = at.activated(_NEW, at.r.activations[1], at.gate(_NEW))
    return [*new, at.finish(_mixed(at, update))]


def _mixed(at: UnitPlace, update: Expr) -> Expr:
    one = tirx.const(1.0, at.r.dtype)
    return (one - update) * at.gate(_NEW) + update * at.before
