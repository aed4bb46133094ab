"""Indices that may be counted from the end: -1 is the last place.

TVM's importer of ONNX writes ``where(i < 0, i + n, i)`` before each gather and scatter, with a
length ``n`` that it reads from the shape when the model runs: four kernels, after which no one
knows which index the model was given. `recover_indices` finds that expression and gives ``i`` back,
so that our own kernels (`gather`, `scatter`) count from the end by themselves, and
errors name the index as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, tirx

from tvm_hetero.kernels.tir.statements import wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Known = Callable[[Any], NDArray[Any] | None]


def recover_indices(
    builder: relax.BlockBuilder, known: Known, indices: relax.Expr, lengths: Sequence[int]
) -> relax.Expr | None:
    """What ``indices`` were before those below 0 were counted from the end.

    Parameters
    ----------
    builder
        Which has emitted them.
    known
        The value of an expression, where it is constant.
    indices
        Of a gather or scatter.
    lengths
        What each coordinate is counted in: one length, or one for each coordinate of the last axis.

    Returns
    -------
    relax.Expr or None
        None where no one has counted them.
    """
    chosen = _call(builder, indices, "relax.where")
    if chosen is None:
        return None
    below, counted, given = chosen.args
    less = _call(builder, below, "relax.less")
    added = _call(builder, counted, "relax.add")
    if less is None or added is None:
        return None
    if not less.args[0].same_as(given) or not added.args[0].same_as(given):
        return None
    zero, extents = known(less.args[1]), _value(builder, known, added.args[1])
    if zero is None or extents is None or np.any(zero != 0):
        return None
    return given if [int(n) for n in extents.reshape(-1)] == list(lengths) else None


def from_the_end(index: Any, length: int) -> Any:
    """The place that an index means."""
    place = wide(index)
    return tirx.Select(place < 0, place + length, place)


def _call(builder: relax.BlockBuilder, expr: relax.Expr, name: str) -> relax.Call | None:
    """The call of an operator that a variable is bound to."""
    value = builder.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
    called = isinstance(value, relax.Call) and getattr(value.op, "name", None) == name
    return value if called else None


def _value(builder: relax.BlockBuilder, known: Known, expr: relax.Expr) -> NDArray[Any] | None:
    """The lengths that the importer reads from a shape."""
    value = known(expr)
    if value is not None:
        return value
    if (cast := _call(builder, expr, "relax.astype")) is not None:
        return _value(builder, known, cast.args[0])
    if (made := _call(builder, expr, "relax.shape_to_tensor")) is not None:
        return _extents(builder, made.args[0])
    if (taken := _call(builder, expr, "relax.take")) is not None:
        values, place = (_value(builder, known, arg) for arg in taken.args)
        return None if values is None or place is None else values[place]
    if (part := _call(builder, expr, "relax.strided_slice")) is not None:
        values = _value(builder, known, part.args[0])
        ends = [_numbers(arg) for arg in part.args[2:4]]
        return None if values is None or None in ends else values[slice(*ends)]
    return None


def _extents(builder: relax.BlockBuilder, shape: relax.Expr) -> NDArray[Any] | None:
    of = _call(builder, shape, "relax.shape_of")
    extents = of.args[0].ty.shape if of is not None else getattr(shape.ty, "values", None)
    if extents is None or not all(isinstance(n, tirx.IntImm) for n in extents):
        return None
    return np.array([int(n) for n in extents])


def _numbers(arg: Any) -> int | None:
    """The only number of a tuple."""
    fields = list(arg.fields) if isinstance(arg, relax.Tuple) else []
    value = getattr(fields[0], "value", fields[0]) if len(fields) == 1 else None
    return int(value) if isinstance(value, int | tirx.IntImm) else None
