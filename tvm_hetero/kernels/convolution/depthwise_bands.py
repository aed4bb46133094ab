"""Depthwise convolutions of rows that fill vectors, some rows of results at a time.

Problem
    A result of a 7x7 window reads 49 values, vectors of which begin anywhere in a line of the
    cache: two loads for most of them, at two loads and two multiply-adds a cycle.

Answer
    The sums of a band of R rows stay in registers. Each row of the image passes once: a vector of
    it is loaded once for all rows of the band in whose windows it is.

    for s in R + KH - 1 rows of the image, kw:  for r in R rows, 0 <= s - r < KH:
        sums[r, x] += image[y + s, x + kw] * w[s - r, kw]

The kernel is written with windows as they are (`sum_bands`), and so are its operations counted; the
schedule puts rows of the image in the place of rows of the window (`_by_image_rows`). Loops over
both are unrolled, which decides the condition when the kernel is compiled. Each sum is of the same
terms in the same order as without bands. Where tiles or bands do not come out even, the last ones
overlap (`tir.tail_tiles`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, te, tirx

from tvm_hetero.kernels.cpu.vector_unit import VectorUnit, combine_limits
from tvm_hetero.kernels.tir.block_roles import find_role, role
from tvm_hetero.kernels.tir.blocks import extent_of, inline_epilogue
from tvm_hetero.kernels.tir.tail_tiles import overlap_tiles

if TYPE_CHECKING:
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.convolution.depthwise import Depthwise

IMAGE, SUMS = "depthwise.image", "depthwise.sums"

_MOST_ROWS = 10
# Multiply-adds of a tile that are written out: more would not stay in the cache of instructions.
_WRITTEN_OUT = 1600
# Lines of the cache in which a vector of the image is.
_LINES = 2


def fits_bands(shape: Depthwise, lanes: int) -> bool:
    """Whether rows of results fill vectors of so many lanes, and windows overlap."""
    rows, columns = shape.out
    plain = shape.stride == (1, 1) and shape.dilation[0] == 1
    return plain and shape.kernel[0] > 1 and rows > 1 and columns >= lanes


def sum_bands(shape: Depthwise, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """The convolution, of ``[O, 1, KH, KW]`` weights."""
    image, dx = _padded(shape, data), shape.dilation[1]
    kh, kw = (te.reduce_axis((0, k), name) for k, name in zip(shape.kernel, "yx", strict=True))
    extents = (shape.batch, shape.channels * shape.multiplier, *shape.out)

    def term(b: Any, c: Any, y: Any, x: Any) -> Any:
        value = image[b, c // shape.multiplier, y + kh, x + kw * dx]
        return te.sum(value * weight[c, 0, kh, kw], axis=[kh, kw])

    sums = te.compute(extents, term, name="sums", attrs=role(SUMS))
    return te.compute(extents, lambda *at: sums[at], name="unpack")


def _padded(shape: Depthwise, data: te.Tensor) -> te.Tensor:
    """The image with zeros around."""
    (kh, kw), (height, width), (top, left) = shape.kernel, shape.size, shape.before
    extents = (shape.out[0] + kh - 1, shape.out[1] + (kw - 1) * shape.dilation[1])
    if extents == shape.size and not (top or left):
        return data
    zero = tirx.const(0, data.dtype)

    def value(b: Any, c: Any, y: Any, x: Any) -> Any:
        inside = tirx.all(y >= top, y < top + height, x >= left, x < left + width)
        return tirx.if_then_else(inside, data[b, c, y - top, x - left], zero)

    return te.compute(
        (shape.batch, shape.channels, *extents), value, name="image", attrs=role(IMAGE)
    )


def schedule_bands(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it is no such kernel.

    Raises
    ------
    RuntimeError, ValueError
        Where a step does not apply; the schedule is then half done and to be dropped.
    """
    sums, image = find_role(sch, SUMS), find_role(sch, IMAGE)
    if sums is None:
        return False
    last = inline_epilogue(sch, sums)
    batch, channel, y, x, *window = sch.get_loops(sums)
    rows, columns, kh, kw = (extent_of(sch, loop) for loop in (y, x, *window))
    band, vectors = _best_tile(rows, columns, kh, unit)
    at = sch.fuse(batch, channel)
    bands, row = sch.split(y, [None, band])
    tiles, across = sch.split(x, [None, vectors * unit.lanes])
    across, lanes = sch.split(across, [None, unit.lanes])
    sch.reorder(at, bands, tiles, *window, row, across, lanes)
    sch.vectorize(lanes)
    written = band * vectors * kh * kw <= _WRITTEN_OUT
    for loop in (row, across, *(window[1:] if written else [])):
        sch.unroll(loop)
    sch.decompose_reduction(sums, window[0])
    _store(sch, last, tiles, unit)
    sch.set_scope(sums, 0, "local")
    if image is not None:
        sch.compute_at(image, at, preserve_unit_loops=True)
        sch.decompose_padding(image, sch.get_loops(image)[-2])
    if cores > 1:
        sch.parallel(at)
    _by_image_rows(sch, window[0], row)
    overlap_tiles(sch, tiles, columns, vectors * unit.lanes)
    overlap_tiles(sch, bands, rows, band)
    return True


def _store(sch: s_tir.Schedule, last: SBlockRV, tiles: LoopRV, unit: VectorUnit) -> None:
    """Store a tile when it is done, with what was fused behind."""
    sch.reverse_compute_at(last, tiles)
    row, column = sch.get_loops(last)[-2:]
    across, lanes = sch.split(column, [None, unit.lanes])
    sch.unroll(row)
    sch.unroll(across)
    sch.vectorize(lanes)


def _best_tile(rows: int, columns: int, window: int, unit: VectorUnit) -> tuple[int, int]:
    """Rows and vectors of a tile.

    Sums of all rows, a row of the image and a weight are in registers.
    """

    def cycles(tile: tuple[int, int]) -> float:
        band, vectors = tile
        steps = band + window - 1
        valid = band * window / steps  # rows that a step adds to
        loads = (_LINES * vectors + valid) / unit.loads
        step = combine_limits((valid * vectors / unit.fmas, unit.latency * valid / band, loads))
        tiles = math.ceil(columns / (vectors * unit.lanes)) * math.ceil(rows / band)
        return tiles * steps * step

    fit = [
        (band, vectors)
        for band in range(1, min(rows, _MOST_ROWS) + 1)
        for vectors in range(1, columns // unit.lanes + 1)
        if band * vectors + vectors + 1 <= unit.registers
    ]
    if not fit:
        raise ValueError(f"{columns} columns are less than {unit.lanes} lanes")
    return min(fit, key=cycles)


def _by_image_rows(sch: s_tir.Schedule, window: LoopRV, row: LoopRV) -> None:
    """Let the loop over a window's rows be one over those of the image, unrolled.

    TVM's schedules cannot skew loops: a block's iterators must be independent. So this is among the
    last steps, as `overlap_tiles` is.
    """
    old, inner = sch.get(window), sch.get(row)
    extent = int(old.extent)
    s, r = old.loop_var, inner.loop_var
    at = s - r
    inside = tirx.all(at >= 0, at < extent)

    def realized(realize: s_tir.SBlockRealize) -> s_tir.SBlockRealize:
        values = [
            tvm_ffi.structural_map(v, [(tirx.Var, lambda var: at if var.same_as(s) else var)])
            for v in realize.iter_values
        ]
        return s_tir.SBlockRealize(values, tirx.all(realize.predicate, inside), realize.block)

    body = tvm_ffi.structural_map(old.body, (s_tir.SBlockRealize, realized))
    steps = tirx.const(extent + int(inner.extent) - 1, str(s.ty.dtype))
    sch.state.replace(
        sch.get_sref(window), tirx.For(s, old.min, steps, tirx.ForKind.UNROLLED, body)
    )
