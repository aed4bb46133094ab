"""Asking for the next block of weights while this one is used.

Problem
    Tiles read a block of weights one after the other, from the second-level cache all but the
    first. That one reads it from beyond, and a core's own prefetcher does not follow it at the
    pace of the arithmetic: where a block meets few tiles, that is much of the time.

Answer
    Each step of the reduction asks for a line or some of the *next* block; the tiles of a block
    together ask for all of it. The tiles being ``T``, and a step using ``s`` bytes of a block,
    tile ``t`` asks for the lines ``t p ... t p + p - 1`` of the bytes that this step will use of
    the next block, with ``p = s / 64 T`` rounded up. Where a step has fewer lines than there are
    tiles, several steps are taken together.

    Behind the last block lies nothing; to ask for it does no harm.

Weights lie as `packing` has them: blocks one after the other, and in a block the steps of the
reduction in their order. Where a tile takes only a part of a block's channels, the parts of one
block together ask for the next.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx

from tvm_hetero.kernels.tir.blocks import bindings, extent_of, position, substitute, uses
from tvm_hetero.kernels.tir.prefetch import LINE, OUTER, begin_with, prefetch_line

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV


def prefetch_next_block(
    sch: Schedule, acc: SBlockRV, steps: LoopRV, read: int, axis: int = 0
) -> None:
    """Ask for the next block of weights, a little in each step of the reduction.

    One of the last things that a schedule does: the loops are those it ends with.

    Parameters
    ----------
    sch
        The schedule.
    acc
        The block that accumulates.
    steps
        The outermost loop of its reduction.
    read
        Which of its reads are the weights.
    axis
        Which dimension of these are the blocks.
    """
    weights = sch.get(acc).reads[read].source
    extents = [int(e) for e in weights.shape]
    blocks, *tiles = _around(sch, acc, steps, read, axis)
    parts = extent_of(sch, blocks) // extents[axis]
    count = parts * math.prod(extent_of(sch, loop) for loop in tiles)
    each = int(tvm_ffi.dtype(str(weights.dtype)).bits) // 8
    used = math.prod(extents[axis + 1 :]) * each // extent_of(sch, steps)
    together = _together(extent_of(sch, steps), used, count * LINE)
    if together > 1:
        steps, _ = sch.split(steps, [None, together])
    lines = -(-together * used // (count * LINE))
    tile: Any = sch.get(blocks).loop_var % parts
    for loop in tiles:
        tile = tile * extent_of(sch, loop) + sch.get(loop).loop_var
    start = _begin(sch, acc, steps, read)
    start[axis] += 1
    places = [(tile * lines + line) * (LINE // each) for line in range(lines)]
    asks = [prefetch_line(weights, [*start[:-1], place], OUTER) for place in places]
    begin_with(sch, steps, asks)


def _around(sch: Schedule, acc: SBlockRV, steps: LoopRV, read: int, axis: int) -> list[LoopRV]:
    """The loop that decides which block of weights is read, and those between it and the steps."""
    loops = sch.get_loops(acc)
    outer = loops[: position(sch, loops, steps)]
    (block,) = substitute(
        [v.var for v in sch.get(acc).iter_vars],
        [sch.get(acc).reads[read].region[axis].min],
        bindings(sch, acc),
    )
    last = max(i for i, loop in enumerate(outer) if uses(block, sch.get(loop).loop_var))
    return outer[last:]


def _begin(sch: Schedule, acc: SBlockRV, steps: LoopRV, read: int) -> list[Any]:
    """Where what a step reads of the weights begins, in variables of the loops around it."""
    loops = sch.get_loops(acc)
    names = [sch.get(loop).loop_var for loop in loops]
    at = position(sch, loops, steps)
    start = [*names[: at + 1], *(tirx.const(0, "int64") for _ in names[at + 1 :])]
    values = substitute(names, bindings(sch, acc), start)
    iters = [v.var for v in sch.get(acc).iter_vars]
    return substitute(iters, [r.min for r in sch.get(acc).reads[read].region], values)


def _together(steps: int, used: int, least: int) -> int:
    """How many steps, of ``used`` bytes each, ask together: a divisor, for not more than a line."""
    divisors = (d for d in range(1, steps + 1) if steps % d == 0)
    return max(d for d in divisors if d == 1 or d * used <= least)
