"""Transpositions: kernels whose output runs along another dimension than an input does.

NCHW to NHWC, a matrix to its transpose, keys of attention. In the loop nest of the output one
side is contiguous and the other jumps a row at each step, so that every value costs a cache line
(and with rows of 4 KiB always the same set of the cache). The two dimensions are tiled:

    for other dimensions, tiles of i, tiles of o:
        for i in tile (unrolled), o in tile (a vector):    y[.., i, .., o] = f(x[.., o, .., i])

`i` is contiguous in the input and `o` in the output; LLVM keeps the tile in registers. Tiles
are divisors of the extents, since a rest would put a condition on every value.

`python -m benchmarks.kernels --family transpose`, one core of an AMD EPYC (znver5), us: TVM's
pipeline without a schedule, here, ONNX Runtime (`benchmarks/results/kernels.json`).

    1024 x 1024                          3340    433    735
    64 x 56 x 56 to channels last          44     28     19
    56 x 56 x 64 to channels first         65     28     33
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import tirx

from tvm_hetero.kernels.tir.block_roles import blocks_of
from tvm_hetero.kernels.tir.blocks import accesses, inline_chains, is_reduction
from tvm_hetero.kernels.tir.multicore import share

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

_TILE = 8
_WIDEST = 16


def schedule_transpose(sch: Schedule, _unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it transposes nothing, or nothing divides."""
    inline_chains(sch)
    blocks = blocks_of(sch)
    if len(blocks) != 1 or is_reduction(sch, blocks[0]):
        return False
    (block,) = blocks
    crossing = _crossing(sch.get(block))
    loops = sch.get_loops(block)
    if crossing is None or len(loops) != len(sch.get(block).iter_vars):
        return False
    *_, last = loops
    tile_in = _tile(int(sch.get(loops[crossing]).extent), _TILE)
    tile_out = _tile(int(sch.get(last).extent), _WIDEST)
    if tile_in == 1 or tile_out == 1:
        return False
    others = [loop for d, loop in enumerate(loops[:-1]) if d != crossing]
    outer_in, inner_in = sch.split(loops[crossing], [None, tile_in])
    outer_out, inner_out = sch.split(last, [None, tile_out])
    sch.reorder(*others, outer_in, outer_out, inner_in, inner_out)
    sch.unroll(inner_in)
    sch.vectorize(inner_out)
    share(sch, [*others, outer_in, outer_out], cores)
    return True


def _crossing(block: tirx.SBlock) -> int | None:
    """The dimension of the output that is contiguous in an input, where it is not the last."""
    variables = [v.var for v in block.iter_vars]
    for indices, _shape in accesses(block):
        for d, var in enumerate(variables[:-1]):
            if indices[-1].same_as(var) and _moves(indices[:-1], variables[-1]):
                return d
    return None


def _moves(indices: list[tirx.PrimExpr], last: tirx.Var) -> bool:
    """The output's last dimension is another one of this input."""
    return any(index.same_as(last) for index in indices)


def _tile(extent: int, most: int) -> int:
    """A divisor: 8 if possible, which is a square of registers, else the largest."""
    if extent % _TILE == 0:
        return _TILE
    return max(d for d in range(1, most + 1) if extent % d == 0)
