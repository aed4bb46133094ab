"""Forms of operators that read and write by indices."""

from __future__ import annotations

import numpy as np

from tests.fuzz.operator_forms import Form, FormDraw, form, longs


@form("Gather", "GatherElements")
def gather(d: FormDraw, operator: str) -> Form:
    """Indices from either end."""
    x = d.array(d.any_type(), d.dims(1))
    axis = d.axis(x.ndim)
    n = x.shape[axis]
    dims = d.dims(0, 3, 3)
    if operator == "GatherElements":
        dims = tuple(d.integer(min(m, 1), m) for m in x.shape)
    low = -n if d.opset >= 11 else 0
    indices = d.rng.integers(low, max(n, low + 1), dims).astype(d.choose(["int64", "int32"]))
    return Form(operator, [x, indices], d.some(axis=axis) if axis else {}, d.fix(1, share=0.5))


@form("GatherND")
def gather_nd(d: FormDraw, operator: str) -> Form:
    """Places, within batches."""
    x = d.array(d.any_type(), d.dims(1))
    batch = d.integer(0, min(x.ndim - 1, 2)) if d.opset >= 12 else 0
    depth = d.integer(1, x.ndim - batch)
    dims = (*x.shape[:batch], *d.dims(0, 2, 3))
    places = [d.rng.integers(-n, max(n, 1 - n), dims) for n in x.shape[batch : batch + depth]]
    return Form(
        operator,
        [x, longs(np.stack(places, -1))],
        d.some(batch_dims=batch) if batch else {},
        d.fix(1, share=0.5),
    )


@form("ScatterElements", "ScatterND")
def scatter(d: FormDraw, operator: str) -> Form:
    """Each reduction; places may repeat where that is defined."""
    x = d.array(d.number_type(), d.dims(1))
    reduce = d.choose(["none", "add", "mul", *(["max", "min"] if d.opset >= 18 else [])])
    reduce = reduce if d.opset >= 16 else "none"
    attributes = {"reduction": reduce} if d.opset >= 16 else {}
    if operator == "ScatterElements":
        axis = d.axis(x.ndim)
        dims = tuple(d.integer(min(m, 1), m) for m in x.shape)
        n = x.shape[axis]
        # Without a reduction no place twice.
        order = np.argsort(
            d.rng.random((*dims[: axis % x.ndim], n, *dims[axis % x.ndim + 1 :])), axis
        )
        taken = np.take(order, np.arange(dims[axis]), axis)
        indices = taken if reduce == "none" else d.rng.integers(-n, max(n, 1 - n), dims)
        kind = d.choose(["int64", "int32"])
        return Form(
            operator,
            [x, indices.astype(kind), d.array(str(x.dtype), dims)],
            attributes | {"axis": axis},
            d.fix(1, share=0.5),
        )
    depth = d.integer(1, x.ndim)
    total = int(np.prod(x.shape[:depth]))
    count = d.integer(0, total) if d.zeros else d.integer(min(1, total), total)
    flat = d.rng.permutation(total)[:count]
    if reduce != "none" and total:
        flat = d.rng.integers(0, total, count)
    places = (
        np.stack(np.unravel_index(flat, x.shape[:depth]), -1) if total else np.zeros((0, depth))
    )
    return Form(
        operator,
        [x, longs(places), d.array(str(x.dtype), (count, *x.shape[depth:]))],
        attributes,
        d.fix(1, share=0.5),
    )
