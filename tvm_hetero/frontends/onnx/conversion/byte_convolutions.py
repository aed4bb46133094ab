"""``ConvInteger`` of bytes with constant weights: `kernels.convolution.bytes_conv2d`.

Only such nodes are left after expansion (`quantized.convolutions`), with their pads written out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.frontends.onnx.model.byte_weights import byte_filters

if TYPE_CHECKING:
    from tvm import relax

    from tvm_hetero.kernels.convolution.bytes_conv2d import Codes
    from tvm_hetero.kernels.convolution.conv2d_shape import ConvShape


@converts("ConvInteger")
def convert_conv_integer(c: Conversion) -> relax.Expr:
    """Sums in int32."""
    from tvm_hetero.kernels.convolution.bytes_conv2d import Codes, bytes_convolution

    weights = byte_filters(c.constant_of(1, "weights"), c.constant(3))
    zero = c.constant(2)
    unknown = c.optional(2) is not None and zero is None
    if weights is None or unknown or c.dtype(0) not in ("uint8", "int8"):
        c.refuse("convolves no bytes with constant signed ones and a constant zero point")
    codes = Codes(c.operand(0), 0 if zero is None else int(zero.reshape(())))
    shape = _shape(c, weights)
    made = bytes_convolution(c.builder, codes, weights, shape)
    return _plain(c, codes, weights, shape) if made is None else made


def _shape(c: Conversion, weights: np.ndarray) -> ConvShape:
    """The extents, of one row where there is one spatial axis."""
    from tvm_hetero.kernels.convolution.conv2d_shape import ConvShape

    rank = weights.ndim - 2
    row = [1] * (2 - rank)
    none = [0] * (2 - rank)
    strides, dilations = (
        row + list(c.attribute(n) or [1] * rank) for n in ("strides", "dilations")
    )
    pads = list(c.attribute("pads") or [0] * 2 * rank)
    before, after = none + pads[:rank], none + pads[rank:]
    batch, channels, *image = c.dims(0)
    image = row + image
    kernel = row + list(weights.shape[2:])
    out = [
        (n + before[i] + after[i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i, n in enumerate(image)
    ]
    return ConvShape(
        batch, channels, image[0], image[1], len(weights), weights.shape[1],
        (kernel[0], kernel[1]), (strides[0], strides[1]), (dilations[0], dilations[1]),
        before[0], before[1], out[0], out[1], int(c.attribute("group", 1)),
        plain_sums=True, flat=rank == 1,
    )  # fmt: skip


def _plain(c: Conversion, codes: Codes, weights: np.ndarray, shape: ConvShape) -> relax.Expr:
    """As a convolution of numbers: in float32 where a window has one channel, else in int32."""
    import tvm
    from tvm import relax

    kind = "float32" if shape.group_channels == 1 else "int32"
    numbers = c.cast(codes.data, kind)
    if codes.zero:
        numbers = c.emit(relax.op.subtract(numbers, relax.const(codes.zero, kind)))
    rank = weights.ndim - 2
    pads = list(c.attribute("pads") or [0] * 2 * rank)
    convolve = relax.op.nn.conv1d if shape.flat else relax.op.nn.conv2d
    total = convolve(
        numbers,
        relax.const(tvm.runtime.tensor(weights.astype(kind))),
        strides=list(shape.stride[2 - rank :]),
        padding=pads,
        dilation=list(shape.dilation[2 - rank :]),
        groups=shape.groups,
    )
    return c.cast(c.emit(total), "int32")
