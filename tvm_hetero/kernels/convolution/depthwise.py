"""Depthwise convolutions (one input channel for each output) over lines of points.

Problem
    A window of 9 values for each result and no channels to reduce over. What costs is everything
    around: narrow images (7 or 14 columns) fill no vector, and strided columns are no vector.

Rows are joined: result ``p = y * OW + x`` needs ``line[p + kh * OW + kw - left]``, whole vectors
at any ``p``. At the ends of rows a constant mask drops neighbouring rows         -> `_joined`

    out[p] = sum over shifts s: mask[s, p] ? sum over (kh, kw -> s): w[kh, kw] * line[...] : 0

A stride sorts columns and rows into ``sy * sx`` planes of ``OW`` columns each; a tap reads the
plane ``(kh - top) mod sy, (kw - left) mod sx`` at a shift ``(kw - left) // sx``   -> `_planes`

Rows that fill vectors, without stride: several rows of results at a time         -> `sum_bands`
Wide images of which neither is true (rows apart): tiles are parts of a row       -> `_by_rows`

But for bands, the rule takes the convolutions whose planes have no more than OW columns (`_fits`);
others go to `generic`.

Derivation: docs/method/depthwise.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi
from tvm import relax, s_tir, te, tirx

from tvm_hetero.kernels.convolution.depthwise_bands import (
    SUMS,
    fits_bands,
    schedule_bands,
    sum_bands,
)
from tvm_hetero.kernels.tir.array_values import constant_of
from tvm_hetero.kernels.tir.block_roles import ROLE, UNPACK, find_role, role
from tvm_hetero.kernels.tir.blocks import extent_of, index_map
from tvm_hetero.kernels.tir.tail_tiles import overlap_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from tvm.s_tir.schedule import LoopRV, SBlockRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

PLANES, WINDOW = "depthwise.planes", "depthwise.window"

_ROWS_FROM = 32  # columns
_MOST_TAPS = 64
_MOST_VECTORS = 4


@dataclass(frozen=True)
class Depthwise:
    """One depthwise convolution; pairs are (y, x), ``multiplier`` outputs for each channel."""

    batch: int
    channels: int
    size: tuple[int, int]
    multiplier: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    out: tuple[int, int]

    def offsets(self, axis: int) -> list[tuple[int, int]]:
        """Plane and shift of each tap along an axis: ``tap - padding = shift * stride + plane``."""
        stride, dilation, before = self.stride[axis], self.dilation[axis], self.before[axis]
        taps = [k * dilation - before for k in range(self.kernel[axis])]
        return [(t % stride, t // stride) for t in taps]

    @property
    def joined(self) -> bool:
        """Whether rows are joined into one line of points."""
        return self.out[1] < _ROWS_FROM or self.stride != (1, 1)

    @property
    def points(self) -> int:
        """Points of a line."""
        return self.out[0] * self.out[1] if self.joined else self.out[1]


def make_depthwise(
    bb: relax.BlockBuilder,
    data: relax.Expr,
    weight: NDArray[Any],
    shape: Depthwise,
    units: Sequence[VectorUnit],
    read: Callable[[te.Tensor], Any] = lambda data: data,
) -> relax.Expr | None:
    """The kernel of a convolution, or None where this rule does not fit.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    data
        What is convolved.
    weight
        ``[O, 1, KH, KW]``.
    shape
        The extents.
    units
        Vector units of the targets.
    read
        What is read with four indices as the float32 values of ``data``.
    """
    lanes = max(unit.lanes for unit in units)
    operands = [data, constant_of(weight)]
    compute: Callable[..., te.Tensor]
    if fits_bands(shape, lanes):
        compute = sum_bands
    elif not _fits(shape, lanes):
        return None
    elif shape.joined:
        compute = _joined
        operands.append(constant_of(_masks(shape)))
    else:
        compute = _by_rows
    return bb.call_te(
        lambda image, *constants: compute(shape, read(image), *constants),
        *operands,
        primfunc_name_hint="depthwise_conv2d",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias and activation join it
    )


def is_depthwise(func: tirx.PrimFunc) -> bool:
    """Whether a kernel that is not scheduled is one of these, whatever was fused behind."""
    found: list[str] = []

    def note(block: s_tir.SBlock) -> None:
        found.append(str(block.annotations.get(ROLE, "")))

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, note))
    return WINDOW in found or SUMS in found


def _fits(shape: Depthwise, lanes: int) -> bool:
    """Whether the planes are as wide as the output and a line fills a vector."""
    columns = -(-shape.size[1] // shape.stride[1])
    shifts = [abs(shift) for _, shift in shape.offsets(1)]
    return (
        columns <= shape.out[1]
        and max(shifts) < shape.out[1]
        and math.prod(shape.kernel) <= _MOST_TAPS
        and shape.points >= lanes
    )


def _shifts(shape: Depthwise) -> list[int]:
    return sorted({shift for _, shift in shape.offsets(1)})


def _masks(shape: Depthwise) -> NDArray[np.float32]:
    """Row for each shift: 1 where a point's column plus the shift is inside the image."""
    columns = np.arange(shape.points) % shape.out[1]
    inside = [(columns + s >= 0) & (columns + s < shape.out[1]) for s in _shifts(shape)]
    return np.array(inside, np.float32)


def _joined(shape: Depthwise, data: te.Tensor, weight: te.Tensor, masks: te.Tensor) -> te.Tensor:
    top = min(shift for _, shift in shape.offsets(0)) - 1  # a row of zeros for shifts to the left
    planes = _planes(data, shape, top)
    width, zero = shape.out[1], tirx.const(0, data.dtype)
    rows, columns = shape.offsets(0), shape.offsets(1)

    def part(b: Any, c: Any, point: Any, shift: int) -> Any:
        """Sum of the taps of one shift."""
        values = []
        for kh, (plane_y, shift_y) in enumerate(rows):
            # Both of the same number below the width: of (p + 57) // 56 and (p + 1) % 56 TVM makes
            # no p + 57 again, and values were read one by one.
            whole, rest = divmod((shift_y - top) * width + shift, width)
            row, column = (point + rest) // width + whole, (point + rest) % width
            for kw, (plane_x, s) in enumerate(columns):
                if s == shift:
                    source = (b, c // shape.multiplier, plane_y, plane_x, row, column)
                    values.append(planes[source] * weight[c, 0, kh, kw])
        return reduce(add, values)

    def result(b: Any, c: Any, point: Any) -> Any:
        parts = [
            tirx.Select(masks[i, point] != zero, part(b, c, point, shift), zero)
            if shift
            else part(b, c, point, shift)
            for i, shift in enumerate(_shifts(shape))
        ]
        return reduce(add, parts)

    channels = shape.channels * shape.multiplier
    window = te.compute(
        (shape.batch, channels, shape.points), result, name="window", attrs=role(WINDOW)
    )
    return te.compute(
        (shape.batch, channels, *shape.out),
        lambda b, c, y, x: window[b, c, y * width + x],
        name="unpack",
        attrs=role(UNPACK),
    )


def _planes(data: te.Tensor, shape: Depthwise, top: int) -> te.Tensor:
    """``[b, c, plane y, plane x, row, column]``, zero outside the image."""
    (height, width), (sy, sx), columns = shape.size, shape.stride, shape.out[1]
    rows = shape.out[0] + max(shift for _, shift in shape.offsets(0)) - top + 1
    zero = tirx.const(0, data.dtype)

    def value(b: Any, c: Any, qy: Any, qx: Any, row: Any, column: Any) -> Any:
        y, x = (row + top) * sy + qy, column * sx + qx
        inside = [y >= 0, y < height]
        if columns * sx > width:
            inside.append(x < width)
        return tirx.if_then_else(tirx.all(*inside), data[b, c, y, x], zero)

    extents = (shape.batch, shape.channels, sy, sx, rows, columns)
    return te.compute(extents, value, name="planes", attrs=role(PLANES))


def _by_rows(shape: Depthwise, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    (kh_extent, kw_extent), (dy, dx) = shape.kernel, shape.dilation
    (height, width), (top, left), (rows, columns) = shape.size, shape.before, shape.out
    zero = tirx.const(0, data.dtype)
    extents = (rows + (kh_extent - 1) * dy, columns + (kw_extent - 1) * dx)

    def padded(b: Any, c: Any, y: Any, x: Any) -> Any:
        inside = tirx.all(y >= top, y < top + height, x >= left, x < left + width)
        return tirx.if_then_else(inside, data[b, c, y - top, x - left], zero)

    image = te.compute(
        (shape.batch, shape.channels, *extents), padded, name="planes", attrs=role(PLANES)
    )

    def result(b: Any, c: Any, y: Any, x: Any) -> Any:
        taps = [
            image[b, c // shape.multiplier, y + kh * dy, x + kw * dx] * weight[c, 0, kh, kw]
            for kh in range(kh_extent)
            for kw in range(kw_extent)
        ]
        return reduce(add, taps)

    channels = shape.channels * shape.multiplier
    return te.compute(
        (shape.batch, channels, *shape.out), result, name="window", attrs=role(WINDOW)
    )


def schedule_depthwise(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main`` in place; False where it is no depthwise kernel.

    Raises
    ------
    RuntimeError, ValueError
        Where a step does not apply; the schedule is then half done and to be dropped.
    """
    if schedule_bands(sch, unit, cores):
        return True
    planes, window = find_role(sch, PLANES), find_role(sch, WINDOW)
    if planes is None or window is None:
        return False
    channels = int(sch.get(planes).iter_vars[1].dom.extent)
    last = _inline_into_last(sch, window)
    image, channel, *_, line = sch.get_loops(last)
    at, _ = sch.split(channel, [None, extent_of(sch, channel) // channels])
    at = sch.fuse(image, at)
    points = extent_of(sch, line)
    vectors = _vectors(points, unit)
    tiles, across = sch.split(line, [None, vectors * unit.lanes])
    across, lanes = sch.split(across, [None, unit.lanes])
    sch.vectorize(lanes)
    sch.unroll(across)
    _copy(sch, planes, at)
    if cores > 1:
        sch.parallel(at)
    overlap_tiles(sch, tiles, points, vectors * unit.lanes)
    return True


def _inline_into_last(sch: s_tir.Schedule, window: SBlockRV) -> SBlockRV:
    """Inline everything up to the output into one block, which has the window's dimensions."""
    last = window
    while consumers := sch.get_consumers(last):
        if last is not window:
            sch.compute_inline(last)
        last = consumers[0]
    if last is window:
        return last
    if len(sch.get(window).iter_vars) == 3:
        width = int(sch.get(last).iter_vars[-1].dom.extent)
        sch.transform_block_layout(last, index_map(4, lambda b, c, y, x: [b, c, y * width + x]))
        # The identity, which simplifies how `last` reads the window: (p // W) * W + p % W.
        sch.transform_layout(window, ("write", 0), index_map(3, lambda b, c, p: [b, c, p]))
    sch.compute_inline(window)
    return last


def _vectors(points: int, unit: VectorUnit) -> int:
    """Vectors of a tile: few points twice, and not too many loops."""
    most = min(points // unit.lanes, _MOST_VECTORS)
    if most == 0:
        raise ValueError(f"{points} points are less than {unit.lanes} lanes")

    def cost(vectors: int) -> float:
        tile = vectors * unit.lanes
        return math.ceil(points / tile) * tile * (1 + 0.1 / vectors)

    return min(range(1, most + 1), key=cost)


def _copy(sch: s_tir.Schedule, planes: SBlockRV, at: LoopRV) -> None:
    """Copy a channel into its planes: a fill and a copy without a condition for each value.

    With a stride the planes of a column are side by side, so that LLVM loads whole vectors and
    takes them apart.
    """
    sch.compute_at(planes, at, preserve_unit_loops=True)
    loops = sch.get_loops(planes)
    if len(sch.get(planes).iter_vars) == 4:
        sch.decompose_padding(planes, loops[-2])
        return
    *_, plane_y, plane_x, row, column = loops
    if extent_of(sch, plane_x) * extent_of(sch, plane_y) == 1:
        zeros = sch.decompose_padding(planes, row)
        for block in (zeros, planes):
            sch.fuse(*sch.get_loops(block)[-2:])
        return
    sch.reorder(plane_y, row, column, plane_x)
    sch.unroll(plane_x)
