"""Convolutions of whole numbers that were codes of eight bits a moment ago.

    conv(int32(codes) - zero, weights)        with constant weights and a constant zero

Where every target multiplies pairs of bytes or of 16 bits, and the weights are signed bytes, that
is one of bytes (`bytes_conv2d`). Elsewhere (ARM without more, GPUs) it is one of floats, as long as
float32 holds every sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax

from tvm_hetero.kernels.convolution.bytes_conv2d import Codes, bytes_convolution
from tvm_hetero.kernels.convolution.conv2d import emit_packed_conv2d
from tvm_hetero.kernels.convolution.conv2d_shape import shape_of
from tvm_hetero.kernels.cpu.coded_values import find_codes, float_holds_sums, multiplies_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.legalization import Legalization

# Steps of which a sum of products of bytes fits in 32 bits.
_MOST_STEPS = 2**15


def convolve_codes(call: relax.Call, use: Legalization) -> relax.Expr | None:
    """The kernel of a convolution in int32, or None where it is of no codes, or too large a one.

    Parameters
    ----------
    call
        Of ``relax.nn.conv2d`` or ``relax.nn.conv1d``.
    use
        What a rule may use.
    """
    weights = use.known(call.args[1])
    codes = None if weights is None else _codes(call.args[0], use)
    if weights is None or codes is None:
        return None
    shape = shape_of(call, weights, plain_sums=True, dtype="int32")
    of_bytes = weights.min() >= -128 and weights.max() <= 127 and weights[0].size <= _MOST_STEPS
    if shape is not None and of_bytes and multiplies_bytes(use):
        made = bytes_convolution(use.builder, codes, weights.astype(np.int8), shape, use.units)
        if made is not None:
            return made
    return _in_floats(call, codes, weights, use)


def _codes(data: relax.Expr, use: Legalization) -> Codes | None:
    """The codes that are convolved, with a zero point that is known and is a code."""
    found = find_codes(use.builder, data)
    if found is None:
        return None
    zero = np.zeros(()) if found.zero is None else use.known(found.zero)
    least, most = found.range
    if zero is None or not least <= int(zero) <= most:
        return None
    return Codes(found.codes, int(zero))


def _in_floats(
    call: relax.Call, codes: Codes, weights: NDArray[Any], use: Legalization
) -> relax.Expr | None:
    """The convolution in float32, exact; None where float32 does not hold every sum."""
    if not float_holds_sums(weights, codes.farthest):
        return None
    numbers = use.builder.emit(relax.op.astype(codes.data, "float32"))
    if codes.zero:
        zero = relax.const(float(codes.zero), "float32")
        numbers = use.builder.emit(relax.op.subtract(numbers, zero))
    filters = weights.astype(np.float32)
    attrs = call.attrs
    convolve = relax.op.nn.conv1d if call.op.name == "relax.nn.conv1d" else relax.op.nn.conv2d
    plain = use.builder.normalize(
        convolve(
            numbers,
            relax.const(tvm.runtime.tensor(filters)),
            strides=[int(n) for n in attrs.strides],
            padding=[int(n) for n in attrs.padding],
            dilation=[int(n) for n in attrs.dilation],
            groups=int(attrs.groups),
            data_layout=attrs.data_layout,
            kernel_layout=attrs.kernel_layout,
        )
    )
    packed = emit_packed_conv2d(use.builder, plain, filters, use.units, plain_sums=True)
    total = use.builder.emit(plain if packed is None else packed)
    return relax.op.astype(total, "int32")
