"""Recurrences (`recurrent.kernel`) on a CPU: sums in vector registers, weights read in order.

One sequence reads each weight once a step, which is the memory's or a cache's pace; several read it
once for a tile of them. What is in registers is chosen so that a multiply-add waits for as few
loads as can be. A kernel whose weights no cache near a core holds shares its parts among the cores.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import tvm_ffi

from tvm_hetero.kernels.cpu.byte_dots import byte_dot
from tvm_hetero.kernels.recurrent.frame import RecurrentTile, frame_of
from tvm_hetero.kernels.recurrent.kernel import written_out
from tvm_hetero.kernels.recurrent.layout import RecurrentLayout, layout_of
from tvm_hetero.kernels.recurrent.recurrence import Recurrence
from tvm_hetero.kernels.recurrent.steps import RecurrentLoops

if TYPE_CHECKING:
    from tvm import tirx

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Multiply-adds of one register that follow one another, each waiting for the last.
_LATENCY = 4
# Sums that hide that.
_ENOUGH = 8
# Bytes of weights from which a fork and join in each step is worth its time.
_SHARED = 1 << 19


def recurrence_on_cpu(r: Recurrence, unit: VectorUnit, cores: int) -> tirx.PrimFunc:
    """The kernel for a vector unit; where it pays, parts of the units are shared among cores."""
    layout = layout_of(r)
    bits = int(tvm_ffi.dtype(r.dtype).bits)
    shared = cores > 1 and layout.weights * bits // 8 >= _SHARED
    return written_out(frame_of(r, tile_of(r, layout, unit)), RecurrentLoops(shared))


def tile_of(r: Recurrence, layout: RecurrentLayout, unit: VectorUnit) -> RecurrentTile:
    """What is computed in registers at once."""
    lanes = min(layout.block, unit.lanes_of(int(tvm_ffi.dtype(r.dtype).bits)))
    gates = max(len(group.gates) for group in layout.groups)
    tiles = [
        (v, -(-r.batch // passes))
        for v, passes in itertools.product((1, 2, 4, 8), range(1, r.batch + 1))
        if layout.block % (v * lanes) == 0
    ]
    v, rows = min(tiles, key=lambda tile: _cycles(r, gates, tile[0], tile[1], unit))
    sums = gates * v * rows
    splits = 2 if sums < _ENOUGH and layout.depth % 2 == 0 else 1
    return RecurrentTile(lanes, v, rows, splits, byte_dot(unit, lanes))


def _cycles(
    r: Recurrence, gates: int, v: int, rows: int, unit: VectorUnit
) -> tuple[bool, float, int]:
    """Whether there are too few registers; cycles for a unit of the state and a vector; vectors.

    Weights that several sequences use stand in registers too, and so do the states.
    """
    beside = rows + gates * v if rows > 1 else 2
    full, rest = divmod(r.batch, rows)

    def cycles(count: int) -> float:
        sums = gates * v * count
        return max(sums / unit.fmas, (gates * v + count) / unit.loads, _LATENCY)

    total = (full * cycles(rows) + (cycles(rest) if rest else 0.0)) / v
    return gates * v * rows + beside > unit.registers, total, v
