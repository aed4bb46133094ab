"""What all statements of a recurrent kernel know: its sizes, tensors, and where a step stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.cpu.byte_dots import PLAIN, ByteDot
from tvm_hetero.kernels.recurrent.layout import RecurrentLayout, layout_of
from tvm_hetero.kernels.recurrent.recurrence import Recurrence
from tvm_hetero.kernels.recurrent.tensors import (
    RecurrentScratch,
    RecurrentTensors,
    recurrent_scratch,
    recurrent_tensors,
)
from tvm_hetero.kernels.tir.statements import load, whole, wide

if TYPE_CHECKING:
    Expr = Any


@dataclass(frozen=True)
class RecurrentTile:
    """What is computed in registers: sequences by vectors of units, in sums of so many parts.

    ``dot`` says how bytes are multiplied, where weights are.
    """

    lanes: int = 1
    vectors: int = 1
    rows: int = 1
    splits: int = 1
    dot: ByteDot = PLAIN

    @property
    def units(self) -> int:
        """Units of a part."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class RecurrentFrame:
    """A recurrence, how it lies in memory, and what is computed at once.

    Attributes
    ----------
    sequences, first
        How many sequences the loops are over, and the first of them: not all of the batch where
        these are shared out.
    """

    r: Recurrence
    layout: RecurrentLayout
    tensors: RecurrentTensors
    scratch: RecurrentScratch
    tile: RecurrentTile
    sequences: int
    first: Expr = 0

    def sequence(self, row: Expr) -> Expr:
        """Which sequence of the tensors a row of the scratch memory is for."""
        return row if isinstance(self.first, int) else row + self.first

    def length(self, row: Expr) -> Expr | None:
        """Steps of a sequence; what is no number of steps is made one."""
        if self.tensors.lengths is None:
            return None
        given = wide(load(self.tensors.lengths, self.sequence(row)))
        return tirx.max(tirx.min(given, whole(self.r.steps)), whole(0))

    def time(self, s: Expr, row: Expr) -> tuple[Expr, Expr | None]:
        """Where a step of a sequence stands, and whether the sequence has it: None for always."""
        length = self.length(row)
        if length is None:
            return (whole(self.r.steps - 1) - s if self.r.reverse else s), None
        active = s < length
        return (tirx.Select(active, length - 1 - s, s) if self.r.reverse else s), active


def frame_of(r: Recurrence, tile: RecurrentTile) -> RecurrentFrame:
    """The frame of a kernel for all sequences, with fresh tensors."""
    layout = layout_of(r)
    gates = max(len(group.gates) for group in layout.groups)
    sums = gates * tile.units * tile.splits
    rows = min(tile.rows, r.batch)
    scratch = recurrent_scratch(r, layout, r.batch, rows, sums, lanes=tile.lanes)
    return RecurrentFrame(r, layout, recurrent_tensors(r, layout), scratch, tile, r.batch)
