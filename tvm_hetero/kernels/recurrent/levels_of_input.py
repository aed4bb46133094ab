"""The product of an input in levels (``(codes - zero) * scale``) and weights in bytes, in integers.

The input is a tensor of float32 for whoever reads the graph; how it was made is found again here.
Its codes are multiplied as they are (`matmul.bytes_dense`), and both factors come after the sum,
as ONNX Runtime has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import relax

from tvm_hetero.kernels.matmul.bytes_dense import MOST_DEPTH, bytes_dense, less_zero_point
from tvm_hetero.kernels.recurrent.operands import constant_of, extents_of, reshape

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class InputLevels:
    """An input's codes (uint8), zero point (float32) and scale; scalars but for the codes."""

    codes: relax.Expr
    zero: relax.Expr
    scale: relax.Expr

    def product(
        self, bb: relax.BlockBuilder, weights: NDArray[Any], factors: NDArray[Any]
    ) -> relax.Var:
        """The input as rows, times weights ``[I, columns]``, each column times its factor."""
        rows = reshape(bb, self.codes, [-1, weights.shape[0]])
        total = bytes_dense(bb, rows, weights)
        total = less_zero_point(bb, total, self.zero, weights)
        number = bb.emit(relax.op.astype(total, "float32"))
        factor = bb.emit(relax.op.multiply(constant_of(factors), self.scale))
        return bb.emit(relax.op.multiply(number, factor))


def input_levels(bb: relax.BlockBuilder, x: relax.Expr) -> InputLevels | None:
    """How an input was made, if it is levels of bytes: None for any other."""
    product = _call(bb, x, "relax.multiply")
    centred = None if product is None else _call(bb, product.args[0], "relax.subtract")
    if product is None or centred is None:
        return None
    number, zero = centred.args
    cast = _call(bb, number, "relax.astype")
    scalars = not extents_of(zero) and not extents_of(product.args[1])
    if cast is None or str(cast.args[0].ty.dtype) != "uint8" or not scalars:
        return None
    if extents_of(cast.args[0])[-1] > MOST_DEPTH:
        return None
    return InputLevels(cast.args[0], zero, product.args[1])


def _call(bb: relax.BlockBuilder, expr: relax.Expr, operator: str) -> relax.Call | None:
    """The call of an operator that a variable stands for."""
    found = bb.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
    is_it = isinstance(found, relax.Call) and getattr(found.op, "name", "") == operator
    return found if is_it else None
