"""Asking for the data of input channels to come, while a convolution is at an earlier one.

Problem
    A tile of a convolution reads a few values of each input channel, and those of one channel stand
    kilobytes from those of the next: no prefetcher of a core follows that. Data that are in no near
    cache are waited for, channel by channel.

Answer
    Each step of the loop over channels asks for what the tile will read of a channel some steps
    later; behind the last one, for the first channels of the tile that follows. Tiles of few steps
    ask for nothing.

        ahead = AHEAD / cycles of a step, rounded up: steps between asking and reading

    Tiles go along a row, and rows downwards. Of the rows of a window most were read for the row of
    results above, and are in the second-level cache: only what that one did not read is asked for
    (`_fresh`). Of each such row the tile's last line is asked for, and those that lie 64 bytes
    before one another in front of it; the line in which a tile begins was the last one of the tile
    to its left.

Where data are asked for that are near already, as in all but the first of several blocks of
channels for one row, that costs an instruction each and nothing else: accumulators are in memory
that nothing else can touch (`compilation`).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.blocks import bindings, extent_of, position, substitute, uses
from tvm_hetero.kernels.tir.prefetch import LINE, begin_with, prefetch_line

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.convolution.tiling import ConvolutionTile
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Cycles that memory beyond the second-level cache may take to answer.
AHEAD = 300
# How many times as many steps a tile must have.
_LEAST = 2
_VALUES = LINE // 4
# Where rows are not joined, what a block accumulates is [image, block, row, column, channel].
_ROW, _ROWS_RANK = 2, 5

_Constants = tuple[int, ...]


def prefetch_channels(
    sch: Schedule, acc: SBlockRV, steps: LoopRV, tile: ConvolutionTile, unit: VectorUnit
) -> None:
    """Ask for the data of later channels, a little in each step of the reduction.

    Parameters
    ----------
    sch
        The schedule; the block's loops are those it ends with.
    acc
        The block that accumulates; its last two reads are the data and the weights.
    steps
        The outermost loop of its reduction.
    tile
        The register tile.
    unit
        The vector unit.
    """
    loops = sch.get_loops(acc)
    at = position(sch, loops, steps)
    window = _reduction_below(sch, acc, at)
    inner = math.prod(extent_of(sch, loops[i]) for i in window)
    cycles = tile.vectors * tile.scalars / unit.fmas * inner
    ahead = math.ceil(AHEAD / cycles)
    if _LEAST * ahead > extent_of(sch, steps):
        return
    begin = _later(sch, loops, at, ahead)
    asks = []
    for constants, columns in _fresh(sch, acc, window):
        values = [*begin, *(tirx.const(0, "int64") for _ in loops[at + 1 :])]
        for i, constant in zip(window, constants, strict=True):
            values[i] = tirx.const(constant, "int64")
        asks += _row(sch, acc, values, _joined(columns, tile.points(unit)))
    begin_with(sch, steps, asks)


def _reduction_below(sch: Schedule, acc: SBlockRV, at: int) -> list[int]:
    """Which loops inside of the steps belong to the reduction."""
    reduced = [
        value
        for v, value in zip(sch.get(acc).iter_vars, bindings(sch, acc), strict=True)
        if v.iter_type == tirx.IterVar.CommReduce
    ]
    loops = sch.get_loops(acc)
    names = [sch.get(loop).loop_var for loop in loops]
    below = range(at + 1, len(loops))
    return [i for i in below if any(uses(value, names[i]) for value in reduced)]


def _later(sch: Schedule, loops: list[LoopRV], at: int, steps: int) -> list[Any]:
    """Variables of the loops down to the steps, some steps later: maybe in the next tile."""
    names = [sch.get(loop).loop_var for loop in loops[: at + 1]]
    extent = extent_of(sch, loops[at])
    later = names[at] + steps
    over = tirx.Select(later >= extent, tirx.const(1, "int64"), tirx.const(0, "int64"))
    return [*names[: at - 1], names[at - 1] + over, later - over * extent]


def _fresh(sch: Schedule, acc: SBlockRV, window: list[int]) -> list[tuple[_Constants, _Constants]]:
    """The steps of the window that read rows of data which the row above did not read.

    Returns
    -------
    list of (tuple of int, tuple of int)
        For each such row what the loops of the window are when it is first read, and how many
        columns further each step reads it for the same point.
    """
    extents = [extent_of(sch, sch.get_loops(acc)[i]) for i in window]
    above: set[_Constants] = set()
    found: dict[_Constants, list[tuple[int, _Constants]]] = {}
    for constants in itertools.product(*map(range, extents)):
        *row, _ = _read(sch, acc, window, constants, 0)
        above.add(tuple(row))
        *row, column = _read(sch, acc, window, constants, 1)
        found.setdefault(tuple(row), []).append((column, constants))
    joined = _data_rank(sch, acc) != _ROWS_RANK
    return [
        (min(steps)[1], tuple(sorted({column - min(steps)[0] for column, _ in steps})))
        for row, steps in sorted(found.items())
        if joined or row not in above
    ]


def _data_rank(sch: Schedule, acc: SBlockRV) -> int:
    kinds = [v.iter_type for v in sch.get(acc).iter_vars]
    return sum(kind == tirx.IterVar.DataPar for kind in kinds)


def _read(
    sch: Schedule, acc: SBlockRV, window: list[int], constants: _Constants, row: int
) -> _Constants:
    """Where in the data a step of the window reads for the first point of a row of results."""
    names = [sch.get(loop).loop_var for loop in sch.get_loops(acc)]
    values = [tirx.const(0, "int64") for _ in names]
    for i, constant in zip(window, constants, strict=True):
        values[i] = tirx.const(constant, "int64")
    at = substitute(names, bindings(sch, acc), values)
    if _data_rank(sch, acc) == _ROWS_RANK:
        at[_ROW] = tirx.const(row, "int64")
    return tuple(int(i) for i in _data_at(sch, acc, at))


def _joined(columns: _Constants, points: int) -> list[tuple[int, int]]:
    """Where a row is read: spans of columns, which a dilated window has several of.

    Between them stands what other tiles read. To ask for it cost 100 instructions a step for
    windows of three columns 1,000 apart, and nine tenths of the time.
    """
    spans: list[tuple[int, int]] = []
    for column in columns:
        if spans and column <= spans[-1][1]:
            spans[-1] = spans[-1][0], column + points
        else:
            spans.append((column, column + points))
    return spans


def _row(
    sch: Schedule, acc: SBlockRV, values: list[Any], spans: list[tuple[int, int]]
) -> list[tirx.Stmt]:
    """Ask for the lines in which spans of a row of data stand, but for the first of each."""
    names = [sch.get(loop).loop_var for loop in sch.get_loops(acc)]
    at = substitute(names, bindings(sch, acc), values)
    points = _data_rank(sch, acc) - 2
    asks = []
    for first, end in spans:
        for offset in range(end - 1, min(first, end - 2), -_VALUES):
            place = [*at[:points], at[points] + offset, *at[points + 1 :]]
            asks.append(prefetch_line(sch.get(acc).reads[-2].source, _data_at(sch, acc, place)))
    return asks


def _data_at(sch: Schedule, acc: SBlockRV, values: list[Any]) -> list[Any]:
    """The indices of the data for values of the block's iterators."""
    iterators = [v.var for v in sch.get(acc).iter_vars]
    return substitute(iterators, [r.min for r in sch.get(acc).reads[-2].region], values)
