"""Convolutions with constant weights as packed multiply-accumulates.

Stages of the kernel, each a block whose annotation ``tvm_hetero.role`` says what it is, so that
`packed` can schedule it after fusion has renamed everything:

    pad         the data with their zeros around (only where there is padding)
    gather      stride s > 1: columns sorted by ``x mod s``, so that neighbours in the output are
                neighbours in memory; 1x1: rows joined into one line of points
    accumulate  acc[b, o // B, y, x, o % B], over input channels and the window
    unpack      back to NCHW

A 1x1 convolution has no window, so its rows are joined: ``points = OH * OW`` wastes less in the
last tile than OW does for each row. conv1d is conv2d with one row, and so are windows of one column
(5x1), whose next row is `width` columns further (`conv2d_shape`). Depthwise convolutions have
nothing to pack (`make_depthwise`). Windows of 3x3 that are one apart are marked, since they may be
computed by tiles (`make_winograd`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.convolution.conv2d_shape import ConvShape, shape_of
from tvm_hetero.kernels.convolution.depthwise import make_depthwise
from tvm_hetero.kernels.convolution.packing import PackedLayout, choose_layout, pack_conv2d
from tvm_hetero.kernels.convolution.winograd.match import WINDOW_3X3
from tvm_hetero.kernels.tir.array_values import constant_of
from tvm_hetero.kernels.tir.block_roles import ACCUMULATE, GATHER, PAD, UNPACK, role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit


# Values of float32 in 4 KiB, and in five lines.
_SAME_SET, _APART = 1024, 80

Image = Any  # te.Tensor or OneRow: what is read with four indices
# What a value and a weight add to a sum.
Term = Callable[[Any, Any], Any]


def emit_packed_conv2d(
    bb: relax.BlockBuilder,
    call: relax.Call,
    weight: NDArray[Any],
    units: Sequence[VectorUnit],
    *,
    plain_sums: bool = False,
) -> relax.Expr | None:
    """The call as a packed kernel, or None where this rule does not fit.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    call
        A call of ``relax.nn.conv2d`` or ``relax.nn.conv1d``.
    weight
        Its weights, ``[O, I / groups, KH, KW]`` or ``[O, I / groups, KW]``.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    plain_sums
        Whether it is to be summed up as it is written, never by tiles (`make_winograd`).
    """
    shape = shape_of(call, weight, plain_sums)
    if shape is None:
        return None
    if shape.depthwise is not None:
        return make_depthwise(bb, call.args[0], weight, shape.depthwise, units)
    layout = layout_of(shape, units, staged=shape.stride[1] > 1 or shape.top + shape.left > 0)
    if layout is None:
        return None
    kernel = weight.reshape(*weight.shape[:2], *shape.kernel)
    packed = constant_of(pack_conv2d(kernel, shape.groups, layout.block))
    return bb.call_te(
        lambda data, filters: _compute(data, filters, shape, layout),
        call.args[0],
        packed,
        primfunc_name_hint="conv1d" if shape.flat and not shape.rows_of else "conv2d",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias, residual and relu join it
    )


def layout_of(
    shape: ConvShape, units: Sequence[VectorUnit], *, staged: bool
) -> PackedLayout | None:
    """How the weights of a convolution are packed; see `packing.choose_layout`."""
    channels = shape.out_channels // shape.groups
    return choose_layout(
        channels, shape.points, shape.depth, units, groups=shape.groups, staged=staged
    )


class OneRow:
    """A ``[batch, channel, column]`` tensor, or one of rows, read as an image of one row."""

    def __init__(self, data: te.Tensor, rows_of: int | None) -> None:
        self.data, self.rows_of = data, rows_of
        self.dtype = data.dtype

    def __getitem__(self, index: tuple[Any, Any, Any, Any]) -> Any:
        b, c, _, x = index
        if self.rows_of is None:
            return self.data[b, c, x]
        return self.data[b, c, x // self.rows_of, x % self.rows_of]


def _compute(
    data: te.Tensor, filters: te.Tensor, shape: ConvShape, layout: PackedLayout
) -> te.Tensor:
    source = OneRow(data, shape.rows_of) if shape.flat else data
    if shape.pointwise:
        return sum_points(_line(source, shape, layout), filters, shape, layout)
    image = _pad_image(source, shape, columns_of(shape, layout) * shape.stride[1])
    return sum_windows(image, filters, shape, layout)


def _unpack(read: Callable[..., Any], shape: ConvShape) -> te.Tensor:
    width = shape.rows_of
    if width is not None:
        rows = (shape.batch, shape.out_channels, shape.out_width // width, width)
        return te.compute(
            rows, lambda b, c, y, x: read(b, c, 0, y * width + x), name="unpack", attrs=role(UNPACK)
        )
    if shape.flat:
        extents: tuple[int, ...] = (shape.batch, shape.out_channels, shape.out_width)
        return te.compute(
            extents, lambda b, c, x: read(b, c, 0, x), name="unpack", attrs=role(UNPACK)
        )
    extents = (shape.batch, shape.out_channels, shape.out_height, shape.out_width)
    return te.compute(extents, read, name="unpack", attrs=role(UNPACK))


def sum_points(
    source: Callable[..., Any],
    filters: te.Tensor,
    shape: ConvShape,
    layout: PackedLayout,
    term: Term = mul,
    attrs: Mapping[str, Any] | None = None,
) -> te.Tensor:
    """The sums of 1x1 windows.

    Parameters
    ----------
    source
        The image as one line: read with image, channel and point.
    filters
        Packed weights.
    shape, layout
        Of the convolution.
    term
        What a value and a weight add.
    attrs
        Further attributes of the sums' block.
    """
    width = shape.out_width
    ic = te.reduce_axis((0, shape.group_channels), "ic")
    channel = _input_channel(filters, shape)
    acc = te.compute(
        (shape.batch, int(filters.shape[0]), layout.points, layout.block),
        lambda b, o, p, i: te.sum(
            term(source(b, channel(o, ic), p), filters[o, ic, 0, 0, i]), axis=[ic]
        ),
        name="accumulate",
        attrs=role(ACCUMULATE) | dict(attrs or {}),
    )
    outer, inner = _output_channel(shape, layout)
    return _unpack(lambda b, c, y, x: acc[b, outer(c), y * width + x, inner(c)], shape)


def _line(data: Image, shape: ConvShape, layout: PackedLayout) -> Callable[..., Any]:
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


def sum_windows(
    image: Image,
    filters: te.Tensor,
    shape: ConvShape,
    layout: PackedLayout,
    term: Term = mul,
    attrs: Mapping[str, Any] | None = None,
) -> te.Tensor:
    """The sums of windows over an image that is padded already; as `sum_points` otherwise."""
    (kh_extent, kw_extent), (sy, sx), (dy, dx) = shape.kernel, shape.stride, shape.dilation
    source = _sort_columns(image, shape, columns_of(shape, layout))
    extents = {"ic": shape.group_channels, "kh": kh_extent, "kw": kw_extent}
    # Not those of one step (1x7 windows): TVM 0.27 cannot transform blocks that have them.
    axes = {n: te.reduce_axis((0, e), n) for n, e in extents.items() if e > 1}
    axes = axes or {"ic": te.reduce_axis((0, 1), "ic")}
    ic, kh, kw = (axes.get(name, 0) for name in extents)
    channel = _input_channel(filters, shape)

    def read(b: Any, c: Any, y: Any, x: Any) -> Any:
        at = kw * dx
        return source[b, c, y, x + at] if sx == 1 else source[b, c, y, at % sx, x + at // sx]

    def total(b: Any, o: Any, y: Any, x: Any, i: Any) -> Any:
        value = read(b, channel(o, ic), y * sy + kh * dy, x)
        return te.sum(term(value, filters[o, ic, kh, kw, i]), axis=list(axes.values()))

    outer, inner = _output_channel(shape, layout)
    blocks, points, block = int(filters.shape[0]), layout.points, layout.block
    if shape.flat:  # without the loop over one row, which TVM would not simplify away
        acc = te.compute(
            (shape.batch, blocks, points, block),
            lambda b, o, x, i: total(b, o, 0, x, i),
            name="accumulate",
            attrs=role(ACCUMULATE) | dict(attrs or {}),
        )
        return _unpack(lambda b, c, _, x: acc[b, outer(c), x, inner(c)], shape)
    acc = te.compute(
        (shape.batch, blocks, shape.out_height, points, block),
        total,
        name="accumulate",
        attrs=role(ACCUMULATE) | _window(shape) | dict(attrs or {}),
    )
    return _unpack(lambda b, c, y, x: acc[b, outer(c), y, x, inner(c)], shape)


def columns_of(shape: ConvShape, layout: PackedLayout) -> int:
    """Columns of the padded image, of one phase ``x mod stride``.

    Channels a multiple of 4 KiB apart share a set of the first-level cache. A conv1d reads the
    same few columns of each, and far apart where it is dilated: 3 values 8192 apart of 128
    channels took twice as long as with `_APART` columns more.
    """
    columns = layout.points + shape.reach[1] // shape.stride[1]
    copied = shape.left > 0 or columns * shape.stride[1] > shape.width
    together = shape.flat and copied and columns % _SAME_SET == 0
    return columns + _APART if together else columns


def _window(shape: ConvShape) -> dict[str, Any]:
    """What tells `make_winograd` that it could compute this, and where the image begins."""
    plain = shape.stride == shape.dilation == (1, 1) and shape.groups == 1
    fits = plain and shape.kernel == (3, 3) and not shape.plain_sums
    return {WINDOW_3X3: [shape.top, shape.left]} if fits else {}


def _pad_image(data: Image, shape: ConvShape, columns: int) -> Image:
    """Zeros around the image: ``columns`` wide, as many rows as the windows touch."""
    rows = (shape.out_height - 1) * shape.stride[0] + shape.reach[0] + 1
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


def _sort_columns(image: Image, shape: ConvShape, columns: int) -> Image:
    """Columns of a strided convolution by phase: ``[b, c, y, x mod s, x // s]``."""
    s = shape.stride[1]
    if s == 1:
        return image
    rows = (shape.out_height - 1) * shape.stride[0] + shape.reach[0] + 1
    return te.compute(
        (shape.batch, shape.channels, rows, s, columns),
        lambda b, c, y, q, u: image[b, c, y, u * s + q],
        name="gather",
        attrs=role(GATHER),
    )


def _input_channel(filters: te.Tensor, shape: ConvShape) -> Callable[[Any, Any], Any]:
    if shape.groups == 1:
        return lambda _o, ic: ic
    blocks = int(filters.shape[0]) // shape.groups
    return lambda o, ic: (o // blocks) * shape.group_channels + ic


def _output_channel(
    shape: ConvShape, layout: PackedLayout
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Block and place in the block of an output channel.

    `choose_layout` never pads grouped channels, so one division serves for all cases.
    """
    return (lambda c: c // layout.block), (lambda c: c % layout.block)
