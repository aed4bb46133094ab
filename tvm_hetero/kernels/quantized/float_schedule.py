"""The schedule of a product with weights of few bits (`quantized.product`) on a CPU.

Loop order, from the outside: parts of a block of columns, matrices, tiles of rows, [groups], and
in each group [its steps], tile. The sums within a group stay in registers; when it is done they
are multiplied by its scales and added to those over groups, once for `group` steps.

A tile of v vectors of columns by t rows makes v vectors of codes floats, two or three operations
each, and uses each t times. One row takes a block's columns at once, so that weights are read in
the order in which they stand; of more rows, as many as leave registers for codes.

Weights that come from memory are asked for a word at a time (`prefetch`); a whole group at once
were more misses than a core has under way, and the others would wait.

A vector of sums waits some cycles for the next addition, so that one row needs eight of them to
keep two multiplications a cycle going: hence blocks of eight vectors of AVX-512.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm_hetero.kernels.matmul.gemm import WORTH_SHARING, join_epilogue, pack_left, store_tile
from tvm_hetero.kernels.matmul.product_tiles import ProductTile
from tvm_hetero.kernels.tir.block_roles import LEFT, PARTIAL, PRODUCT, SHARE, find_role
from tvm_hetero.kernels.tir.blocks import extent_of, index_map
from tvm_hetero.kernels.tir.prefetch import prefetch

if TYPE_CHECKING:
    from tvm import s_tir
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Share of the registers that hold sums within a group.
_SUMS = 0.5
# Rows of a tile: of more, the first cache would hold too little of each.
_MOST_ROWS = 8
# Cycles that a vector of codes takes beside the rows' multiplications.
_CODES = 0.75


def schedule_groupwise(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main``, made by `factored.factor_groups`, in place; False for any other."""
    share, partial, acc = (find_role(sch, name) for name in (SHARE, PARTIAL, PRODUCT))
    if share is None or partial is None or acc is None:
        return False
    left, last = find_role(sch, LEFT), join_epilogue(sch, acc)
    _, _, points, block, _ = (extent_of(sch, loop) for loop in sch.get_loops(acc))
    columns = int(sch.get(last).iter_vars[-1].dom.extent)
    tile = _tile(block, points, columns, unit)
    if left is not None:
        pack_left(sch, left, tile.rows, cores)
    _split_blocks(sch, acc, tile.vectors * unit.lanes)
    z, part, m, i, q = sch.get_loops(acc)
    _schedule_share(sch, share, _codes_of_a_word(sch, partial, extent_of(sch, q)))
    at, rows = sch.split(m, [None, tile.rows])
    vectors, lanes = sch.split(i, [None, unit.lanes])
    sch.reorder(part, z, at, q, rows, vectors, lanes)
    _in_registers(sch, rows, vectors, lanes)
    if cores > 1 and _work(sch, partial) / unit.lanes >= WORTH_SHARING:
        sch.parallel(part)
    sch.compute_at(partial, q, preserve_unit_loops=True)
    steps = _schedule_partial(sch, partial, extent_of(sch, q), unit)
    sch.decompose_reduction(partial, steps)
    sch.decompose_reduction(acc, q)
    sch.set_scope(partial, 0, "local")
    store_tile(sch, last, at, tile, unit)
    follows = points == 1 and unit.follows
    # On several cores all accumulators were stored each time: see `gemm`.
    if points == tile.rows and cores == 1 and not follows:
        _ask_ahead(sch, partial, steps, unit)
    return True


def _tile(block: int, points: int, columns: int, unit: VectorUnit) -> ProductTile:
    """The tile that costs the fewest cycles for a step of a block's columns and all rows.

    Not one that leaves whole parts of the only block to padding: see `gemm`.
    """
    most = int(_SUMS * unit.registers)
    widest = block // unit.lanes
    tiles = [
        ProductTile(v, t, points // t * widest / v * max(v * (_CODES + t / unit.fmas), 4))
        for v in range(1, widest + 1)
        for t in range(1, min(points, _MOST_ROWS) + 1)
        if block % (v * unit.lanes) == 0 and points % t == 0
        if v * t <= most and (v * unit.lanes < columns or v == widest)
    ]
    # None fits where a block is all padding but for a few columns: then sums may spill.
    tiles = tiles or [ProductTile(widest, 1, 0.0)]
    return min(tiles, key=lambda tile: (tile.cycles, -tile.vectors))


def _split_blocks(sch: s_tir.Schedule, acc: SBlockRV, part: int) -> None:
    """Regroup the sums by ``part`` columns, as `gemm` does."""
    block = extent_of(sch, sch.get_loops(acc)[3])
    if part == block:
        return

    def regroup(z, o, m, i, *q):  # type: ignore[no-untyped-def]
        return [z, o * (block // part) + i // part, m, i % part, *q]

    sch.transform_block_layout(acc, index_map(5, regroup))
    sch.transform_layout(acc, ("write", 0), index_map(4, regroup))


def _in_registers(sch: s_tir.Schedule, rows: LoopRV, vectors: LoopRV, lanes: LoopRV) -> None:
    sch.vectorize(lanes)
    sch.unroll(vectors)
    sch.unroll(rows)


def _schedule_partial(
    sch: s_tir.Schedule, partial: SBlockRV, groups: int, unit: VectorUnit
) -> LoopRV:
    """The loops within a group; returns that over its steps, those of a word at a time."""
    *_, rows, i, _, k = sch.get_loops(partial)
    vectors, lanes = sch.split(i, [None, unit.lanes])
    steps, inner = sch.split(k, [None, _codes_of_a_word(sch, partial, groups)])
    sch.reorder(steps, inner, rows, vectors, lanes)
    sch.unroll(inner)
    _in_registers(sch, rows, vectors, lanes)
    return steps


def _schedule_share(sch: s_tir.Schedule, share: SBlockRV, codes: int) -> None:
    """What is taken off is known for each step once those of a word are unrolled."""
    *_, k = sch.get_loops(share)
    _, inner = sch.split(k, [None, codes])
    sch.unroll(inner)


def _codes_of_a_word(sch: s_tir.Schedule, partial: SBlockRV, groups: int) -> int:
    words = next(r for r in sch.get(partial).reads if str(r.source.dtype) == "int32")
    *_, steps = sch.get(partial).iter_vars
    return int(steps.dom.extent) * groups // int(words.source.shape[1])


def _work(sch: s_tir.Schedule, partial: SBlockRV) -> int:
    return math.prod(extent_of(sch, loop) for loop in sch.get_loops(partial))


def _ask_ahead(sch: s_tir.Schedule, partial: SBlockRV, steps: LoopRV, unit: VectorUnit) -> None:
    """Ask for codes where the second cache cannot hold them."""
    reads = sch.get(partial).reads
    index = next(i for i, r in enumerate(reads) if str(r.source.dtype) == "int32")
    source = reads[index].source
    size = math.prod(int(e) for e in source.shape) * 4
    if size > unit.l2 // 2:
        prefetch(sch, steps, partial, index, 4 * int(source.shape[-1]))
