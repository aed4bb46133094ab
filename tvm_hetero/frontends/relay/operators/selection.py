"""Operators that look values up, order them, or make them from their places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, topi

from tvm_hetero.frontends.relay.operators.elementwise import reshape, scalar
from tvm_hetero.frontends.relay.operators.rule_context import (
    Result,
    Rule,
    Site,
    constant,
    dtype_name,
    shape_of,
)


def _take(site: Site) -> Result:
    """Places outside are clipped or wrapped; ``fast`` leaves open what they give."""
    site.expect(2)
    axis, batch = site.integer("axis", None), site.integer("batch_dims", 0) or 0
    mode = site.choice("mode", ("clip", "wrap", "fast"), "clip")
    axis = axis if axis is None else site.axis(axis, site.rank())
    mode = "clip" if mode == "fast" else mode
    if batch < 0 or (batch and (axis is None or batch > min(axis, site.rank(1)))):
        raise site.error(f"batch_dims={batch} with axis={axis}")
    places = _places(site, site.tensor(1))
    return site.te(topi.take, site.tensor(0), places, axis, batch, mode)


def _places(site: Site, value: relax.Expr) -> relax.Expr:
    """Integers: some front ends of the old TVM hand over floats."""
    if "float" in dtype_name(value):
        return site.emit(relax.op.astype(value, "int32"))
    return value


def _gather(site: Site) -> Result:
    site.expect(2)
    axis = site.axis(site.integer("axis"), site.rank())
    return site.te(topi.gather, site.tensor(0), axis, site.tensor(1))


def _gather_nd(site: Site) -> Result:
    """The first dimension of the places is that of the coordinates."""
    site.expect(2)
    batch, rank = site.integer("batch_dims", 0) or 0, site.integer("index_rank", None)
    if rank is not None and rank != site.shape(1)[0]:
        raise site.error(f"index_rank={rank}, but the places have {site.shape(1)[0]} coordinates")
    return site.te(topi.gather_nd, site.tensor(0), site.tensor(1), batch)


def _one_hot(site: Site) -> Result:
    site.expect(3)
    depth = site.bounded(site.integer("depth"), "depth")
    axis = site.integer("axis", -1)
    places = site.tensor(0)
    rank = site.rank() + 1
    axis = site.axis(axis, rank)
    shape = site.shape()
    spread = reshape(site, places, [*shape[:axis], 1, *shape[axis:]])
    levels = np.arange(depth, dtype=dtype_name(places)).reshape([depth, *[1] * (rank - 1 - axis)])
    hit = site.emit(relax.op.equal(spread, constant(levels)))
    dtype = site.dtype("dtype") or dtype_name(site.tensor(1))
    on, off = (_as(site, site.tensor(i), dtype) for i in (1, 2))
    return site.emit(relax.op.where(hit, on, off))


def _as(site: Site, value: relax.Expr, dtype: str) -> relax.Expr:
    return value if dtype_name(value) == dtype else site.emit(relax.op.astype(value, dtype))


def _topk(site: Site) -> Result:
    if len(site.args) == 2:
        known = site.known(1)
        if known is None:
            raise site.error("k depends on the data; save the module with a fixed one")
        site.ignore("k")
        k = int(known.reshape(-1)[0])
    else:
        k = site.integer("k", 1)
    axis = site.axis(site.integer("axis", -1), site.rank())
    kind = site.choice("ret_type", ("both", "values", "indices"), "both")
    ascending = site.flag("is_ascend", False)
    dtype = site.dtype("dtype") or "int32"
    extent = site.shape()[axis]
    k = extent if k < 1 else min(k, extent)
    places = _order(site, axis, ascending, k)
    found = []
    if kind != "indices":
        found.append(site.te(topi.gather, site.tensor(0), axis, places))
    if kind != "values":
        found.append(_as(site, places, dtype))
    return found if kind == "both" else found[0]


def _argsort(site: Site) -> Result:
    axis = site.axis(site.integer("axis", -1), site.rank())
    places = _order(site, axis, site.flag("is_ascend", True), site.shape()[axis])
    return _as(site, places, site.dtype("dtype") or "int32")


def _sort(site: Site) -> Result:
    axis = site.axis(site.integer("axis", -1), site.rank())
    site.dtype("dtype")
    places = _order(site, axis, site.flag("is_ascend", True), site.shape()[axis])
    return site.te(topi.gather, site.tensor(0), axis, places)


_LARGEST_ORDER = 1 << 13


def _order(site: Site, axis: int, ascending: bool, count: int) -> relax.Expr:
    """Where the first `count` values in order stand; of equal ones the first comes first.

    Each value counts how many come before it: a kernel without branches that runs on any device
    (TVM's own sort is a function of its CPU runtime).
    """
    x = site.tensor(0)
    extent = shape_of(x)[axis]
    if extent > _LARGEST_ORDER:
        raise site.error(f"{extent} values in order; at most {_LARGEST_ORDER} are supported")
    return site.te(_ordered(axis, ascending, count), x)


def _ordered(axis: int, ascending: bool, count: int) -> Callable[..., Any]:
    from tvm import te, tirx

    def compute(x: te.Tensor) -> te.Tensor:
        extent = int(x.shape[axis])

        def at(index: Any, place: Any) -> Any:
            return x(*index[:axis], place, *index[axis + 1 :])

        j, i = te.reduce_axis((0, extent), "j"), te.reduce_axis((0, extent), "i")

        def before(index: Any) -> Any:
            other, own = at(index, j), at(index, index[axis])
            first = other < own if ascending else other > own
            return tirx.any(first, tirx.all(other == own, j < index[axis]))

        rank = te.compute(
            x.shape, lambda *n: te.sum(before(n).astype("int32"), axis=[j]), name="rank"
        )
        shape = [count if a == axis else n for a, n in enumerate(x.shape)]

        def place(*n: Any) -> Any:
            mine = rank(*n[:axis], i, *n[axis + 1 :]) == n[axis]
            return te.sum(tirx.Select(mine, i, tirx.const(0, "int32")), axis=[i])

        return te.compute(shape, place, name="place")

    return compute


def _cumsum(site: Site) -> Result:
    axis, dtype = site.integer("axis", None), site.dtype("dtype")
    exclusive = site.flag("exclusive", False)
    x = site.tensor(0)
    if axis is None:
        x = reshape(site, x, [math.prod(shape_of(x))])
        axis = 0
    axis = site.axis(axis, len(shape_of(x)))
    x = _as(site, x, dtype) if dtype else x
    extent = shape_of(x)[axis]
    if extent > _LARGEST_ORDER:
        raise site.error(f"a running sum of {extent} values; at most {_LARGEST_ORDER}")
    return site.te(_running_sum(axis, exclusive), x)


def _running_sum(axis: int, exclusive: bool) -> Callable[..., Any]:
    from tvm import te, tirx

    def compute(x: te.Tensor) -> te.Tensor:
        j = te.reduce_axis((0, int(x.shape[axis])), "j")
        zero = tirx.const(0, str(x.dtype))

        def total(*n: Any) -> Any:
            counted = j < n[axis] if exclusive else j <= n[axis]
            return te.sum(tirx.Select(counted, x(*n[:axis], j, *n[axis + 1 :]), zero), axis=[j])

        return te.compute(x.shape, total, name="running")

    return compute


def _trilu(site: Site) -> Result:
    site.expect(2)
    known = site.known(1)
    if known is None:
        raise site.error("k is computed; only a constant is supported")
    make = relax.op.triu if site.flag("upper", True) else relax.op.tril
    return site.emit(make(site.tensor(0), int(known.reshape(-1)[0])))


def _sequence_mask(site: Site) -> Result:
    """Values of a sequence from its length on become the mask value."""
    site.expect(2)
    axis = site.integer("axis", 0)
    if axis not in (0, 1) or site.rank() < 2:
        raise site.error(f"axis={axis} of {site.rank()} dimensions")
    x, shape = site.tensor(0), site.shape()
    site.bounded(shape[axis], "the length of a sequence")
    tail = [1] * (len(shape) - 2)
    steps = np.arange(shape[axis], dtype=dtype_name(site.tensor(1)))
    steps = steps.reshape([-1, 1, *tail] if axis == 0 else [1, -1, *tail])
    lengths = reshape(
        site, site.tensor(1), [1, shape[1], *tail] if axis == 0 else [shape[0], 1, *tail]
    )
    within = site.emit(relax.op.less(constant(steps), lengths))
    return site.emit(relax.op.where(within, x, scalar(site.number("mask_value", 0.0), x)))


def _reverse_sequence(site: Site) -> Result:
    """Of each sequence as many values as its length says, back to front."""
    site.expect(2)
    rank, shape = site.rank(), site.shape()
    axis = site.axis(site.integer("seq_axis", 1), rank, "seq_axis")
    batch = site.axis(site.integer("batch_axis", 0), rank, "batch_axis")
    if site.shape(1) != [shape[batch]] or "int" not in dtype_name(site.tensor(1)):
        raise site.error(f"lengths {site.shape(1)}, expected {shape[batch]} integers")
    return site.te(topi.reverse_sequence, site.tensor(0), site.tensor(1), axis, batch)


RULES: dict[str, Rule] = {
    "take": _take,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "one_hot": _one_hot,
    "topk": _topk,
    "dyn.topk": _topk,
    "argsort": _argsort,
    "sort": _sort,
    "cumsum": _cumsum,
    "trilu": _trilu,
    "sequence_mask": _sequence_mask,
    "reverse_sequence": _reverse_sequence,
}
