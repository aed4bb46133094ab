"""Weights on their way to a kernel: arranged in numpy where they are constant, else by operators.

A model's weights are nearly always constants, and are arranged once then, while it is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_hetero.kernels.tir.array_values import array_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def constant_of(values: Array) -> relax.Expr:
    """Numbers that the graph carries, of the type that they have."""
    return relax.const(tvm.runtime.tensor(np.ascontiguousarray(values)))


def value_of(expr: relax.Expr) -> Array | None:
    """The numbers of a constant; None for anything else."""
    return array_of(expr.value) if isinstance(expr, GenericConst) else None


def extents_of(expr: relax.Expr) -> list[int]:
    """The shape of a tensor that has a known one."""
    return [int(extent) for extent in expr.ty.shape]


def take_direction(bb: relax.BlockBuilder, x: relax.Expr, d: int) -> relax.Expr:
    """``x[d]``."""
    value = value_of(x)
    if value is not None:
        return constant_of(value[d])
    shape = extents_of(x)
    part = bb.emit(relax.op.strided_slice(x, [0], [d], [d + 1])) if shape[0] > 1 else x
    return bb.emit(relax.op.reshape(part, shape[1:]))


def take_rows(bb: relax.BlockBuilder, x: relax.Expr, rows: NDArray[np.int64]) -> relax.Expr:
    """Rows of ``x``, of which one more than there are stands for zeros."""
    value = value_of(x)
    shape = extents_of(x)
    zeros = np.zeros([1, *shape[1:]], str(x.ty.dtype))
    if value is not None:
        return constant_of(np.concatenate([value, zeros])[rows])
    if int(rows.max()) == shape[0]:
        x = bb.emit(relax.op.concat([x, constant_of(zeros)], axis=0))
    return bb.emit(relax.op.take(x, constant_of(rows), axis=0, mode="clip"))


def slice_rows(bb: relax.BlockBuilder, x: relax.Expr, begin: int, end: int) -> relax.Expr:
    """``x[begin:end]``."""
    value = value_of(x)
    if value is not None:
        return constant_of(value[begin:end])
    if (begin, end) == (0, extents_of(x)[0]):
        return x
    return bb.emit(relax.op.strided_slice(x, [0], [begin], [end]))


def add(bb: relax.BlockBuilder, one: relax.Expr, other: relax.Expr) -> relax.Expr:
    """The sum of two tensors of one shape."""
    values = value_of(one), value_of(other)
    if values[0] is not None and values[1] is not None:
        return constant_of(values[0] + values[1])
    return bb.emit(relax.op.add(one, other))


def turn(
    bb: relax.BlockBuilder,
    x: relax.Expr,
    shape: Sequence[int],
    axes: Sequence[int],
    result: Sequence[int],
) -> relax.Expr:
    """``x`` as a tensor of a shape, with its axes in another order, as a tensor of another one."""
    value = value_of(x)
    if value is not None:
        return constant_of(value.reshape(shape).transpose(axes).reshape(result))
    moved = [axis for axis in axes if shape[axis] > 1]
    if moved != sorted(moved):
        x = bb.emit(relax.op.permute_dims(reshape(bb, x, shape), list(axes)))
    return reshape(bb, x, result)


def reshape(bb: relax.BlockBuilder, x: relax.Expr, shape: Sequence[int]) -> relax.Expr:
    """``x`` in another shape; as it is where it has that."""
    value = value_of(x)
    if value is not None:
        return constant_of(value.reshape(shape))
    return x if extents_of(x) == list(shape) else bb.emit(relax.op.reshape(x, list(shape)))


def join(bb: relax.BlockBuilder, parts: Sequence[relax.Expr], axis: int) -> relax.Expr:
    """Tensors one after the other along an axis."""
    values = [value_of(part) for part in parts]
    if len(parts) == 1:
        return parts[0]
    if all(value is not None for value in values):
        return constant_of(np.concatenate([v for v in values if v is not None], axis))
    return bb.emit(relax.op.concat(list(parts), axis=axis))


def cast_to(bb: relax.BlockBuilder, x: relax.Expr, dtype: str) -> relax.Expr:
    """``x`` in another type; as it is where it has that."""
    if str(x.ty.dtype) == dtype:
        return x
    value = value_of(x)
    if value is not None:
        return constant_of(value.astype(dtype))
    return bb.emit(relax.op.astype(x, dtype))
