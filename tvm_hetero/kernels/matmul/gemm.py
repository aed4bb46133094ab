"""The schedule of a matrix product (`product`) on a CPU.

Loop order, from the outside: matrices, parts of a block of columns, tiles of rows, [reduction],
tile. The columns of one part stay in the first two caches while all rows pass; accumulators
stay in registers for the whole reduction; what was fused behind happens when a tile is stored.
Where several matrices meet the same constants, one part of these is used for several of them
before the next one is read (`weights_once`).

    the tile                         `product_tiles.product_tile`, from the target's facts
    a constant block wider than it   `_split_blocks`
    packing at run time              `pack_left` before everything, `_pack_right` for each part
    unpacking and epilogue           `join_epilogue`, `store_tile`
    several cores                    `_parallel`
    weights from main memory         `prefetch`, `prefetch_blocks`
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx

from tvm_hetero.kernels.cpu.weights_once import weights_once
from tvm_hetero.kernels.matmul.product_tiles import Extents, ProductTile, product_tile
from tvm_hetero.kernels.tir.block_roles import LEFT, MATRICES, PRODUCT, RIGHT, find_role
from tvm_hetero.kernels.tir.blocks import extent_of, index_map, inline_epilogue, uses
from tvm_hetero.kernels.tir.prefetch import ALL, OUTER, prefetch
from tvm_hetero.kernels.tir.prefetch_blocks import prefetch_next_block

if TYPE_CHECKING:
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit


_GRAINS = 4
# Rows that use weights of so many bytes as fast as the memory brings them.
_FEW, _WIDE = 4, 4
# Steps of the reduction that are packed together, so that a line of the cache is used up at once.
_PACKED_TOGETHER = 16
# Bytes between neighbours from which on many share a set of the first-level cache.
_COLLIDING = 2048
# Cycles of work that are worth waking another core for (about 15 us, five times what a fork and a
# join cost, `tir.multicore`; set by hand, not swept), and values of the left side whose packing is.
WORTH_SHARING = 60_000
_LEFT_WORTH_SHARING = 1 << 16


def schedule_gemm(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it is no matrix product.

    Raises
    ------
    RuntimeError, ValueError
        Where a step does not apply; the schedule is then half done and to be dropped.
    """
    acc = find_role(sch, PRODUCT)
    if acc is None:
        return False
    left, right = find_role(sch, LEFT), find_role(sch, RIGHT)
    last = join_epilogue(sch, acc)
    tile = _plan(sch, acc, last, unit)
    if left is not None:
        pack_left(sch, left, tile.rows, cores)
    _split_blocks(sch, acc, tile.vectors * unit.lanes)
    z, part, m, i, k = sch.get_loops(acc)
    at, rows = sch.split(m, [None, tile.rows])
    matrices, passes = extent_of(sch, z), extent_of(sch, at)
    vectors, lanes = sch.split(i, [None, unit.lanes])
    sch.reorder(z, part, at, k, rows, vectors, lanes)
    sch.vectorize(lanes)
    sch.unroll(vectors)
    sch.unroll(rows)
    outer = [z, part, at] if right is not None else _order_outer(sch, acc, [z, part, at], unit)
    at = _parallel(sch, outer, matrices, right, tile, unit, cores)
    sch.decompose_reduction(acc, k)
    store_tile(sch, last, at, tile, unit)
    sch.set_scope(acc, 0, "local")
    if right is None and _weights(sch, acc) > unit.l2 // 2:
        _ask_ahead(sch, acc, k, tile, passes, unit, cores)
    return True


def _ask_ahead(
    sch: s_tir.Schedule,
    acc: SBlockRV,
    k: LoopRV,
    tile: ProductTile,
    passes: int,
    unit: VectorUnit,
    cores: int,
) -> None:
    """Ask for weights in time: of the steps to come, or of the next block.

    Not where a prefetcher follows and few rows use weights as fast as they come (4096 x 4096 on one
    Zen 4 core, us with and without: 2 rows 4100, 2500; 4 rows 3200, 2600; 8 rows 3500, 5000); and
    of more rows such a core asks into the outer caches (8 rows 3100).
    """
    read = _index_of_right(sch, acc)
    each = _bytes(sch.get(acc).reads[read].source)
    rows = tile.rows * passes
    if unit.follows and (rows == 1 or (rows <= _FEW and each == _WIDE)):
        return
    if passes == 1:
        run, caches = tile.vectors * unit.lanes * each, OUTER if unit.follows else ALL
        prefetch(sch, k, acc, read, run, caches=caches, ahead=unit.ahead)
    elif cores == 1:  # on several, loops over blocks are joined with others
        prefetch_next_block(sch, acc, k, read, axis=1)


def _plan(sch: s_tir.Schedule, acc: SBlockRV, last: SBlockRV, unit: VectorUnit) -> ProductTile:
    _, _, points, block, depth = (extent_of(sch, loop) for loop in sch.get_loops(acc))
    _, rows, columns = (int(v.dom.extent) for v in sch.get(last).iter_vars)
    extents = Extents(rows, columns, depth, _bytes(_right_of(sch, acc).source))
    tile = product_tile(block, points, extents, unit)
    if tile is None:
        raise ValueError(f"no register tile of {unit.lanes} lanes divides this product")
    if columns <= tile.vectors * unit.lanes < block:
        # All columns are in the first of several parts: TVM 0.27 then unpacks it after each of
        # them, from accumulators that are another part's (four columns in a block of eight).
        raise ValueError("whole parts of this product's only block are padding")
    return tile


def join_epilogue(sch: s_tir.Schedule, acc: SBlockRV) -> SBlockRV:
    """Inline what follows into one last block over (matrix, row, column)."""
    last = inline_epilogue(sch, acc)
    extents = [int(v.dom.extent) for v in sch.get(last).iter_vars]
    matrices = int(sch.get(acc).annotations[MATRICES])

    def joined(*v: Any) -> list[Any]:
        z = _join(v[:matrices], extents[:matrices])
        return [z, _join(v[matrices:-1], extents[matrices:-1]), v[-1]]

    sch.transform_block_layout(last, index_map(len(extents), joined))
    return last


def _join(index: Sequence[Any], extents: Sequence[int]) -> Any:
    joined: Any = tirx.const(0, "int64")
    for i, extent in zip(index, extents, strict=True):
        joined = joined * extent + i
    return joined


def _split_blocks(sch: s_tir.Schedule, acc: SBlockRV, part: int) -> None:
    """Regroup the accumulators by ``part`` columns; `packed` says why a split will not do."""
    block = extent_of(sch, sch.get_loops(acc)[3])
    if part == block:
        return

    def regroup(z: Any, o: Any, m: Any, i: Any, *k: Any) -> list[Any]:
        return [z, o * (block // part) + i // part, m, i % part, *k]

    sch.transform_block_layout(acc, index_map(5, regroup))
    sch.transform_layout(acc, ("write", 0), index_map(4, regroup))


def _order_outer(
    sch: s_tir.Schedule, acc: SBlockRV, outer: list[LoopRV], unit: VectorUnit
) -> list[LoopRV]:
    """The loops over matrices, parts and tiles where the matrices share their right side."""
    right, weights = _right_of(sch, acc), _weights(sch, acc)
    matrix, own = sch.get(acc).iter_vars[0].var, sch.get(acc).writes[0].source
    if weights <= unit.l2 // 2 or any(uses(x.min, matrix) for x in right.region):
        return outer
    reads = [r.source for r in sch.get(acc).reads]
    left = next(b for b in reads if not b.same_as(own) and not b.same_as(right.source))
    data = _bytes(left) * math.prod(int(e) for e in left.shape)
    return weights_once(sch, outer, data, weights, unit)


def pack_left(sch: s_tir.Schedule, left: SBlockRV, rows: int, cores: int) -> None:
    """A panel [k, rows] for each tile of rows, read in the order in which the source stands."""

    def panels(z: Any, k: Any, m: Any) -> list[Any]:
        return [z, m // rows, k, m % rows]

    sch.transform_layout(left, ("write", 0), index_map(3, panels))
    z, k, m = sch.get_loops(left)
    values = math.prod(extent_of(sch, loop) for loop in (z, k, m))
    block = sch.get(left)
    if not uses(block.reads[0].region[-1].min, block.iter_vars[2].var):  # rows are not neighbours
        k, together = sch.split(k, [None, _PACKED_TOGETHER])
        sch.reorder(z, k, m, together)
    if cores > 1 and values >= _LEFT_WORTH_SHARING:
        sch.parallel(sch.fuse(z, k))


def _pack_right(sch: s_tir.Schedule, right: SBlockRV, unit: VectorUnit) -> None:
    """A panel [k, columns], whole vectors at a time (gathered where the columns lie apart)."""
    *_, k, i = sch.get_loops(right)
    if extent_of(sch, i) % unit.lanes:
        return
    blocks, lanes = sch.split(i, [None, unit.lanes])
    if _collide(sch, right):
        k, together = sch.split(k, [None, _PACKED_TOGETHER])
        sch.reorder(k, blocks, together, lanes)
    sch.vectorize(lanes)


def _collide(sch: s_tir.Schedule, right: SBlockRV) -> bool:
    """True where neighbouring columns lie so far apart that they share a few sets of the cache.

    Then each line is used up while it is there, as for a right side of 1024 x 1024 that stands the
    other way around.
    """
    block = sch.get(right)
    source, last = block.reads[0].source, block.reads[0].region[-1].min
    apart = not uses(last, block.iter_vars[3].var)
    return apart and int(source.shape[-1]) * _bytes(source) % _COLLIDING == 0


def _parallel(
    sch: s_tir.Schedule,
    loops: list[LoopRV],
    matrices: int,
    right: SBlockRV | None,
    tile: ProductTile,
    unit: VectorUnit,
    cores: int,
) -> LoopRV:
    """Share the outer loops among the cores; returns the loop over tiles.

    As few loops as make enough grains: matrices, parts, tiles of rows. One core packs a panel
    when it begins a part; where the rows of one part are shared, all panels are packed before.
    """
    counts = [extent_of(sch, loop) for loop in loops]
    cores = cores if matrices * tile.cycles >= WORTH_SHARING else 1
    grains = accumulate(counts, operator.mul)
    shared = next((n for n, g in enumerate(grains, 1) if g >= _GRAINS * cores), len(loops))
    if cores > 1:
        loop = loops[0] if shared == 1 else sch.fuse(*loops[:shared])
        sch.parallel(loop)
        loops = [loop] * shared + loops[shared:]
    _, part, *_, at = loops
    if right is not None:
        if shared < len(loops) or cores == 1:
            sch.compute_at(right, part)
        else:
            sch.parallel(sch.fuse(*sch.get_loops(right)[:2]))
        _pack_right(sch, right, unit)
    return at


def store_tile(
    sch: s_tir.Schedule, last: SBlockRV, at: LoopRV, tile: ProductTile, unit: VectorUnit
) -> None:
    """Store each tile when it is done, with whole vectors where no column is padding.

    TVM takes a vector store behind a condition on its lanes apart, so it stays a plain loop.
    """
    columns = int(sch.get(last).iter_vars[-1].dom.extent)
    sch.reverse_compute_at(last, at)
    inner = sch.get_loops(last)[-1]
    width = tile.vectors * unit.lanes
    if extent_of(sch, inner) == width and columns % width == 0:
        _, lanes = sch.split(inner, [None, unit.lanes])
        sch.vectorize(lanes)


def _right_of(sch: s_tir.Schedule, acc: SBlockRV) -> Any:
    """What the accumulation reads with the column in its indices, and does not write."""
    block = sch.get(acc)
    column, own = block.iter_vars[3].var, block.writes[0].source
    return next(
        r
        for r in block.reads
        if not r.source.same_as(own) and any(uses(x.min, column) for x in r.region)
    )


def _index_of_right(sch: s_tir.Schedule, acc: SBlockRV) -> int:
    right = _right_of(sch, acc)
    return next(n for n, r in enumerate(sch.get(acc).reads) if r.same_as(right))


def _weights(sch: s_tir.Schedule, acc: SBlockRV) -> int:
    """Bytes of the right side."""
    source = _right_of(sch, acc).source
    return math.prod(int(e) for e in source.shape) * _bytes(source)


def _bytes(buffer: Any) -> int:
    return int(tvm_ffi.dtype(str(buffer.dtype)).bits) // 8
