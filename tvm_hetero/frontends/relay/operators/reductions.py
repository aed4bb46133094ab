"""Reductions, over some axes, all, or all but some (``exclude``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import relax

from tvm_hetero.frontends.relay.operators.elementwise import reshape
from tvm_hetero.frontends.relay.operators.rule_context import (
    Result,
    Rule,
    Site,
    dtype_name,
    shape_of,
)


def axes_of(site: Site) -> list[int]:
    """The axes that go. None and an empty list mean all, whatever ``exclude`` says."""
    rank = site.rank()
    given = site.ints("axis", None)
    exclude = site.flag("exclude", False)
    if not given:
        return list(range(rank))
    axes = sorted({site.axis(a, rank) for a in given})
    return [a for a in range(rank) if a not in axes] if exclude else axes


def _reduce(make: Callable[..., Any]) -> Rule:
    def rule(site: Site) -> Result:
        site.expect(1)
        axes, keep = axes_of(site), site.flag("keepdims", False)
        return site.emit(make(site.tensor(0), axis=axes, keepdims=keep)) if axes else (
            site.tensor(0)
        )  # fmt: skip

    return rule


def _logical(make: Callable[..., Any]) -> Rule:
    """Of truth values, by way of numbers: all is the least, any the largest."""

    def rule(site: Site) -> Result:
        axes, keep = axes_of(site), site.flag("keepdims", False)
        numbers = site.emit(relax.op.astype(site.tensor(0), "int8"))
        found = site.emit(make(numbers, axis=axes, keepdims=keep)) if axes else numbers
        return site.emit(relax.op.astype(found, "bool"))

    return rule


def _variance(site: Site) -> Result:
    """With the mean handed in, as `relay.variance` makes the call."""
    site.expect(2)
    axes, keep = axes_of(site), site.flag("keepdims", False)
    x = site.tensor(0)
    rest = site.emit(relax.op.subtract(x, site.tensor(1)))
    if shape_of(rest) != shape_of(x):
        raise site.error("the mean must have the axes that go as 1")
    total = site.emit(relax.op.sum(
        site.emit(relax.op.multiply(rest, rest)), axis=axes, keepdims=keep
    ))  # fmt: skip
    count = math.prod(shape_of(x)[a] for a in axes) - site.flag("unbiased", False)
    return site.emit(relax.op.divide(total, relax.const(float(count), dtype_name(x))))


def _arg(make: Callable[..., Any]) -> Rule:
    """The place of the extreme value; of several axes, in the order of their values."""

    def rule(site: Site) -> Result:
        site.expect(1)
        axes, keep = axes_of(site), site.flag("keepdims", False)
        last = site.flag("select_last_index", False)
        x, shape = site.tensor(0), site.shape()
        if not axes:
            raise site.error("axis=[] is not supported")
        rest = [a for a in range(len(shape)) if a not in axes]
        if axes != list(range(len(shape) - len(axes), len(shape))):
            x = site.emit(relax.op.permute_dims(x, [*rest, *axes]))
        extent = math.prod(shape[a] for a in axes)
        x = reshape(site, x, [*(shape[a] for a in rest), extent])
        x = site.emit(relax.op.flip(x, axis=len(rest))) if last else x
        found = site.emit(make(x, axis=len(rest), keepdims=False))
        if last:
            most = relax.const(extent - 1, dtype_name(found))
            found = site.emit(relax.op.subtract(most, found))
        declared = site.declared()
        found = site.emit(relax.op.astype(found, declared.dtype if declared else "int32"))
        wanted = [1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes]
        return reshape(site, found, wanted)

    return rule


RULES: dict[str, Rule] = {
    "sum": _reduce(relax.op.sum),
    "mean": _reduce(relax.op.mean),
    "max": _reduce(relax.op.max),
    "min": _reduce(relax.op.min),
    "prod": _reduce(relax.op.prod),
    "all": _logical(relax.op.min),
    "any": _logical(relax.op.max),
    "variance": _variance,
    "argmax": _arg(relax.op.argmax),
    "argmin": _arg(relax.op.argmin),
}
