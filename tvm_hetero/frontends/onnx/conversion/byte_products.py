"""``MatMulInteger`` of bytes with constant weights, as a product of whole numbers.

Only such nodes are left after expansion (`model.byte_weights`). What kernel it has is decided with
the targets (`kernels.matmul.code_products`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.frontends.onnx.model.byte_weights import byte_weights

if TYPE_CHECKING:
    from tvm import relax


@converts("MatMulInteger")
def convert_mat_mul_integer(c: Conversion) -> relax.Expr:
    """Sums in int32."""
    import tvm
    from tvm import relax

    given = c.constant_of(1, "weights"), c.constant(3)
    weights = byte_weights(*given)
    if weights is None or c.dtype(0) != "uint8":
        c.refuse("multiplies no unsigned bytes by constant signed ones")
    dims = c.dims(0)
    codes = c.operand(0) if len(dims) > 1 else c.reshaped(c.operand(0), [1, *dims])
    numbers = c.cast(codes, "int32")
    zero, known = c.optional(2), c.constant(2)
    if zero is not None and (known is None or known.any()):
        numbers = c.emit(relax.op.subtract(numbers, c.cast(c.reshaped(zero, []), "int32")))
    constant = relax.const(tvm.runtime.tensor(weights.astype(np.int32)))
    total = c.emit(relax.op.matmul(numbers, constant, out_dtype="int32"))
    return total if len(dims) > 1 else c.reshaped(total, [weights.shape[1]])
