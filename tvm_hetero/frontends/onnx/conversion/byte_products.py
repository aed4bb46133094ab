"""``MatMulInteger`` of bytes with constant weights: the product of `kernels.matmul.bytes_dense`.

    sum over k of (a[m, k] - z) w[k, n] = sum over k of a[m, k] w[k, n] - z (sum over k of w[k, n])

Only such nodes are left after expansion (`model.byte_weights`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.frontends.onnx.model.byte_weights import byte_weights

if TYPE_CHECKING:
    from tvm import relax


@converts("MatMulInteger")
def convert_mat_mul_integer(c: Conversion) -> relax.Expr:
    """Sums in int32."""
    from tvm_hetero.kernels.matmul.bytes_dense import bytes_dense, less_zero_point

    given = c.constant_of(1, "weights"), c.constant(3)
    weights = byte_weights(*given)
    if weights is None or c.dtype(0) != "uint8":
        c.refuse("multiplies no unsigned bytes by constant signed ones")
    dims = c.dims(0)
    codes = c.operand(0) if len(dims) > 1 else c.reshaped(c.operand(0), [1, *dims])
    total = bytes_dense(c.builder, codes, weights)
    zero = c.optional(2)
    if zero is not None:
        total = less_zero_point(c.builder, total, c.reshaped(zero, []), weights)
    return total if len(dims) > 1 else c.reshaped(total, [weights.shape[1]])
