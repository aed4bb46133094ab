"""Convolutions of whole numbers that were codes of eight bits a moment ago.

    conv(int32(codes) - zero, weights)        with constant weights

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.legalization import Legalization

    Known = Callable[[Any], NDArray[Any] | None]

_CODES = {"uint8": (0, 255), "int8": (-128, 127)}
# All whole numbers up to here are numbers of float32.
_EXACT = 2**24
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
    codes = None if weights is None else find_codes(use.builder, call.args[0], use.known)
    if weights is None or codes is None:
        return None
    shape = shape_of(call, weights, plain_sums=True, dtype="int32")
    if shape is not None and _fits(weights, use):
        made = bytes_convolution(use.builder, codes, weights.astype(np.int8), shape, use.units)
        if made is not None:
            return made
    return _in_floats(call, codes, weights, use)


def _fits(weights: NDArray[Any], use: Legalization) -> bool:
    """Whether weights are signed bytes, and every target multiplies them by instructions for it."""
    of_bytes = weights.min() >= -128 and weights.max() <= 127 and weights[0].size <= _MOST_STEPS
    return bool(of_bytes) and not use.on_gpus and all(unit.pairs for unit in use.units)


def find_codes(bb: relax.BlockBuilder, data: relax.Expr, known: Known) -> Codes | None:
    """The codes that a value of int32 was made of; None where it was made otherwise."""
    zero, found = 0, _made_by(bb, data, "relax.subtract")
    if found is not None:
        constant = known(found.args[1])
        if constant is None or constant.size != 1:
            return None
        zero, data = int(constant.reshape(())), found.args[0]
    cast = _made_by(bb, data, "relax.astype")
    if cast is None or str(cast.args[0].ty.dtype) not in _CODES:
        return None
    least, most = _CODES[str(cast.args[0].ty.dtype)]
    return Codes(cast.args[0], zero) if least <= zero <= most else None


def _made_by(bb: relax.BlockBuilder, value: relax.Expr, operator: str) -> relax.Call | None:
    """The call of an operator that a variable stands for, None for other values."""
    made = bb.lookup_binding(value) if isinstance(value, relax.Var) else None
    is_one = isinstance(made, relax.Call) and getattr(made.op, "name", "") == operator
    return made if is_one else None


def _in_floats(
    call: relax.Call, codes: Codes, weights: NDArray[Any], use: Legalization
) -> relax.Expr | None:
    """The convolution in float32, exact; None where float32 does not hold every sum."""
    least, most = _CODES[str(codes.data.ty.dtype)]
    magnitude = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1).max()
    if int(magnitude) * max(codes.zero - least, most - codes.zero) > _EXACT:
        return None
    numbers = use.builder.emit(relax.op.astype(codes.data, "float32"))
    if codes.zero:
        zero = relax.const(float(codes.zero), "float32")
        numbers = use.builder.emit(relax.op.subtract(numbers, zero))
    filters = weights.astype(np.float32)
    operands = [numbers, relax.const(tvm.runtime.tensor(filters))]
    attrs = call.attrs
    convolve = relax.op.nn.conv1d if call.op.name == "relax.nn.conv1d" else relax.op.nn.conv2d
    plain = use.builder.normalize(
        convolve(
            *operands,
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
