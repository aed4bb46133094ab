"""Operators that make as much as they find: NonZero, Compress, Unique, NonMaxSuppression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.ordered import sortable
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.frontends.onnx.model.axes import checked_axis

if TYPE_CHECKING:
    from tvm import relax

_NUMBER = ((1,), "int64")


@converts("NonZero")
def convert_nonzero(c: Conversion) -> relax.Expr:
    """The places of what is not zero, an axis a row."""
    from tvm_hetero.kernels.ordered.found import nonzero

    dims, dtype = c.dims(0), c.dtype(0)
    rank, room = len(dims), math.prod(dims)
    # A scalar has a place, of no coordinates: there is none to tell.
    if not rank:
        c.refuse("looks for places in a scalar; expected a tensor with axes")
    kernel = nonzero(dims, dtype)
    places, count = c.emit_kernel(kernel, [c.operand(0)], [((rank, room), "int64"), _NUMBER])
    c.count(0, 1, count)
    return places


@converts("Compress")
def convert_compress(c: Conversion) -> relax.Expr:
    """What conditions are true for, along an axis or of all elements."""
    from tvm_hetero.kernels.ordered.found import compress

    dims, dtype = c.dims(0), c.dtype(0)
    if c.attribute("axis") is None:
        dims = (math.prod(dims),)
    if not dims:
        c.refuse("keeps rows of a scalar; expected a tensor with axes")
    axis = checked_axis(c.refuse, int(c.attribute("axis", 0)), len(dims))
    (conditions,) = c.dims(1, 1)
    extents = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]))
    rows = c.reshaped(c.operand(0), extents)
    kernel = compress(extents, conditions, dtype)
    kept, count = c.emit_kernel(kernel, [rows, c.operand(1)], [(extents, dtype), _NUMBER])
    c.count(0, axis, count)
    return c.reshaped(kept, dims)


@converts("Unique")
def convert_unique(c: Conversion) -> list[relax.Expr]:
    """The different elements of a tensor; slices along an axis are compared in vectors only."""
    from tvm_hetero.kernels.ordered.unique import unique

    dims, dtype = c.dims(0), sortable(c.dtype(0))
    if c.attribute("axis") is not None and len(dims) > 1:
        c.refuse("compares slices along an axis; only single elements are compared here")
    size = math.prod(dims)
    whole = ((size,), "int64")
    flat = c.reshaped(c.cast(c.operand(0), dtype), (size,))
    kernel = unique(size, dtype, in_order=c.flag("sorted", 1))
    *made, count = c.emit_kernel(kernel, [flat], [((size,), dtype), whole, whole, whole, _NUMBER])
    for position in (0, 1, 3):
        if c.wants(position):
            c.count(position, 0, count)
    return [c.cast(made[0], c.dtype(0)), *made[1:]]


@converts("NonMaxSuppression")
def convert_non_maximum_suppression(c: Conversion) -> relax.Expr:
    """Batch, class and number of the boxes that are chosen."""
    from tvm_hetero.kernels.ordered.boxes import BoxCounts, non_maximum_suppression

    (batches, boxes, _), classes = c.dims(0, 3), c.dims(1, 3)[1]
    most = c.whole_number(2, "number of boxes") if c.optional(2) is not None else 0
    if most < 1:
        c.refuse(f"chooses {most} boxes of a class, so none")
    counts = BoxCounts(batches, classes, boxes, most)
    has_threshold = c.optional(4) is not None
    kernel = non_maximum_suppression(
        counts, has_threshold=has_threshold, from_centers=c.flag("center_point_box")
    )
    operands = [c.operand(0), c.operand(1), _number(c, 3)]
    if has_threshold:
        operands.append(_number(c, 4))
    chosen, count = c.emit_kernel(kernel, operands, [((counts.room, 3), "int64"), _NUMBER])
    c.count(0, 0, count)
    return chosen


def _number(c: Conversion, position: int) -> relax.Expr:
    """An operand of one float, 0 where it is not there."""
    from tvm import relax
    from tvm.runtime import tensor

    if c.optional(position) is None:
        return relax.const(tensor(np.zeros(1, np.float32)))
    return c.reshaped(c.operand(position), (1,))
