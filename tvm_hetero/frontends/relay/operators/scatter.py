"""Operators that write values at places that are data: the counterparts of those that look up.

    scatter_elements   out[.., places[.., k, ..], ..] = f(that, updates[.., k, ..]) along one axis
    scatter_nd         out[places[:, y..], ..]        = f(that, updates[y.., ..])

with f the reduction; where several updates meet at one place, they are taken in the order in
which they stand. Both are Relax's own operators, with two cares taken before. Their kernels write
wherever a place says, and a saved program is not trusted: constant places outside the data are
refused, computed ones are moved to the nearest place in it (Relay does not say what they do).
And the kernel of ``scatter_elements`` finds its way in the data by the extents of the places: of
the dimensions before the axis, and of those after it, it takes all but the first to be as wide as
the data. Where they are not, it is called otherwise; see `_narrow`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax

from tvm_hetero.frontends.relay.operators.elementwise import reshape
from tvm_hetero.frontends.relay.operators.rule_context import (
    LARGEST_CONSTANT,
    Result,
    Rule,
    Site,
    constant,
    dtype_name,
    shape_of,
)

_REDUCTIONS = ("update", "add", "mul", "mean", "min", "max")
_MODES = ("update", "add", "mul", "min", "max")


def _scatter_elements(site: Site) -> Result:
    return _along_axis(site, site.choice("reduction", _REDUCTIONS, "update"))


def _scatter(site: Site) -> Result:
    """An older name of ``scatter_elements`` that has no reduction."""
    return _along_axis(site, "update")


def _scatter_add(site: Site) -> Result:
    return _along_axis(site, "add")


def _along_axis(site: Site, reduction: str) -> Result:
    """Places count from the end where they are negative."""
    site.expect(3)
    axis = site.axis(site.integer("axis", 0), site.rank())
    _check_values(site, reduction)
    shape, count = site.shape(), site.shape(1)
    beside = [d for d in range(len(shape)) if d != axis]
    if len(count) != len(shape) or any(count[d] > shape[d] for d in beside):
        raise site.error(f"places {count} in data {shape} along axis {axis}")
    if site.shape(2) != count:
        raise site.error(f"updates {site.shape(2)} for places {count}, expected as many")
    if 0 in count:
        return site.tensor(0)
    extents = np.array(shape[axis])
    places = _within(site, -extents, extents)
    if any(count[d] != shape[d] for d in beside if d not in (0, axis + 1)):
        return _narrow(site, places, axis, reduction)
    return site.emit(
        relax.op.scatter_elements(site.tensor(0), places, site.tensor(2), axis, reduction)
    )


def _narrow(site: Site, places: relax.Expr, axis: int, reduction: str) -> relax.Expr:
    """Places that do not go all the way across the data: all is laid out in one dimension.

    There a place is the sum of its coordinates, each times its stride. Those beside the axis are
    known; updates of one place keep their order.
    """
    shape, count = site.shape(), site.shape(1)
    total = site.bounded(math.prod(count), "the number of places", LARGEST_CONSTANT)
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    grid = np.indices(count, sparse=True)
    beside = sum(grid[d] * strides[d] for d in range(len(shape)) if d != axis)
    known = np.broadcast_to(beside, count).astype("int64")
    at = site.emit(relax.op.astype(places, "int64"))
    behind = site.emit(relax.op.add(at, constant(np.array(shape[axis], "int64"))))
    before = site.emit(relax.op.less(at, constant(np.array(0, "int64"))))
    at = site.emit(relax.op.where(before, behind, at))
    along = site.emit(relax.op.multiply(at, constant(np.array(strides[axis], "int64"))))
    at = reshape(site, site.emit(relax.op.add(along, constant(known))), [total])
    data = reshape(site, site.tensor(0), [math.prod(shape)])
    updates = reshape(site, site.tensor(2), [total])
    made = site.emit(relax.op.scatter_elements(data, at, updates, 0, reduction))
    return reshape(site, made, shape)


def _scatter_nd(site: Site) -> Result:
    """The first dimension of the places is that of the coordinates; in Relax it is the last."""
    site.expect(3)
    mode = site.choice("mode", _MODES, "update")
    _check_values(site, mode)
    shape, (coordinates, *count) = site.shape(), _coordinates(site)
    if site.shape(2) != [*count, *shape[coordinates:]]:
        raise site.error(
            f"updates {site.shape(2)} for places {site.shape(1)} in data {shape}, expected "
            f"{[*count, *shape[coordinates:]]}"
        )
    if 0 in site.shape(2):
        return site.tensor(0)
    extents = np.array(shape[:coordinates]).reshape([-1, *[1] * len(count)])
    places, updates = _within(site, np.zeros_like(extents), extents), site.tensor(2)
    if not count:  # one place alone: Relax knows only lists of them
        places = reshape(site, places, [1, coordinates])
        updates = reshape(site, updates, [1, *shape_of(updates)])
    else:
        axes = [*range(1, 1 + len(count)), 0]
        places = site.emit(relax.op.permute_dims(places, axes))
    return site.emit(relax.op.scatter_nd(site.tensor(0), places, updates, mode))


def _coordinates(site: Site) -> Sequence[int]:
    """The shape of the places: how many coordinates each has, and how many there are."""
    places = site.shape(1)
    if not places or not 1 <= places[0] <= site.rank():
        raise site.error(f"places {places} in data of {site.rank()} dimensions")
    return places


def _check_values(site: Site, reduction: str) -> None:
    """The kinds of values for which a reduction has a kernel."""
    data, places, updates = (dtype_name(site.tensor(i)) for i in range(3))
    if "int" not in places:
        raise site.error(f"places of {places}, expected integers")
    if updates != data:
        raise site.error(f"updates of {updates} in data of {data}, expected the same")
    if data == "bool" and reduction != "update":
        raise site.error(f"'{reduction}' of truth values is not supported, only 'update'")
    if reduction == "mean" and "float" not in data:
        raise site.error(f"'mean' of {data} is not supported: halves are not integers")


def _within(site: Site, least: NDArray[Any], end: NDArray[Any]) -> relax.Expr:
    """The places, none below `least` and none at `end` or beyond, in a type that holds `end`."""
    places, known = site.tensor(1), site.known(1)
    if (end == 0).any():
        raise site.error(f"places in data {site.shape()}, which has no values")
    if known is not None:
        wrong = known[(known < least) | (known >= end)]
        if wrong.size:
            raise site.error(f"place {int(wrong[0])} is outside of the data {site.shape()}")
    kind = "int32" if dtype_name(places) == "int32" and end.max() < 2**31 else "int64"
    if known is not None:
        return constant(known.astype(kind))
    if dtype_name(places) != kind:
        places = site.emit(relax.op.astype(places, kind))
    places = site.emit(relax.op.maximum(places, constant(least.astype(kind))))
    return site.emit(relax.op.minimum(places, constant((end - 1).astype(kind))))


RULES: dict[str, Rule] = {
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
}
