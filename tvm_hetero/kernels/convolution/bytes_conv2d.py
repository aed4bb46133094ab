"""Convolutions of bytes with constant signed bytes, four input channels to a word.

    acc[b, o, y, x] += word[b, q, y sy + kh dy, x sx + kw dx] . weight[o, q, kh, kw]    in 32 bits

A word has the codes of channels 4 q .. 4 q + 3 at one point, and ``.`` is the sum of their four
products (`cpu.byte_dots`). So the kernel is that of a convolution of floats (`conv2d`) with a
quarter of the channels, the first stage of which makes the words:

    words      the codes of four channels side by side, around them the code that stands for zero
    gather, accumulate, unpack                                          as in `conv2d`

Codes are less their zero point z only in the sum:

    sum of (code - z) weight = sum of code weight - z (sum of weight)       -> `_less_zero_point`

Signed codes become unsigned ones: code + 128, and z + 128. Depthwise convolutions have no four
channels to a sum; they are floats, read as codes (`_depthwise`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from tvm_hetero.kernels.convolution.conv2d import (
    OneRow,
    columns_of,
    layout_of,
    sum_points,
    sum_windows,
)
from tvm_hetero.kernels.convolution.conv2d_shape import ConvShape
from tvm_hetero.kernels.convolution.depthwise import make_depthwise
from tvm_hetero.kernels.convolution.packing import (
    PackedLayout,
    pack_conv2d,
)
from tvm_hetero.kernels.cpu.byte_dots import WORD, plain_dot
from tvm_hetero.kernels.cpu.coded_values import RANGES, float_holds_sums
from tvm_hetero.kernels.tir.block_roles import BYTES_DOT, GATHER, PAD, role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

_SIGNED = 128


@dataclass(frozen=True)
class Codes:
    """What is convolved: codes (uint8 or int8) of an image, and the one that stands for zero."""

    data: relax.Expr
    zero: int

    @property
    def offset(self) -> int:
        """What makes a code unsigned."""
        return _SIGNED if str(self.data.ty.dtype) == "int8" else 0

    @property
    def farthest(self) -> int:
        """How far a code may be from the one that stands for zero."""
        least, most = RANGES[str(self.data.ty.dtype)]
        return max(self.zero - least, most - self.zero)


def bytes_convolution(
    bb: relax.BlockBuilder,
    codes: Codes,
    weights: NDArray[np.int8],
    shape: ConvShape,
    units: Sequence[VectorUnit],
) -> relax.Expr | None:
    """The convolution of codes less their zero point, in int32; None where there is no kernel.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc and the call.
    codes
        Of ``[batch, channels, height, width]``, or ``[batch, channels, width]``.
    weights
        ``[O, I / groups, KH, KW]``, or ``[O, I / groups, KW]``.
    shape
        The extents.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    """
    if shape.depthwise is not None:
        return _depthwise(bb, codes, weights, shape, units)
    if shape.groups > 1 and shape.group_channels % WORD:
        return None
    words = _in_words(shape)
    layout = layout_of(words, units, staged=True)
    if layout is None:
        return None
    filters = weights.reshape(*weights.shape[:2], *shape.kernel)
    packed = relax.const(tvm.runtime.tensor(_pack(filters, shape.groups, layout.block)))
    total = bb.emit_te(
        lambda data, filters: _compute(data, filters, codes, shape, layout),
        codes.data,
        packed,
        primfunc_name_hint="bytes_conv1d" if shape.flat and not shape.rows_of else "bytes_conv2d",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias and scales join it
    )
    return _less_zero_point(bb, total, codes, weights, shape)


def _in_words(shape: ConvShape) -> ConvShape:
    """The same convolution of words, as if each were one channel."""
    words = -(-shape.group_channels // WORD)
    return replace(shape, channels=words * shape.groups, group_channels=words, plain_sums=True)


def _pack(weights: NDArray[np.int8], groups: int, block: int) -> NDArray[np.int32]:
    """Weights in words of four input channels, in blocks of output channels."""
    filled = np.pad(weights, ((0, 0), (0, -weights.shape[1] % WORD), (0, 0), (0, 0)))
    out_channels, channels, *window = filled.shape
    four = filled.reshape(out_channels, channels // WORD, WORD, *window)
    words = np.ascontiguousarray(np.moveaxis(four, 2, -1)).view(np.int32)[..., 0]
    return pack_conv2d(words, groups, block)


def _less_zero_point(
    bb: relax.BlockBuilder,
    total: relax.Expr,
    codes: Codes,
    weights: NDArray[np.int8],
    shape: ConvShape,
) -> relax.Expr:
    """Sums of codes as those of codes less their zero point."""
    zero = codes.zero + codes.offset
    sums = weights.astype(np.int64).reshape(len(weights), -1).sum(axis=1) * zero
    if not sums.any():
        return total
    column = sums.astype(np.int32).reshape(
        -1, *[1] * (1 if shape.flat and not shape.rows_of else 2)
    )
    return bb.emit(relax.op.subtract(total, relax.const(tvm.runtime.tensor(column))))


def _compute(
    data: te.Tensor, filters: te.Tensor, codes: Codes, shape: ConvShape, layout: PackedLayout
) -> te.Tensor:
    words, read = _in_words(shape), _CodeWords(data, codes, shape)
    attrs = {BYTES_DOT: 1}
    if shape.pointwise:
        return sum_points(_line(read, words, layout), filters, words, layout, plain_dot, attrs)
    image = _image(read, words, layout)
    padded = replace(words, top=0, left=0)
    return sum_windows(image, filters, padded, layout, plain_dot, attrs)


class _CodeWords:
    """An image of codes, read as words: ``[batch, word, row, column]``."""

    dtype = "int32"

    def __init__(self, data: te.Tensor, codes: Codes, shape: ConvShape) -> None:
        self._data = OneRow(data, shape.rows_of) if shape.flat else data
        self._offset, self._channels = codes.offset, shape.channels
        filled = [codes.zero + codes.offset] * WORD
        word = sum(byte << 8 * place for place, byte in enumerate(filled))
        self.zero = tirx.const(int(np.uint32(word).astype(np.int32)), "int32")

    def __getitem__(self, index: tuple[Expr, Expr, Expr, Expr]) -> Expr:
        b, q, y, x = index
        word = None
        for place in range(min(WORD, self._channels)):
            byte = self._code(b, q * WORD + place, place, y, x)
            moved = tirx.shift_left(byte, tirx.const(8 * place, "int32")) if place else byte
            word = moved if word is None else tirx.bitwise_or(word, moved)
        return word

    def _code(self, b: Expr, channel: Expr, place: int, y: Expr, x: Expr) -> Expr:
        """A channel's code, 0 for one behind the last: its weights are 0."""
        code = tirx.Cast("int32", self._data[b, channel, y, x])
        if self._offset:
            code = code + tirx.const(self._offset, "int32")
        if self._channels <= WORD or place < (self._channels % WORD or WORD):
            return code
        return tirx.if_then_else(channel < self._channels, code, tirx.const(0, "int32"))


def _line(read: _CodeWords, shape: ConvShape, layout: PackedLayout) -> Callable[..., Expr]:
    """Words of the points of 1x1 windows, those beyond the last one zero."""
    (sy, sx), width, points = shape.stride, shape.out_width, layout.points

    def value(b: Expr, q: Expr, p: Expr) -> Expr:
        word = read[b, q, (p // width) * sy, (p % width) * sx]
        return word if points == shape.points else tirx.if_then_else(p < shape.points, word, 0)

    kind = GATHER if points == shape.points else PAD
    extents = (shape.batch, shape.channels, points)
    line = te.compute(extents, value, name="words", attrs=role(kind))
    return lambda b, q, p: line[b, q, p]


def _image(read: _CodeWords, shape: ConvShape, layout: PackedLayout) -> Any:
    """Words of an image with zero points around it, as many rows and columns as windows touch."""
    rows = (shape.out_height - 1) * shape.stride[0] + shape.reach[0] + 1
    columns = columns_of(shape, layout) * shape.stride[1]
    top, left, height, width = shape.top, shape.left, shape.height, shape.width
    limits = [
        (lambda y, _: y >= top, top > 0),
        (lambda y, _: y < top + height, rows > top + height),
        (lambda _, x: x >= left, left > 0),
        (lambda _, x: x < left + width, columns > left + width),
    ]
    binding = [condition for condition, is_binding in limits if is_binding]
    if not binding and shape.stride[1] > 1:
        return read  # made when columns are sorted

    def value(b: Expr, q: Expr, y: Expr, x: Expr) -> Expr:
        word = read[b, q, y - top, x - left]
        if not binding:
            return word
        inside = tirx.all(*(condition(y, x) for condition in binding))
        return tirx.if_then_else(inside, word, read.zero)

    kind = role(PAD if binding else GATHER)
    if shape.flat:
        extents: tuple[int, ...] = (shape.batch, shape.channels, columns)
        row = te.compute(extents, lambda b, q, x: value(b, q, 0, x), name="words", attrs=kind)
        return OneRow(row, None)
    return te.compute((shape.batch, shape.channels, rows, columns), value, name="words", attrs=kind)


class _Centred:
    """Codes of an image less their zero point, in float32."""

    dtype = "float32"

    def __init__(self, data: te.Tensor, zero: int) -> None:
        self._data, self._zero = data, zero

    def __getitem__(self, index: tuple[Expr, ...]) -> Expr:
        value = tirx.Cast("float32", self._data[index])
        return value - tirx.const(float(self._zero), "float32") if self._zero else value


def _depthwise(
    bb: relax.BlockBuilder,
    codes: Codes,
    weights: NDArray[np.int8],
    shape: ConvShape,
    units: Sequence[VectorUnit],
) -> relax.Expr | None:
    """A depthwise convolution in float32; None where that does not hold every sum."""
    window = shape.depthwise
    if window is None or not float_holds_sums(weights, codes.farthest):
        return None
    made = make_depthwise(
        bb,
        codes.data,
        weights.astype(np.float32),
        window,
        units,
        lambda data: _Centred(data, codes.zero),
    )
    return None if made is None else bb.emit(relax.op.astype(bb.emit(made), "int32"))
