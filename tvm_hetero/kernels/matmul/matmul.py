"""Which kernel a ``relax.matmul`` becomes: by what is constant and by the ranks of the sides.

right side constant             `dense.emit_packed_dense`, packed when the model is compiled
left side constant, or neither  `batch_matmul.batch_matmul`
left side a vector              a matrix of one row
right side a vector             one row times the other side transposed, since a column of
                                results would leave all lanes of the vectors but one idle
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax

from tvm_hetero.kernels.matmul.batch_matmul import batch_matmul
from tvm_hetero.kernels.matmul.dense import emit_packed_dense
from tvm_hetero.kernels.matmul.product import static_extents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Known = Callable[[Any], NDArray[Any] | None]


def matmul(
    bb: relax.BlockBuilder, call: relax.Call, known: Known, units: Sequence[VectorUnit]
) -> relax.Expr | None:
    """The call as one of our kernels, or None where none fits.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    call
        A call of ``relax.matmul``.
    known
        The value of an argument where it is constant, else None.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    """
    a, b = call.args
    shapes = static_extents(a.ty), static_extents(b.ty)
    if not all(shape and min(shape) > 0 for shape in shapes):
        return None
    if known(a) is not None and known(b) is not None:
        return None
    if len(shapes[1]) == 1:
        result = _times_vector(bb, call, known, units)
    elif len(shapes[0]) == 1:
        row = bb.emit(relax.op.reshape(a, (1, *shapes[0])))
        result = _matrices(bb, row, b, call, known, units)
    else:
        return _matrices(bb, a, b, call, known, units)
    return None if result is None else relax.op.reshape(bb.emit(result), call.ty.shape)


def _matrices(
    bb: relax.BlockBuilder,
    a: relax.Expr,
    b: relax.Expr,
    call: relax.Call,
    known: Known,
    units: Sequence[VectorUnit],
) -> relax.Expr | None:
    weight, dtype = known(b), str(call.ty.dtype)
    if weight is not None:
        return emit_packed_dense(bb, a, weight, dtype, units)
    return batch_matmul(bb, a, b, dtype, units)


def _times_vector(
    bb: relax.BlockBuilder, call: relax.Call, known: Known, units: Sequence[VectorUnit]
) -> relax.Expr | None:
    a, b = call.args
    *leading, depth = static_extents(a.ty)
    rows, dtype = math.prod(leading), str(call.ty.dtype)
    row = bb.emit(relax.op.reshape(b, (1, depth)))
    weight = known(a)
    if weight is not None:
        return emit_packed_dense(bb, row, weight.reshape(rows, depth).T, dtype, units)
    matrix = bb.emit(relax.op.reshape(a, (rows, depth)))
    return batch_matmul(bb, row, bb.emit(relax.op.permute_dims(matrix)), dtype, units)
