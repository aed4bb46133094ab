"""The schedule of a packed multiply-accumulate (conv2d, dense) on a CPU.

Loop order, from the outside: images, blocks of channels, parts of a block, rows, tiles of
points, [reduction], tile. The weights of one block stay in the second-level cache while all
rows pass; the accumulators of a tile stay in registers for the whole reduction, and everything
that was fused behind (bias, residual, relu) happens when a tile is stored.

    which loop is lanes, how large a tile      `tiling.plan_tile`, from the target's vector unit
    padding, gathering of strided columns      `_schedule_stage`
    the tile                                   `_tile_channels`, `_tile_points`
    unpacking and epilogue                     `_join_epilogue`, `_attach_epilogue`
    several cores                              `_parallel`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from .roles import ACCUMULATE, GATHER, PAD, blocks_of, find_role, role_of
from .tiling import Lanes, Tile, plan_tile

if TYPE_CHECKING:
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from .facts import VectorUnit


# Dimensions of the accumulators: a matrix [block, row, channel], images with rows joined
# [image, block, point, channel], or not [image, block, row, column, channel].
_DENSE_RANK, _POINTWISE_RANK = 3, 4


@dataclass(frozen=True)
class _Nest:
    """The loops of the accumulation; ``outer`` is [image,] block [, row]."""

    outer: list[LoopRV]
    points: LoopRV
    block: LoopRV
    reduction: list[LoopRV]


def schedule_packed(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it is no packed kernel.

    Raises
    ------
    RuntimeError, ValueError
        Where a step does not apply; the schedule is then half done and to be dropped.
    """
    acc = find_role(sch, ACCUMULATE)
    if acc is None:
        return False
    tile = _plan(sch, acc, unit)
    last = _join_epilogue(sch, acc)
    for stage in (b for b in blocks_of(sch) if role_of(sch, b) in (PAD, GATHER)):
        _schedule_stage(sch, stage, cores)
    if tile.lanes == "channels":
        outer, at, reduction = _tile_channels(sch, acc, tile, unit)
    else:
        outer, at, reduction = _tile_points(sch, acc, tile, unit)
    _parallel(sch, outer, cores)
    if len(reduction) > 1:
        sch.unroll(reduction[-1])
    sch.decompose_reduction(acc, reduction[0])
    _attach_epilogue(sch, last, at, tile, unit, _contiguous(sch, acc))
    sch.set_scope(acc, 0, "local")
    return True


def _extent(sch: s_tir.Schedule, loop: LoopRV) -> int:
    return int(sch.get(loop).extent)


def _rank(sch: s_tir.Schedule, block: SBlockRV) -> int:
    """Dimensions of what the block computes."""
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    return sum(kind == tirx.IterVar.DataPar for kind in kinds)


def _nest(sch: s_tir.Schedule, acc: SBlockRV) -> _Nest:
    split = _rank(sch, acc)
    loops = sch.get_loops(acc)
    return _Nest(loops[: split - 2], loops[split - 2], loops[split - 1], loops[split:])


def _contiguous(sch: s_tir.Schedule, acc: SBlockRV) -> Lanes:
    """What lies side by side in the output: columns of an image, channels of a matrix."""
    return "channels" if _rank(sch, acc) == _DENSE_RANK else "points"


def _plan(sch: s_tir.Schedule, acc: SBlockRV, unit: VectorUnit) -> Tile:
    nest = _nest(sch, acc)
    depth = math.prod(_extent(sch, loop) for loop in nest.reduction)
    block, points = _extent(sch, nest.block), _extent(sch, nest.points)
    tile = plan_tile(block, points, depth, unit, _contiguous(sch, acc))
    if tile is None:
        raise ValueError(f"no register tile of {unit.lanes} lanes divides this kernel")
    return tile


def _join_epilogue(sch: s_tir.Schedule, acc: SBlockRV) -> SBlockRV:
    """Inline what follows the accumulation into one last block, rows joined as in the tiles."""
    after = sch.get_consumers(acc)
    while sch.get_consumers(after[0]):
        sch.compute_inline(after[0])
        after = sch.get_consumers(acc)
    last = after[0]
    extents = [int(v.dom.extent) for v in sch.get(last).iter_vars]
    joined = _joined_dims(_rank(sch, acc), len(extents))
    if joined:
        lo, hi = joined
        sch.transform_block_layout(
            last, _index_map(len(extents), lambda v: _fuse_dims(v, extents, lo, hi))
        )
    return last


def _joined_dims(acc_rank: int, out_rank: int) -> tuple[int, int] | None:
    """The range of output dimensions that the accumulation has as one loop of points."""
    if acc_rank == _POINTWISE_RANK and out_rank == 4:
        return 2, 4  # pointwise conv2d: [b, o, p, i] unpacked to [b, c, y, x]
    if acc_rank == _DENSE_RANK and out_rank > 2:
        return 0, out_rank - 1  # dense: [o, m, i] unpacked to [..., c]
    return None


def _fuse_dims(index: Sequence[Any], extents: list[int], lo: int, hi: int) -> list[Any]:
    fused: Any = index[lo]
    for i, extent in zip(index[lo + 1 : hi], extents[lo + 1 : hi], strict=True):
        fused = fused * extent + i
    return [*index[:lo], fused, *index[hi:]]


def _index_map(rank: int, function: Any) -> tirx.IndexMap:
    return tirx.IndexMap.from_func(lambda *v: function(v), ndim=rank, index_dtype="int64")


def _schedule_stage(sch: s_tir.Schedule, stage: SBlockRV, cores: int) -> None:
    """Copy without a condition for each value: fill a channel with zeros, then its inside."""
    loops = sch.get_loops(stage)
    if role_of(sch, stage) == PAD:
        sch.decompose_padding(stage, loops[min(2, len(loops) - 1)])
    _parallel(sch, sch.get_loops(stage)[:2], cores)


def _tile_channels(
    sch: s_tir.Schedule, acc: SBlockRV, tile: Tile, unit: VectorUnit
) -> tuple[list[LoopRV], LoopRV, list[LoopRV]]:
    """Lanes are output channels, the data are broadcast."""
    _split_blocks(sch, acc, tile.vectors * unit.lanes)
    nest = _nest(sch, acc)
    at, scalars = sch.split(nest.points, [None, tile.scalars])
    vectors, lanes = sch.split(nest.block, [None, unit.lanes])
    return _order(sch, nest, at, scalars, vectors, lanes)


def _tile_points(
    sch: s_tir.Schedule, acc: SBlockRV, tile: Tile, unit: VectorUnit
) -> tuple[list[LoopRV], LoopRV, list[LoopRV]]:
    """Lanes are points, the weights are broadcast; accumulators stand as the output does."""
    _split_blocks(sch, acc, tile.scalars)
    rank = _rank(sch, acc)
    sch.transform_layout(acc, ("write", 0), _index_map(rank, lambda v: [*v[:-2], v[-1], v[-2]]))
    nest = _nest(sch, acc)
    at, vectors, lanes = sch.split(nest.points, [None, tile.vectors, unit.lanes])
    return _order(sch, nest, at, nest.block, vectors, lanes)


def _split_blocks(sch: s_tir.Schedule, acc: SBlockRV, part: int) -> None:
    """Regroup the accumulators by ``part`` channels, a divisor of the block of the weights.

    Splitting the loop alone would do where channels are not padded; where they are,
    `reverse_compute_at` does not see that one part needs only its own channels, and stores
    the whole block from a tile that holds a part of it (wrong results, TVM 0.27).
    """
    nest = _nest(sch, acc)
    block = _extent(sch, nest.block)
    if part == block:
        return
    rank, at = _rank(sch, acc), _block_dim(nest)

    def regroup(v: Sequence[Any]) -> list[Any]:
        inner = v[rank - 1]
        parts = [*v[:at], v[at] * (block // part) + inner // part, *v[at + 1 : rank - 1]]
        return [*parts, inner % part, *v[rank:]]

    iters = len(sch.get(acc).iter_vars)
    sch.transform_block_layout(acc, _index_map(iters, regroup))
    sch.transform_layout(acc, ("write", 0), _index_map(rank, regroup))


def _block_dim(nest: _Nest) -> int:
    return 0 if len(nest.outer) == 1 else 1  # [block] or [image, block, ...rows]


def _order(
    sch: s_tir.Schedule, nest: _Nest, at: LoopRV, scalars: LoopRV, vectors: LoopRV, lanes: LoopRV
) -> tuple[list[LoopRV], LoopRV, list[LoopRV]]:
    outer = [*nest.outer, at]
    sch.reorder(*outer, *nest.reduction, scalars, vectors, lanes)
    sch.vectorize(lanes)
    sch.unroll(vectors)
    sch.unroll(scalars)
    return outer, at, nest.reduction


def _attach_epilogue(
    sch: s_tir.Schedule, last: SBlockRV, at: LoopRV, tile: Tile, unit: VectorUnit, contiguous: Lanes
) -> None:
    """Store each tile when it is done, with whole vectors where lanes and output agree.

    A tile that padding makes overhang the output is stored behind a condition for each value;
    TVM takes a vector store behind such a condition apart, so it stays a plain loop.
    """
    sch.reverse_compute_at(last, at)
    inner = sch.get_loops(last)[-1]
    width = tile.vectors * unit.lanes
    if tile.lanes != contiguous or _extent(sch, inner) != width:
        return
    if int(sch.get(last).iter_vars[-1].dom.extent) % width:
        return
    _, lanes = sch.split(inner, [None, unit.lanes])
    sch.vectorize(lanes)


def _parallel(sch: s_tir.Schedule, loops: Sequence[LoopRV], cores: int) -> None:
    """Share the outermost loop that is long enough among the cores."""
    if cores < 2:
        return
    enough = [loop for loop in loops if _extent(sch, loop) >= 4 * cores]
    chosen = enough[0] if enough else max(loops, key=lambda loop: _extent(sch, loop))
    if _extent(sch, chosen) > 1:
        sch.parallel(chosen)
