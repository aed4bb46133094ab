"""The schedule of a pooling that `pool` built: whole rows in registers, or a few rows in memory.

For each row of each image the stages follow one another: rows of a window joined, streams
of columns taken apart, streams joined, what exists stored together with what was fused behind.
Which of the two schedules it is shows in the kernel: in registers the columns of the window's
stage stand in two dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_hetero.kernels.rowwise.pool import ROWS, STREAMS, WINDOW
from tvm_hetero.kernels.tir.block_roles import blocks_of, find_role, role_of
from tvm_hetero.kernels.tir.blocks import extent_of, inline_epilogue
from tvm_hetero.kernels.tir.multicore import share

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Of 1, 4 and 8 rows at a time 4 was best or near it on 28, 55 and 112 columns.
_ROWS_TOGETHER = 4
_LONGEST_VECTOR = 64
_RANK_IN_REGISTERS = 5


def schedule_pool(sch: Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it is no pooling of `make_pool2d`."""
    window = find_role(sch, WINDOW)
    if window is None:
        return False
    last = inline_epilogue(sch, window)
    *outer, y, x = sch.get_loops(last)
    before = [b for b in blocks_of(sch) if role_of(sch, b) in (ROWS, STREAMS)]
    if len(sch.get_loops(window)) == _RANK_IN_REGISTERS:
        _in_registers(sch, before, window, y, unit)
        sch.vectorize(x)
    else:
        _in_memory(sch, before, window, y, x)
    share(sch, outer, cores)
    return True


def _in_registers(
    sch: Schedule, before: Sequence[SBlockRV], window: SBlockRV, row: LoopRV, unit: VectorUnit
) -> None:
    rows, streams = before
    sch.compute_at(window, row, preserve_unit_loops=True)
    columns = sch.fuse(*sch.get_loops(window)[-2:])
    if extent_of(sch, columns) > unit.lanes:
        vectors, columns = sch.split(columns, [None, unit.lanes])
        sch.unroll(vectors)
    sch.vectorize(columns)
    sch.compute_at(streams, row, preserve_unit_loops=True)
    for loop in sch.get_loops(streams)[-3:]:
        sch.unroll(loop)
    sch.compute_at(rows, row, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(rows)[-1])


def _in_memory(
    sch: Schedule, before: Sequence[SBlockRV], window: SBlockRV, row: LoopRV, column: LoopRV
) -> None:
    extent = extent_of(sch, row)
    together = max(d for d in range(1, _ROWS_TOGETHER + 1) if extent % d == 0)
    at, _ = sch.split(row, [None, together])
    _vectorize(sch, column)
    sch.compute_at(window, at, preserve_unit_loops=True)
    _vectorize(sch, sch.get_loops(window)[-1])
    for stage in reversed(before):
        sch.compute_at(stage, at, preserve_unit_loops=True)
        if role_of(sch, stage) == ROWS:
            _vectorize(sch, sch.get_loops(stage)[-1])
        else:
            sch.decompose_padding(stage, sch.get_loops(stage)[-2])


def _vectorize(sch: Schedule, loop: LoopRV) -> None:
    if extent_of(sch, loop) > _LONGEST_VECTOR:
        _, loop = sch.split(loop, [None, _LONGEST_VECTOR])
    sch.vectorize(loop)
