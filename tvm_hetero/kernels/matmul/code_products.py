"""Products of whole numbers that were codes of eight bits a moment ago.

    (int32(codes) - zero) @ weights        with constant weights; zero may be known only later

Where every target multiplies pairs of bytes or of 16 bits, the codes are unsigned and the weights
signed bytes, that is `bytes_dense`. Elsewhere (ARM without more, GPUs) it is one of floats, as long
as float32 holds every sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax

from tvm_hetero.kernels.cpu.coded_values import (
    CodedValue,
    find_codes,
    float_holds_sums,
    multiplies_bytes,
)
from tvm_hetero.kernels.matmul.bytes_dense import MOST_DEPTH, bytes_dense, less_zero_point
from tvm_hetero.kernels.matmul.matmul import matmul
from tvm_hetero.kernels.matmul.product import static_extents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.legalization import Legalization


def multiply_codes(call: relax.Call, use: Legalization) -> relax.Expr | None:
    """The kernel of a product in int32, or None where it is of no codes, or too large a one.

    Parameters
    ----------
    call
        Of ``relax.matmul``.
    use
        What a rule may use.
    """
    weights = use.known(call.args[1])
    found = None if weights is None else find_codes(use.builder, call.args[0])
    if weights is None or found is None or weights.ndim != 2:
        return None
    extents = static_extents(found.codes.ty)
    if len(extents) > 1 and min(extents) > 0 and _is_of_bytes(found, weights, use):
        total = bytes_dense(use.builder, found.codes, weights)
        if found.zero is None:
            return total
        return less_zero_point(use.builder, total, found.zero, weights)
    return _in_floats(found, weights, use)


def _is_of_bytes(found: CodedValue, weights: NDArray[Any], use: Legalization) -> bool:
    signed = weights.min() >= -128 and weights.max() <= 127 and len(weights) <= MOST_DEPTH
    return bool(signed) and str(found.codes.ty.dtype) == "uint8" and multiplies_bytes(use)


def _in_floats(found: CodedValue, weights: NDArray[Any], use: Legalization) -> relax.Expr | None:
    """The product in float32, exact; None where float32 does not hold every sum."""
    least, most = found.range
    if not float_holds_sums(weights.T, most - least):
        return None
    numbers = use.builder.emit(relax.op.astype(found.codes, "float32"))
    if found.zero is not None:
        zero = use.builder.emit(relax.op.astype(use.emitted(found.zero), "float32"))
        numbers = use.builder.emit(relax.op.subtract(numbers, zero))
    constant = relax.const(tvm.runtime.tensor(weights.astype(np.float32)))
    plain = use.builder.normalize(relax.op.matmul(numbers, constant))
    packed = matmul(use.builder, plain, use.known, use.units)
    total = use.builder.emit(plain if packed is None else packed)
    return relax.op.astype(total, "int32")
