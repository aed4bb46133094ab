"""conv2d with constant weights as a packed multiply-accumulate.

Stages of the kernel, each a block whose annotation ``tvm_hetero.role`` says what it is, so that
`packed` can schedule it after fusion has renamed everything:

    pad         the data with their zeros around (only where there is padding)
    gather      stride s > 1: columns sorted by ``x mod s``, so that neighbours in the output are
                neighbours in memory; 1x1: rows joined into one line of points
    accumulate  acc[b, o // B, y, x, o % B], over input channels and the window
    unpack      back to NCHW

A 1x1 convolution has no window, so its rows are joined: ``points = OH * OW``, which has better
divisors than OW alone (7 x 7 = 49 points tile by 7; 28 x 28 = 784 by 16 lanes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from .packing import Layout, choose_layout, pack_conv2d
from .roles import ACCUMULATE, GATHER, PAD, UNPACK, role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .facts import VectorUnit


@dataclass(frozen=True)
class _Shape:
    """Extents of one convolution; ``top`` and ``left`` are padding, ``stride`` is (y, x)."""

    batch: int
    channels: int
    height: int
    width: int
    out_channels: int
    group_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    top: int
    left: int
    out_height: int
    out_width: int
    groups: int

    @property
    def pointwise(self) -> bool:
        return self.kernel == (1, 1) and not (self.top or self.left)

    @property
    def points(self) -> int:
        return self.out_height * self.out_width if self.pointwise else self.out_width


def packed_conv2d(
    bb: relax.BlockBuilder, call: relax.Call, weight: NDArray[Any], units: Sequence[VectorUnit]
) -> relax.Expr | None:
    """The call as a packed kernel, or None where this rule does not fit.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    call
        A call of ``relax.nn.conv2d``.
    weight
        Its weights, ``[O, I / groups, KH, KW]``.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    """
    shape = _shape_of(call, weight)
    if shape is None:
        return None
    depth = shape.group_channels * shape.kernel[0] * shape.kernel[1]
    layout = choose_layout(
        shape.out_channels // shape.groups,
        shape.points,
        depth,
        units,
        groups=shape.groups,
        staged=shape.stride[1] > 1 or shape.top + shape.left > 0,
    )
    if layout is None:
        return None
    packed = relax.const(pack_conv2d(weight, shape.groups, layout.block))
    return bb.call_te(
        lambda data, filters: _compute(data, filters, shape, layout),
        call.args[0],
        packed,
        primfunc_name_hint="conv2d",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias, residual and relu join it
    )


def _shape_of(call: relax.Call, weight: NDArray[Any]) -> _Shape | None:
    attrs, data = call.attrs, call.args[0].ty
    extents = [int(e) if isinstance(e, int | tirx.IntImm) else 0 for e in data.shape or ()]
    plain = (
        attrs.data_layout == "NCHW"
        and attrs.kernel_layout == "OIHW"
        and str(attrs.out_layout) in ("", "NCHW")
        and str(data.dtype) == str(weight.dtype) == "float32"
        and all(int(d) == 1 for d in attrs.dilation)
        and len(extents) == 4
        and min(extents) > 0
    )
    if not plain or _is_depthwise(weight, int(attrs.groups)):
        return None
    batch, channels, height, width = extents
    out_channels, group_channels, kh, kw = weight.shape
    top, left, bottom, right = (int(p) for p in attrs.padding)
    sy, sx = (int(s) for s in attrs.strides)
    return _Shape(
        batch, channels, height, width, out_channels, group_channels, (kh, kw), (sy, sx), top, left,
        (height + top + bottom - kh) // sy + 1, (width + left + right - kw) // sx + 1,
        int(attrs.groups),
    )  # fmt: skip


def _is_depthwise(weight: NDArray[Any], groups: int) -> bool:
    """One channel in and one out for each group: no reduction worth packing (see `windows`)."""
    return groups > 1 and bool(weight.shape[1] == 1)


def _compute(data: te.Tensor, filters: te.Tensor, shape: _Shape, layout: Layout) -> te.Tensor:
    if shape.pointwise:
        return _pointwise(data, filters, shape, layout)
    return _windowed(data, filters, shape, layout)


def _pointwise(data: te.Tensor, filters: te.Tensor, shape: _Shape, layout: Layout) -> te.Tensor:
    width, source = shape.out_width, _line(data, shape, layout)
    ic = te.reduce_axis((0, shape.group_channels), "ic")
    channel = _input_channel(filters, shape)
    acc = te.compute(
        (shape.batch, int(filters.shape[0]), layout.points, layout.block),
        lambda b, o, p, i: te.sum(
            source(b, channel(o, ic), p) * filters[o, ic, 0, 0, i], axis=[ic]
        ),
        name="accumulate",
        attrs=role(ACCUMULATE),
    )
    outer, inner = _output_channel(shape, layout)
    return te.compute(
        (shape.batch, shape.out_channels, shape.out_height, width),
        lambda b, c, y, x: acc[b, outer(c), y * width + x, inner(c)],
        name="unpack",
        attrs=role(UNPACK),
    )


def _line(data: te.Tensor, shape: _Shape, layout: Layout) -> Callable[..., Any]:
    """Read access to the image as one line of ``layout.points`` points, those beyond it zero."""
    (sy, sx), width, points = shape.stride, shape.out_width, layout.points

    def read(b: Any, c: Any, p: Any) -> Any:
        return data[b, c, (p // width) * sy, (p % width) * sx]

    if points == shape.points and sy == sx == 1:
        return read
    if points == shape.points:
        value, kind = read, GATHER
    else:
        zero, kind = tirx.const(0, data.dtype), PAD

        def value(b: Any, c: Any, p: Any) -> Any:
            return tirx.if_then_else(p < shape.points, read(b, c, p), zero)

    extents = (shape.batch, shape.channels, points)
    return te.compute(extents, value, name=kind, attrs=role(kind))


def _windowed(data: te.Tensor, filters: te.Tensor, shape: _Shape, layout: Layout) -> te.Tensor:
    (kh_extent, kw_extent), (sy, sx) = shape.kernel, shape.stride
    columns = layout.points + (kw_extent - 1) // sx  # of one phase x mod sx
    source = _sort_columns(_pad_image(data, shape, columns * sx), shape, columns)
    ic = te.reduce_axis((0, shape.group_channels), "ic")
    kh = te.reduce_axis((0, kh_extent), "kh")
    kw = te.reduce_axis((0, kw_extent), "kw")
    channel = _input_channel(filters, shape)

    def read(b: Any, c: Any, y: Any, x: Any) -> Any:
        return source[b, c, y, x + kw] if sx == 1 else source[b, c, y, kw % sx, x + kw // sx]

    acc = te.compute(
        (shape.batch, int(filters.shape[0]), shape.out_height, layout.points, layout.block),
        lambda b, o, y, x, i: te.sum(
            read(b, channel(o, ic), y * sy + kh, x) * filters[o, ic, kh, kw, i], axis=[ic, kh, kw]
        ),
        name="accumulate",
        attrs=role(ACCUMULATE),
    )
    outer, inner = _output_channel(shape, layout)
    return te.compute(
        (shape.batch, shape.out_channels, shape.out_height, shape.out_width),
        lambda b, c, y, x: acc[b, outer(c), y, x, inner(c)],
        name="unpack",
        attrs=role(UNPACK),
    )


def _pad_image(data: te.Tensor, shape: _Shape, columns: int) -> te.Tensor:
    """Zeros around the image: ``columns`` wide, as many rows as the windows touch."""
    rows = (shape.out_height - 1) * shape.stride[0] + shape.kernel[0]
    top, left, height, width = shape.top, shape.left, shape.height, shape.width
    if not (top or left) and rows <= height and columns <= width:
        return data
    zero = tirx.const(0, data.dtype)

    def value(b: Any, c: Any, y: Any, x: Any) -> Any:
        limits = [
            (y >= top, top > 0),
            (y < top + height, rows > top + height),
            (x >= left, left > 0),
            (x < left + width, columns > left + width),
        ]
        inside = tirx.all(*(condition for condition, binding in limits if binding))
        return tirx.if_then_else(inside, data[b, c, y - top, x - left], zero)

    return te.compute(
        (shape.batch, shape.channels, rows, columns), value, name="pad", attrs=role(PAD)
    )


def _sort_columns(image: te.Tensor, shape: _Shape, columns: int) -> te.Tensor:
    """Columns of a strided convolution by phase: ``[b, c, y, x mod s, x // s]``."""
    s = shape.stride[1]
    if s == 1:
        return image
    rows = (shape.out_height - 1) * shape.stride[0] + shape.kernel[0]
    return te.compute(
        (shape.batch, shape.channels, rows, s, columns),
        lambda b, c, y, q, u: image[b, c, y, u * s + q],
        name="gather",
        attrs=role(GATHER),
    )


def _input_channel(filters: te.Tensor, shape: _Shape) -> Callable[[Any, Any], Any]:
    if shape.groups == 1:
        return lambda _o, ic: ic
    blocks = int(filters.shape[0]) // shape.groups
    return lambda o, ic: (o // blocks) * shape.group_channels + ic


def _output_channel(
    shape: _Shape, layout: Layout
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Block and place in the block of an output channel.

    `choose_layout` never pads grouped channels, so one division serves for all cases.
    """
    return (lambda c: c // layout.block), (lambda c: c % layout.block)
