"""Operators whose kernels go one element after the other: TopK, CumSum, CumProd, Det."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.frontends.onnx.model.axes import checked_axis

if TYPE_CHECKING:
    from tvm import relax


@converts("TopK")
def convert_topk(c: Conversion) -> list[relax.Expr]:
    """The first k along an axis; sorted always, since an order of its own is allowed otherwise."""
    from tvm_hetero.kernels.ordered.largest import largest

    dims = c.dims(0)
    axis = checked_axis(c.refuse, int(c.attribute("axis", -1)), len(dims))
    kept = c.whole_number(1, "number of elements")
    if not 1 <= kept <= dims[axis]:
        c.refuse(f"wants {kept} of the {dims[axis]} elements along axis {axis}")
    extents, dtype = _around(dims, axis), sortable(c.dtype(0))
    kernel = largest(extents, kept, dtype, smallest=not c.flag("largest", 1))
    made = (extents[0], kept, extents[2])
    columns = c.reshaped(c.cast(c.operand(0), dtype), extents)
    values, places = c.emit_kernel(kernel, [columns], [(made, dtype), (made, "int64")])
    shape = (*dims[:axis], kept, *dims[axis + 1 :])
    return [c.cast(c.reshaped(values, shape), c.dtype(0)), c.reshaped(places, shape)]


def sortable(dtype: str) -> str:
    """Return the type in which elements are sorted: TVM holds no bfloat16 in a variable."""
    return "float32" if dtype == "bfloat16" else dtype


@converts("CumSum", "CumProd")
def convert_accumulate(c: Conversion) -> relax.Expr:
    """The running sum or product along an axis."""
    from tvm_hetero.kernels.ordered.accumulate import accumulate

    dims, dtype = c.dims(0), c.dtype(0)
    if not dims:
        c.refuse("accumulates along an axis of a scalar, which has none")
    axis = checked_axis(c.refuse, c.whole_number(1, "axis"), len(dims))
    extents = _around(dims, axis)
    kernel = accumulate(
        extents,
        dtype,
        product=c.node.op_type == "CumProd",
        exclusive=c.flag("exclusive"),
        reverse=c.flag("reverse"),
    )
    (made,) = c.emit_kernel(kernel, [c.reshaped(c.operand(0), extents)], [(extents, dtype)])
    return c.reshaped(made, dims)


@converts("Det")
def convert_det(c: Conversion) -> relax.Expr:
    """The determinant of each matrix."""
    from tvm_hetero.kernels.ordered.determinant import determinant

    *outer, rows, columns = c.dims(0)
    if rows != columns:
        c.refuse(f"reads matrices of {rows} x {columns}; expected square ones")
    dtype, count = c.dtype(0), math.prod(outer)
    if dtype not in ("float32", "float64"):
        c.refuse(f"reads {dtype}; expected float32 or float64")
    matrices = c.reshaped(c.operand(0), (count, rows, rows))
    (made,) = c.emit_kernel(determinant(count, rows, dtype), [matrices], [((count,), dtype)])
    return c.reshaped(made, outer)


def _around(dims: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """The extents in front of an axis, along it, and behind it."""
    return math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])
