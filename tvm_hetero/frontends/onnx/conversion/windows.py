"""Operators on windows over images that TVM has not: Col2Im, DeformConv.

Col2Im      image[y] = sum over k of columns[k, (y + pad - dilation k) / stride], where it is whole
DeformConv  a convolution that reads, for each place k of its window, between the pixels around
            y stride - pad + k dilation + offset[k, y]

Both are one kernel of columns, and the second a product with the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax


@dataclass(frozen=True)
class _SlidingBlock:
    """A window on the spatial axes of an image."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @classmethod
    def of(cls, c: Conversion, kernel: Sequence[int]) -> _SlidingBlock:
        rank = len(kernel)

        def given(name: str, count: int, default: int) -> tuple[int, ...]:
            found = tuple(int(n) for n in c.attribute(name) or [default] * count)
            if len(found) != count:
                c.refuse(f"has {len(found)} {name} for {rank} axes; expected {count}")
            return found

        strides, dilations = given("strides", rank, 1), given("dilations", rank, 1)
        return cls(tuple(kernel), strides, dilations, given("pads", 2 * rank, 0))

    def places(self, image: Sequence[int]) -> list[int]:
        """How many places the window has along each axis of an image."""
        rank = len(self.kernel)
        return [
            (n + self.pads[a] + self.pads[rank + a] - self.dilations[a] * (self.kernel[a] - 1) - 1)
            // self.strides[a]
            + 1
            for a, n in enumerate(image)
        ]


@converts("Col2Im")
def convert_col2im(c: Conversion) -> relax.Expr:
    """Add up, for each pixel, what the windows that cover it say."""
    batch, rows, columns = c.dims(0, 3)
    image = [int(n) for n in c.constant_of(1, "image's shape")]
    kernel = [int(n) for n in c.constant_of(2, "block's shape")]
    if len(image) != len(kernel):
        c.refuse(f"has blocks of {kernel} in an image of {image}")
    window = _SlidingBlock.of(c, kernel)
    places, taps = window.places(image), math.prod(kernel)
    if rows % taps or math.prod(places) != columns:
        c.refuse(
            f"has {rows} rows and {columns} columns; for blocks of {kernel} in {image} a "
            f"multiple of {taps} and {math.prod(places)} are expected"
        )
    blocks = c.reshaped(c.operand(0), (batch, rows // taps, *kernel, *places))
    return c.emit_te(lambda data: _sum_of_blocks(data, window, image), blocks)


def _sum_of_blocks(data: Any, window: _SlidingBlock, image: Sequence[int]) -> Any:
    from tvm import te, tirx

    rank = len(image)
    batch, channels, *sides = data.shape
    axes = [te.reduce_axis((0, n), f"k{a}") for a, n in enumerate(sides[:rank])]

    def value(n: Any, channel: Any, *pixel: Any) -> Any:
        inside, at = [], []
        for a, (p, k) in enumerate(zip(pixel, axes, strict=True)):
            far = p + window.pads[a] - k * window.dilations[a]
            place = tirx.floordiv(far, window.strides[a])
            whole = tirx.floormod(far, window.strides[a]) == 0
            inside += [far >= 0, whole, place < sides[rank + a]]
            at.append(place)
        found = data[(n, channel, *axes, *at)]
        none = tirx.const(0, data.dtype)
        return te.sum(tirx.if_then_else(tirx.all(*inside), found, none), axis=axes)

    return te.compute((batch, channels, *image), value, name="col2im")


@converts("DeformConv")
def convert_deform_conv(c: Conversion) -> relax.Expr:
    """Multiply the columns that are read between pixels by the weights, group by group."""
    from tvm import relax

    image, weights = c.dims(0), c.dims(1)
    if len(image) != 4:
        c.refuse(f"is of {len(image) - 2} spatial axes; expected 2")
    groups = int(c.attribute("group", 1))
    window = _SlidingBlock.of(c, weights[2:])
    height, width = window.places(image[2:])
    taps = math.prod(window.kernel)
    columns = _deformed(c, window, (height, width))
    rows = image[1] // groups * taps
    apart = c.reshaped(columns, (image[0], groups, rows, height * width))
    kernel = c.reshaped(c.operand(1), (1, groups, weights[0] // groups, rows))
    product = c.emit(relax.op.matmul(kernel, apart))
    made = c.reshaped(product, (image[0], weights[0], height, width))
    bias = c.optional(3)
    if bias is None:
        return made
    return c.emit(relax.op.add(made, c.reshaped(bias, (1, weights[0], 1, 1))))


def _deformed(c: Conversion, window: _SlidingBlock, places: tuple[int, int]) -> relax.Var:
    """Emit the columns: what each place of the window reads, at each place of the output."""
    from tvm import te

    batch, channels, high, wide = c.dims(0, 4)
    taps, parts = math.prod(window.kernel), int(c.attribute("offset_group", 1))
    if channels % parts or c.dims(2) != (batch, parts * taps * 2, *places):
        shape = [batch, parts * taps * 2, *places]
        c.refuse(f"has offsets of {list(c.dims(2))}; expected {shape}")
    offsets = c.reshaped(c.operand(2), (batch, parts, taps, 2, *places))
    mask = c.optional(4)
    masks = [] if mask is None else [c.reshaped(mask, (batch, parts, taps, *places))]

    def columns(x: Any, offset: Any, *mask: Any) -> Any:
        def value(n: Any, channel: Any, k: Any, *place: Any) -> Any:
            part = channel // (channels // parts)
            tap = (k // window.kernel[1], k % window.kernel[1])
            at = []
            for a, p in enumerate(place):
                fixed = p * window.strides[a] - window.pads[a] + tap[a] * window.dilations[a]
                at.append(fixed.astype(x.dtype) + offset[(n, part, k, a, *place)])
            found = _between(lambda y, z: x[n, channel, y, z], at, (high, wide), x.dtype)
            return found * mask[0][(n, part, k, *place)] if mask else found

        return te.compute((batch, channels, taps, *places), value, name="deformed_columns")

    return c.emit_te(columns, c.operand(0), offsets, *masks)


def _between(pixel: Any, at: Sequence[Any], extents: tuple[int, int], dtype: str) -> Any:
    """The bilinear mean of the four pixels around a place; those outside of the image are 0."""
    from tvm import tirx

    def corner(side: tuple[int, int]) -> Any:
        share, inside, places = _real(1, dtype), [], []
        for place, far, n in zip(at, side, extents, strict=True):
            low = tirx.floor(place)
            edge = low + _real(far, dtype)
            share = share * (place - low if far else _real(1, dtype) - (place - low))
            inside += [edge >= _real(0, dtype), edge <= _real(n - 1, dtype)]
            places.append(_bounded(edge, n, dtype))
        return tirx.Select(tirx.all(*inside), pixel(*places) * share, _real(0, dtype))

    return corner((0, 0)) + corner((0, 1)) + corner((1, 0)) + corner((1, 1))


def _bounded(place: Any, extent: int, dtype: str) -> Any:
    """A place as a whole number inside of an axis.

    Bounded as a float first, since an integer made of a far or undefined one can be anything.
    """
    from tvm import tirx

    near = tirx.max(tirx.min(place, _real(extent, dtype)), _real(-1, dtype))
    return tirx.max(tirx.min(tirx.Cast("int64", near), extent - 1), 0)


def _real(value: int, dtype: str) -> Any:
    from tvm import tirx

    return tirx.const(float(value), dtype)
