"""Operators that make tensors of nothing, or of shapes alone: they become constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from tvm_hetero.frontends.relay.core.arrays import dtype_of
from tvm_hetero.frontends.relay.core.program import Constant
from tvm_hetero.frontends.relay.operators.rule_context import (
    Result,
    Rule,
    Site,
    constant,
    dtype_name,
)


def _shape(site: Site, argument: int) -> list[int]:
    """The shape that is asked for: an attribute, in later versions a constant argument."""
    known = site.known(argument)
    if len(site.args) > argument and known is None:
        raise site.error("the shape depends on the data; save the module with fixed shapes")
    given = site.ints("shape", None)
    shape = [int(n) for n in known.reshape(-1)] if known is not None else list(given or [])
    if min(shape, default=0) < 0:
        raise site.error(f"shape {shape} has a negative dimension")
    site.bounded(math.prod(shape), "the number of values")
    return shape


def _filled(value: float) -> Rule:
    def rule(site: Site) -> Result:
        dtype = site.dtype("dtype") or "float32"
        return constant(np.full(_shape(site, 0), value, dtype_of(dtype)))

    return rule


def _full(site: Site) -> Result:
    value = site.tensor(0)
    shape, dtype = _shape(site, 1), site.dtype("dtype") or dtype_name(value)
    known = site.known(0)
    if known is not None:
        return constant(np.full(shape, known.reshape(()), dtype_of(dtype)))
    return site.emit(relax.op.full(tuple(shape), value, dtype))


def _filled_like(value: float) -> Rule:
    def rule(site: Site) -> Result:
        site.expect(1)
        site.bounded(math.prod(site.shape()), "the number of values")
        return constant(np.full(site.shape(), value, dtype_of(dtype_name(site.tensor(0)))))

    return rule


def _full_like(site: Site) -> Result:
    site.expect(2)
    value = site.tensor(1)
    if dtype_name(value) != dtype_name(site.tensor(0)):
        value = site.emit(relax.op.astype(value, dtype_name(site.tensor(0))))
    return site.emit(relax.op.broadcast_to(value, site.shape()))


def _arange(site: Site) -> Result:
    """Start, stop and step are arguments, and attributes beside them; in old files these alone."""
    numbers: list[Any] = []
    for i, (name, default) in enumerate((("start", 0), ("stop", None), ("step", 1))):
        known = site.known(i)
        if known is None:
            attribute = site.value(name, default)
            known = attribute.value if isinstance(attribute, Constant) else attribute
        if known is None or (len(site.args) > i and site.known(i) is None):
            raise site.error(f"'{name}' depends on the data; save the module with fixed shapes")
        numbers.append(np.asarray(known).reshape(-1)[0])
    site.ignore("start", "stop", "step")
    start, stop, step = (float(n) for n in numbers)
    if not step or not all(map(math.isfinite, (start, stop, step))):
        raise site.error(f"from {start} to {stop} by {step}")
    count = site.bounded(max(0, math.ceil((stop - start) / step)), "the number of values")
    dtype = dtype_of(site.dtype("dtype") or str(numbers[1].dtype))
    return constant((start + step * np.arange(count, dtype="float64")).astype(dtype))


def _shape_of(site: Site) -> Result:
    return constant(np.asarray(site.shape(), dtype_of(site.dtype("dtype") or "int32")))


def _size(site: Site) -> Result:
    size = math.prod(site.shape())
    return constant(np.asarray(size, dtype_of(site.dtype("dtype") or "int32")))


def _meshgrid(site: Site) -> Result:
    parts = site.tensors()
    indexing = site.choice("indexing", ("ij", "xy"), "ij")
    extents = [int(n) for p in parts for n in p.ty.shape]
    axes = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        axes[:2] = [1, 0]
    target = [0] * len(parts)
    for axis, extent in zip(axes, extents, strict=True):
        target[axis] = extent
    found = []
    for part, axis, extent in zip(parts, axes, extents, strict=True):
        shape = [extent if a == axis else 1 for a in range(len(parts))]
        flat = site.emit(relax.op.reshape(part, shape))
        found.append(site.emit(relax.op.broadcast_to(flat, target)))
    return found


RULES: dict[str, Rule] = {
    "zeros": _filled(0),
    "ones": _filled(1),
    "dyn.zeros": _filled(0),
    "dyn.ones": _filled(1),
    "full": _full,
    "dyn.full": _full,
    "zeros_like": _filled_like(0),
    "ones_like": _filled_like(1),
    "full_like": _full_like,
    "arange": _arange,
    "shape_of": _shape_of,
    "ndarray_size": _size,
    "meshgrid": _meshgrid,
}
