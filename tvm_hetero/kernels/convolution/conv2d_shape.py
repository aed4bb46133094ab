"""Extents of a convolution, read off a call of Relax."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx

from tvm_hetero.kernels.convolution.depthwise import Depthwise

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Columns of a row that are many tiles by themselves: joined, rows of 3136 were 3 % slower.
_WIDE = 256


@dataclass(frozen=True)
class ConvShape:
    """Extents of one convolution; ``top`` and ``left`` are padding, pairs are (y, x)."""

    batch: int
    channels: int
    height: int
    width: int
    out_channels: int
    group_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    out_height: int
    out_width: int
    groups: int
    plain_sums: bool = False
    flat: bool = False  # conv1d: an image of one row, without a dimension for it
    rows_of: int | None = None  # flat, but read and written as rows of so many columns

    @property
    def pointwise(self) -> bool:
        below = self.height - (self.out_height - 1) * self.stride[0]
        right = self.width - (self.out_width - 1) * self.stride[1]
        inside = min(below, right) > 0 and not (self.top or self.left)
        return self.kernel == (1, 1) and inside

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns beyond the first that a window touches."""
        (kh, kw), (dy, dx) = self.kernel, self.dilation
        return (kh - 1) * dy, (kw - 1) * dx

    @property
    def depthwise(self) -> Depthwise | None:
        """The convolution as a depthwise one, where each group has one input channel."""
        if self.groups == 1 or self.group_channels > 1 or self.flat:
            return None
        return Depthwise(
            self.batch, self.channels, (self.height, self.width), self.out_channels // self.groups,
            self.kernel, self.stride, self.dilation, (self.top, self.left),
            (self.out_height, self.out_width),
        )  # fmt: skip

    @property
    def depth(self) -> int:
        """Steps of a sum."""
        return self.group_channels * self.kernel[0] * self.kernel[1]

    @property
    def points(self) -> int:
        return self.out_height * self.out_width if self.pointwise else self.out_width


def shape_of(
    call: relax.Call, weight: NDArray[Any], plain_sums: bool, dtype: str = "float32"
) -> ConvShape | None:
    """The extents of a call, None where the rule does not fit: other layouts, types, empty tensors.

    Parameters
    ----------
    call
        Of ``relax.nn.conv2d`` or ``relax.nn.conv1d``.
    weight
        Its weights.
    plain_sums
        See `conv2d.emit_packed_conv2d`.
    dtype
        Of both sides and of the result.
    """
    attrs, data = call.attrs, call.args[0].ty
    extents = [int(e) if isinstance(e, int | tirx.IntImm) else 0 for e in data.shape or ()]
    flat = call.op.name == "relax.nn.conv1d"
    layout, kernel_layout = ("NCW", "OIW") if flat else ("NCHW", "OIHW")
    plain = (
        attrs.data_layout == layout
        and attrs.kernel_layout == kernel_layout
        and str(attrs.out_layout) in ("", layout)
        and str(data.dtype) == str(weight.dtype) == str(call.ty.dtype) == dtype
        and len(extents) == len(layout)
        and min(extents) > 0
        and min(weight.shape) > 0
    )
    if not plain:
        return None
    row = [1] if flat else []
    batch, channels, height, width = extents[:2] + row + extents[2:]
    kernel = [int(e) for e in weight.shape]
    out_channels, group_channels, kh, kw = kernel[:2] + row + kernel[2:]
    sy, sx = row + [int(s) for s in attrs.strides]
    dy, dx = row + [int(d) for d in attrs.dilation]
    padding = [int(p) for p in attrs.padding]
    top, left, bottom, right = (0, padding[0], 0, padding[1]) if flat else padding
    shape = ConvShape(
        batch, channels, height, width, out_channels, group_channels, (kh, kw), (sy, sx), (dy, dx),
        top, left,
        (height + top + bottom - (kh - 1) * dy - 1) // sy + 1,
        (width + left + right - (kw - 1) * dx - 1) // sx + 1,
        int(attrs.groups), plain_sums, flat,
    )  # fmt: skip
    return _in_one_row(shape) if _of_columns(shape) else shape


def _of_columns(shape: ConvShape) -> bool:
    """Whether windows are of one column each, and rows could stand behind one another.

    Such windows are those of sound (``[1, channels, length, 1]``) and the second half of a window
    that is taken apart. Rows of one value, or of a few, would leave most of a vector empty.
    """
    one_column = shape.kernel[0] > 1 and shape.kernel[1] == 1
    covered = shape.width == shape.out_width <= _WIDE and shape.stride[1] == 1 and not shape.left
    steps = shape.width == 1 or shape.stride[0] == 1
    return one_column and covered and steps and shape.depthwise is None and not shape.flat


def _in_one_row(shape: ConvShape) -> ConvShape:
    """The same convolution of one row: what is a row further is ``width`` columns further."""
    width = shape.width
    return replace(
        shape, height=1, width=shape.height * width, kernel=(1, shape.kernel[0]),
        stride=(1, shape.stride[0]), dilation=(1, shape.dilation[0] * width),
        top=0, left=shape.top * width, out_height=1, out_width=shape.out_height * width,
        flat=True, rows_of=width,
    )  # fmt: skip
