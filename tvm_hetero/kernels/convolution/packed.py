"""The schedule of a packed convolution on a CPU.

Loop order, from the outside: images, blocks of channels, parts of a block, rows, tiles of
points, [reduction], tile. The weights of one part stay in the cache while all rows pass; the
accumulators of a tile stay in registers for the whole reduction, and everything that was fused
behind (bias, residual, relu) happens when a tile is stored. Where all weights fit the
second-level cache, the data do not, and reading them again is more than what is written, rows (or
tiles, where rows are joined) are outside of the blocks (`_nearest_last`). Where there are several
images and the weights fit no cache, a block's weights are used for several images before the next
block's are read (`weights_once`).

    which loop is lanes, how large a tile      `tiling.plan_tile`, from the target's vector unit
    padding, gathering of strided columns      `stages`
    the tile                                   `_tile_channels`, `_tile_points`
    tiles that do not come out even            `tir.tail_tiles`
    unpacking and epilogue                     `_join_epilogue`, `_attach_epilogue`
    several cores                              `tir.multicore.share_longest`
    weights that fit no cache                  `weights_once`, `prefetch_blocks`
    data that do not                           `prefetch_channels`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm
from tvm import s_tir, tirx

from tvm_hetero.kernels.convolution.prefetch_channels import prefetch_channels
from tvm_hetero.kernels.convolution.stages import schedule_stages
from tvm_hetero.kernels.convolution.tiling import ConvolutionTile, plan_tile
from tvm_hetero.kernels.cpu.weights_once import weights_once
from tvm_hetero.kernels.tir.block_roles import (
    ACCUMULATE,
    find_role,
)
from tvm_hetero.kernels.tir.blocks import extent_of, inline_epilogue
from tvm_hetero.kernels.tir.multicore import share_longest
from tvm_hetero.kernels.tir.prefetch_blocks import prefetch_next_block
from tvm_hetero.kernels.tir.tail_tiles import overlap_tiles

if TYPE_CHECKING:
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit


# Dimensions of the accumulators where rows are joined, [image, block, point, channel]; else they
# are [image, block, row, column, channel].
_JOINED_RANK = 4
# Share of the second-level cache that all weights may take to be read again for each row, and that
# the data may take to be read again for each block.
_NEAR, _NEAR_DATA = 0.6, 0.7
# What a far line costs that is read in its turn, by one that is written out of turn.
_READ = 0.25
# Steps of a reduction without window that are unrolled: 2 and 4 gained 2 %, little more than noise.
_UNROLLED = 2


@dataclass(frozen=True)
class _PackedNest:
    """The loops of the accumulation; ``outer`` is image, block [, row]."""

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
    _require_real_parts(sch, acc, last, tile, unit)
    schedule_stages(sch, cores)
    points = extent_of(sch, _nest(sch, acc).points)
    arrange = _tile_channels if tile.lanes == "channels" else _tile_points
    nest, at = arrange(sch, acc, tile, unit)
    outer = _order_outer(sch, [*nest.outer, at], acc, unit)
    share_longest(sch, outer, cores)
    steps = _unroll(sch, nest.reduction)
    sch.decompose_reduction(acc, steps)
    _attach_epilogue(sch, last, outer[-1], tile, unit, points)
    sch.set_scope(acc, 0, "local")
    data, weights = _bytes_read(sch, acc)
    if data > unit.l2 / 2:
        prefetch_channels(sch, acc, steps, tile, unit)
    if weights > unit.l2 * _NEAR:
        prefetch_next_block(sch, acc, steps, -1)
    overlap_tiles(sch, at, points, tile.points(unit))
    return True


def _rank(sch: s_tir.Schedule, block: SBlockRV) -> int:
    """Dimensions of what the block computes."""
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    return sum(kind == tirx.IterVar.DataPar for kind in kinds)


def _nest(sch: s_tir.Schedule, acc: SBlockRV) -> _PackedNest:
    split = _rank(sch, acc)
    loops = sch.get_loops(acc)
    return _PackedNest(loops[: split - 2], loops[split - 2], loops[split - 1], loops[split:])


def _plan(sch: s_tir.Schedule, acc: SBlockRV, unit: VectorUnit) -> ConvolutionTile:
    nest = _nest(sch, acc)
    depth = math.prod(extent_of(sch, loop) for loop in nest.reduction)
    block, points = extent_of(sch, nest.block), extent_of(sch, nest.points)
    tile = plan_tile(block, points, depth, unit)
    if tile is None:
        raise ValueError(f"no register tile of {unit.lanes} lanes divides this kernel")
    return tile


def _require_real_parts(
    sch: s_tir.Schedule, acc: SBlockRV, last: SBlockRV, tile: ConvolutionTile, unit: VectorUnit
) -> None:
    """Refuse a kernel whose channels are all in the first of several parts of their only block, be
    it one a group.

    TVM 0.27 unpacks that part after each of them, from accumulators that are another part's: eight
    channels in a block of sixteen for vectors of eight (`gemm` has the same case).
    """
    part = tile.vectors * unit.lanes if tile.lanes == "channels" else tile.scalars
    channels = int(sch.get(last).iter_vars[1].dom.extent)
    blocks = int(sch.get(acc).iter_vars[1].dom.extent)
    if channels <= part * blocks and part < extent_of(sch, _nest(sch, acc).block):
        raise ValueError("whole parts of this kernel's blocks are padding")


def _join_epilogue(sch: s_tir.Schedule, acc: SBlockRV) -> SBlockRV:
    """Inline what follows the accumulation into one last block, rows joined as in the tiles."""
    last = inline_epilogue(sch, acc)
    if _rank(sch, acc) == _JOINED_RANK and len(sch.get(last).iter_vars) == 4:
        width = int(sch.get(last).iter_vars[-1].dom.extent)
        sch.transform_block_layout(last, _index_map(4, lambda v: [v[0], v[1], v[2] * width + v[3]]))
    return last


def _index_map(rank: int, function: Any) -> tirx.IndexMap:
    return tirx.IndexMap.from_func(lambda *v: function(v), ndim=rank, index_dtype="int64")


def _tile_channels(
    sch: s_tir.Schedule, acc: SBlockRV, tile: ConvolutionTile, unit: VectorUnit
) -> tuple[_PackedNest, LoopRV]:
    """Lanes are output channels, the data are broadcast."""
    _split_blocks(sch, acc, tile.vectors * unit.lanes)
    nest = _nest(sch, acc)
    at, scalars = sch.split(nest.points, [None, tile.scalars])
    vectors, lanes = sch.split(nest.block, [None, unit.lanes])
    _order(sch, nest, at, scalars, vectors, lanes)
    return nest, at


def _tile_points(
    sch: s_tir.Schedule, acc: SBlockRV, tile: ConvolutionTile, unit: VectorUnit
) -> tuple[_PackedNest, LoopRV]:
    """Lanes are points, the weights are broadcast; accumulators stand as the output does."""
    _split_blocks(sch, acc, tile.scalars)
    rank = _rank(sch, acc)
    sch.transform_layout(acc, ("write", 0), _index_map(rank, lambda v: [*v[:-2], v[-1], v[-2]]))
    nest = _nest(sch, acc)
    at, across = sch.split(nest.points, [None, tile.vectors * unit.lanes])
    vectors, lanes = sch.split(across, [None, unit.lanes])
    _order(sch, nest, at, nest.block, vectors, lanes)
    return nest, at


def _split_blocks(sch: s_tir.Schedule, acc: SBlockRV, part: int) -> None:
    """Regroup the accumulators by ``part`` channels, a divisor of the block of the weights.

    Splitting the loop alone would do where channels are not padded; where they are,
    `reverse_compute_at` does not see that one part needs only its own channels, and stores
    the whole block from a tile that holds a part of it (wrong results, TVM 0.27). The layout is
    set even where a block is one part: that simplifies how the epilogue reads the accumulators,
    and otherwise they are no compact array where channels are padded, which
    costs much of the speed.
    """
    rank, block = _rank(sch, acc), extent_of(sch, _nest(sch, acc).block)

    def regroup(v: Sequence[Any]) -> list[Any]:
        inner = v[rank - 1]
        parts = [v[0], v[1] * (block // part) + inner // part, *v[2 : rank - 1]]
        return [*parts, inner % part, *v[rank:]]

    if part != block:
        iters = len(sch.get(acc).iter_vars)
        sch.transform_block_layout(acc, _index_map(iters, regroup))
    sch.transform_layout(acc, ("write", 0), _index_map(rank, regroup))


def _order(
    sch: s_tir.Schedule,
    nest: _PackedNest,
    at: LoopRV,
    scalars: LoopRV,
    vectors: LoopRV,
    lanes: LoopRV,
) -> None:
    sch.reorder(*nest.outer, at, *nest.reduction, scalars, vectors, lanes)
    sch.vectorize(lanes)
    sch.unroll(vectors)
    sch.unroll(scalars)


def _order_outer(
    sch: s_tir.Schedule, outer: list[LoopRV], acc: SBlockRV, unit: VectorUnit
) -> list[LoopRV]:
    """The outer loops in the order that moves the least to the second-level cache."""
    data, weights = _bytes_read(sch, acc)
    if weights <= unit.l2 * _NEAR:
        # Rows are stored in their turn, tiles of joined rows are not.
        joined = _rank(sch, acc) == _JOINED_RANK
        scattered = _bytes(sch.get(acc).writes[0].source) if joined else 0
        return _nearest_last(sch, outer, data, scattered, unit)
    return weights_once(sch, outer, data, weights, unit)


def _nearest_last(
    sch: s_tir.Schedule, outer: list[LoopRV], data: int, scattered: int, unit: VectorUnit
) -> list[LoopRV]:
    """Take the blocks of channels inside the loop over rows (or tiles) where that saves traffic.

    Blocks outside, every block streams all data. Where the weights fit the second-level cache and
    the data do not, the data had better pass once. But then all channels of a tile are stored, a
    line here and a line there, and no prefetcher fetches these: so not where little would be read
    again and much is ``scattered`` (bytes).
    """
    image, block, first, *rest = outer
    again = (extent_of(sch, block) - 1) * data
    if data <= unit.l2 * _NEAR_DATA or _READ * again < scattered:
        return outer
    order = [image, first, block, *rest]
    sch.reorder(*order)
    return order


def _bytes_read(sch: s_tir.Schedule, acc: SBlockRV) -> tuple[int, int]:
    """Bytes of the data and of the weights."""
    data, weights = (_bytes(region.source) for region in sch.get(acc).reads[-2:])
    return data, weights


def _bytes(buffer: Any) -> int:
    return (
        math.prod(int(e) for e in buffer.shape) * tvm.runtime.DataType(str(buffer.dtype)).bits // 8
    )


def _unroll(sch: s_tir.Schedule, reduction: list[LoopRV]) -> LoopRV:
    """Unroll the columns of a window, or some steps where there is none; the outermost loop."""
    if len(reduction) > 1:
        sch.unroll(reduction[-1])
        return reduction[0]
    if extent_of(sch, reduction[0]) % _UNROLLED:
        return reduction[0]
    outer, inner = sch.split(reduction[0], [None, _UNROLLED])
    sch.unroll(inner)
    return outer


def _attach_epilogue(
    sch: s_tir.Schedule,
    last: SBlockRV,
    at: LoopRV,
    tile: ConvolutionTile,
    unit: VectorUnit,
    points: int,
) -> None:
    """Store each tile when it is done, with vectors along the points.

    Where channels are the lanes a vector is gathered value by value from the accumulators; what
    follows on it is one instruction all the same. With AVX-512 that gains where
    bias, residual and relu follow, most of all on 1x1 windows; with AVX2 and SSE nothing.

    Where the accumulators have more ``points`` than the output, because there are fewer than a
    vector's lanes, a store has a condition for each value. TVM takes vector stores behind such
    conditions apart, so it stays a plain loop.
    """
    sch.reverse_compute_at(last, at)
    if int(sch.get(last).iter_vars[-1].dom.extent) != points:
        return
    inner = sch.get_loops(last)[-1]
    if tile.lanes == "points":
        _, lanes = sch.split(inner, [None, unit.lanes])
        sch.vectorize(lanes)
    elif unit.partial and extent_of(sch, inner) > 1:
        sch.vectorize(inner)
