"""``ConvInteger`` of bytes with constant weights, as a convolution of whole numbers.

Only such nodes are left after expansion (`quantized.convolutions`), with their pads written out.
What kernel it has is decided with the targets (`kernels.convolution.conv_codes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.frontends.onnx.model.byte_weights import byte_filters

if TYPE_CHECKING:
    from tvm import relax


@converts("ConvInteger")
def convert_conv_integer(c: Conversion) -> relax.Expr:
    """Sums in int32."""
    import tvm
    from tvm import relax

    weights = byte_filters(c.constant_of(1, "weights"), c.constant(3))
    zero = c.constant(2)
    unknown = c.optional(2) is not None and zero is None
    if weights is None or unknown or c.dtype(0) not in ("uint8", "int8"):
        c.refuse("convolves no bytes with constant signed ones and a constant zero point")
    numbers = c.cast(c.operand(0), "int32")
    if zero is not None and zero.any():
        offset = relax.const(int(zero.reshape(())), "int32")
        numbers = c.emit(relax.op.subtract(numbers, offset))
    rank = weights.ndim - 2
    convolve = relax.op.nn.conv1d if rank == 1 else relax.op.nn.conv2d
    total = convolve(
        numbers,
        relax.const(tvm.runtime.tensor(weights.astype(np.int32))),
        strides=list(c.attribute("strides") or [1] * rank),
        padding=list(c.attribute("pads") or [0] * 2 * rank),
        dilation=list(c.attribute("dilations") or [1] * rank),
        groups=int(c.attribute("group", 1)),
    )
    return c.emit(total)
