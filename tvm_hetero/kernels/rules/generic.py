"""The schedule of every kernel that no special rule fits: element-wise, pooling, reductions.

Nothing here changes what is computed or in which order a sum is added, so results do not depend
on the schedule. The loops are only put into the shape that LLVM's own vectoriser wants:

    producers of one consumer       inlined (`blocks.inline_chains`), never into a reduction that
                                    would compute them again for every output
    padding                         a fill and a copy instead of a condition for each value
                                    (`_decompose_padding`)
    small windows                   (pooling, depthwise convolution) unrolled, so that the row
                                    of outputs is the innermost loop (`_schedule_reduction`)
    reductions of leading axes      a tile of neighbouring outputs in registers (`_tile`)
    other long reductions           eight outputs at a time, since one sum can only take one
                                    step in four cycles (`_interleave`)
    trailing dimensions             joined where all accesses allow it, or split where indices
                                    divide them (`_join_trailing`)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx import Div, FloorDiv, FloorMod

from tvm_hetero.kernels.tir.block_roles import blocks_of
from tvm_hetero.kernels.tir.blocks import (
    accesses,
    attempt,
    inline_chains,
    is_copy,
    is_padding,
    is_reduction,
    uses,
)
from tvm_hetero.kernels.tir.multicore import share

if TYPE_CHECKING:
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

_LARGEST_WINDOW = 50
_INTERLEAVED = 8
_TILE = 8
_LANES = 16
_LONGEST_VECTOR = 64


def schedule_generic(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule every block of ``main`` in place; steps that do not apply are left out."""
    inline_chains(sch)
    for block in blocks_of(sch):
        attempt(_decompose_padding, sch, block)
    for block in blocks_of(sch):
        if is_reduction(sch, block):
            attempt(_schedule_reduction, sch, block, unit, cores)
        else:
            attempt(_join_trailing, sch, block)
    if cores > 1:
        for block in blocks_of(sch):
            attempt(_parallel, sch, block, cores)
    return True


def _decompose_padding(sch: s_tir.Schedule, block: SBlockRV) -> None:
    loops = sch.get_loops(block)
    if is_padding(sch, block) and len(loops) > 2:
        sch.decompose_padding(block, loops[2])


def _schedule_reduction(sch: s_tir.Schedule, block: SBlockRV, unit: VectorUnit, cores: int) -> None:
    loops = sch.get_loops(block)
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    spatial = [lp for lp, kind in zip(loops, kinds, strict=True) if kind == tirx.IterVar.DataPar]
    reduced = [lp for lp, kind in zip(loops, kinds, strict=True) if kind != tirx.IterVar.DataPar]
    window = math.prod(int(sch.get(loop).extent) for loop in reduced)
    row = int(sch.get(spatial[-1]).extent) if spatial else 1
    if window <= _LARGEST_WINDOW and row > 1:
        for loop in reduced:
            sch.unroll(loop)
    elif row > 1 and _reads_rows(sch, block):
        outer = _tile(sch, spatial, reduced, unit)
        share(sch, [*spatial[:-1], outer], cores)
        sch.decompose_reduction(block, reduced[0])
    else:
        _interleave(sch, block, spatial, reduced, cores)


def _reads_rows(sch: s_tir.Schedule, block: SBlockRV) -> bool:
    """True where neighbouring outputs are computed from neighbouring inputs."""
    node = sch.get(block)
    last = [v.var for v in node.iter_vars if v.iter_type == tirx.IterVar.DataPar][-1]
    return all(
        indices[-1].same_as(last) or not any(uses(index, last) for index in indices)
        for indices, _shape in accesses(node)
    )


def _tile(
    sch: s_tir.Schedule, spatial: list[LoopRV], reduced: list[LoopRV], unit: VectorUnit
) -> LoopRV:
    """Sum into as many registers as hide the latency, along what is contiguous.

    Wide tiles are far quicker than a few outputs at a time: `python -m benchmarks.kernels --family
    reduction` has 1024 x 1024 over the first axis.
    """
    extent = int(sch.get(spatial[-1]).extent)
    vectors = max((v for v in range(1, _TILE + 1) if extent % (v * unit.lanes) == 0), default=0)
    width = vectors * unit.lanes or max(d for d in range(1, 4 * unit.lanes) if extent % d == 0)
    outer, inner = sch.split(spatial[-1], [None, width])
    sch.reorder(outer, *reduced, inner)
    if vectors > 1:
        several, inner = sch.split(inner, [vectors, unit.lanes])
        sch.unroll(several)
    sch.vectorize(inner)
    return outer


def _interleave(
    sch: s_tir.Schedule,
    block: SBlockRV,
    spatial: list[LoopRV],
    reduced: list[LoopRV],
    cores: int,
) -> None:
    long = [loop for loop in spatial if int(sch.get(loop).extent) > 1]
    if not long:
        return
    extent = int(sch.get(long[-1]).extent)
    together = max(d for d in range(1, _INTERLEAVED + 1) if extent % d == 0)
    if together == 1:
        return
    outer, inner = sch.split(long[-1], [None, together])
    sch.reorder(outer, *reduced, inner)
    sch.unroll(inner)
    share(sch, [*spatial[: spatial.index(long[-1])], outer], cores)
    sch.decompose_reduction(block, reduced[0])


def _join_trailing(sch: s_tir.Schedule, block: SBlockRV) -> None:
    """Join the innermost loops that every access sees as one contiguous range."""
    loops = sch.get_loops(block)
    joined = _joinable(sch.get(block), [int(sch.get(loop).extent) for loop in loops])
    if not joined:
        part = _division(sch.get(block))
        if part is not None:
            _, inner = sch.split(loops[-1], [None, part])
            if part <= _INTERLEAVED:
                sch.unroll(inner)
        return
    loop = sch.fuse(*loops[-joined:]) if joined > 1 else loops[-1]
    extent = int(sch.get(loop).extent)
    # LLVM does the rest of a short loop value by value; of a vector of 49 it does 48 and one.
    # What only copies it makes a memcpy, which is better still.
    short = extent % _LANES and 1 < extent <= _LONGEST_VECTOR
    if short and not is_copy(sch, block):
        sch.vectorize(loop)


def _joinable(block: tirx.SBlock, extents: list[int]) -> int:
    """How many trailing loops each buffer access either ignores or covers, whole and in order."""
    variables = [v.var for v in block.iter_vars]
    if len(variables) != len(extents):
        return 0
    reads = accesses(block)
    count = 0
    for first in range(len(variables) - 1, -1, -1):
        tail = variables[first:]
        if not all(_covers(indices, shape, tail, extents[first:]) for indices, shape in reads):
            break
        count = len(tail)
    return count


def _covers(
    indices: list[tirx.PrimExpr], shape: list[int], tail: list[tirx.Var], extents: list[int]
) -> bool:
    """Dimensions of extent one are no obstacle, wherever they stand."""
    long = [(var, extent) for var, extent in zip(tail, extents, strict=True) if extent > 1]
    used = [i for i in indices if any(uses(i, var) for var, _ in long)]
    if not used:
        return True
    last = [(i, e) for i, e in zip(indices, shape, strict=True) if e > 1][-len(long) :]
    return (
        len(used) == len(long) == len(last)
        and all(index.same_as(var) for (index, _), (var, _) in zip(last, long, strict=True))
        and [e for _, e in last[1:]] == [e for _, e in long[1:]]
    )


def _division(block: tirx.SBlock) -> int | None:
    """The part into which indices divide the last dimension: 64 in heads, 2 in an upscaling.

    A dimension may be shifted first, as by the padding of a transposed convolution.
    """
    last = block.iter_vars[-1]
    extent, found = int(last.dom.extent), []

    def visit(node: FloorMod | FloorDiv | Div) -> None:
        a = node.a
        shifted = isinstance(a, tirx.Add) and isinstance(a.b, tirx.IntImm)
        if (a.a if shifted else a).same_as(last.var) and isinstance(node.b, tirx.IntImm):
            found.append(int(node.b))

    for indices, _shape in accesses(block):
        tvm_ffi.structural_walk(indices, ((FloorMod, FloorDiv, Div), visit))
    parts = {part for part in found if 1 < part < extent and extent % part == 0}
    return parts.pop() if len(parts) == 1 else None


def _parallel(sch: s_tir.Schedule, block: SBlockRV, cores: int) -> None:
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    outer = []
    for loop, kind in zip(sch.get_loops(block), kinds, strict=False):
        if kind != tirx.IterVar.DataPar or sch.get(loop).kind != tirx.ForKind.SERIAL:
            break
        outer.append(loop)
    share(sch, outer, cores)
