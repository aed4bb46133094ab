"""Attention in standard operators, on queries, keys and values of (batch, head, place, size).

    softmax(scale Q K' + masks) V

Masks are added one after the other: those that the node has, and -max float where a place lies
ahead of its reader's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import ADVICE

LOWEST = float(np.finfo(np.float32).min)
"""What ONNX Runtime adds where nothing may be read."""


@dataclass(frozen=True)
class HeadShape:
    """Sizes of attention: batch, heads, places of the queries and of the keys, and a head's."""

    batch: int
    heads: int
    places: int
    keys: int
    size: int
    value_size: int


def split_heads(r: Rewriting, x: str, heads: int, dims: Sequence[int]) -> str:
    """Return (batch, place, hidden) as (batch, head, place, size); `dims` are those of `x`."""
    batch, places, hidden = dims
    if hidden % heads:
        r.refuse(f"splits {hidden} elements into {heads} heads")
    shape = r.constant([batch, places, heads, hidden // heads], np.int64)
    return r.add("Transpose", [r.add("Reshape", [x, shape])], perm=[0, 2, 1, 3])


def scaled_scores(r: Rewriting, query: str, key: str, scale: float) -> str:
    """Add ``scale Q K'``."""
    product = r.add("MatMul", [query, r.add("Transpose", [key], perm=[0, 1, 3, 2])])
    return r.add("Mul", [product, r.constant(scale, _computed_in(r))])


def merge_heads(r: Rewriting, context: str, shape: HeadShape) -> None:
    """Give what was read, (batch, head, place, size), as the node's (batch, place, hidden)."""
    flat = r.constant([shape.batch, shape.places, shape.heads * shape.value_size], np.int64)
    r.add("Reshape", [r.add("Transpose", [context], perm=[0, 2, 1, 3]), flat], r.outputs[:1])


def default_scale(r: Rewriting, size: int) -> float:
    """Return the node's factor of the scores; 0 and none mean one over the root of the size."""
    return float(r.attribute("scale", 0.0)) or 1 / math.sqrt(size)


def causal_mask(r: Rewriting, shape: HeadShape, past: int) -> list[str]:
    """Return what is added so that no place reads those ahead of it; nothing for one place."""
    if not r.attribute("unidirectional", 0) or shape.places == 1:
        return []
    if past + shape.places != shape.keys:
        r.refuse(
            f"is unidirectional, with {shape.places} queries after {past} places that read "
            f"{shape.keys}: which of them lie ahead is not defined. {ADVICE}"
        )
    r.afford(shape.places, shape.keys)
    reader, read = np.arange(shape.places)[:, None] + past, np.arange(shape.keys)
    ahead = np.where(read > reader, LOWEST, 0.0)
    return [r.constant(ahead, _computed_in(r))]


def padding_mask(r: Rewriting, name: str, shape: HeadShape) -> list[str]:
    """Return what is added where the node's mask says that there is padding.

    Parameters
    ----------
    r : Rewriting
        The node; ``mask_filter_value`` is its.
    name : str
        Its mask, '' for none: (batch, key) or (batch, place, key) of 0 for padding; (batch,) of
        lengths; or (2 batch,) of ends and then of starts.
    shape : HeadShape
        The sizes.
    """
    if not name:
        return []
    dims = r.dims(name)
    if dims == (shape.batch,):
        return [_filtered(r, _before(r, name, shape), [1, 2])]
    if dims == (2 * shape.batch,):
        ends, starts = (_part(r, name, i * shape.batch, (i + 1) * shape.batch) for i in (0, 1))
        after = r.add("Not", [_before(r, starts, shape)])
        return [_filtered(r, r.add("And", [_before(r, ends, shape), after]), [1, 2])]
    if dims == (shape.batch, shape.keys):
        return [_filtered(r, _is_set(r, name), [1, 2])]
    if dims == (shape.batch, shape.places, shape.keys):
        return [_filtered(r, _is_set(r, name), [1])]
    return r.refuse(
        f"has a mask of {'x'.join(map(str, dims))} for {shape.batch} sequences with {shape.places} "
        f"places that read {shape.keys}; it is taken as (batch, keys), (batch, places, keys), "
        "(batch,) or (2 batch,)"
    )


def add_all(r: Rewriting, value: str, terms: Sequence[str]) -> str:
    """Add terms one after the other."""
    for term in terms:
        value = r.add("Add", [value, term])
    return value


def _computed_in(r: Rewriting) -> np.dtype[Any]:
    """Return the type of scores: the input's, float32 where that is codes."""
    dtype = r.dtype(r.inputs[0])
    return np.dtype(np.float32) if dtype.kind in "iu" else dtype


def _is_set(r: Rewriting, name: str) -> str:
    return r.add("Greater", [name, r.like(0, name)])


def _before(r: Rewriting, lengths: str, shape: HeadShape) -> str:
    """Return which keys lie before the length of their sequence: (batch, key)."""
    column = r.add("Unsqueeze", [lengths, r.constant([1], np.int64)])
    return r.add("Less", [r.constant(np.arange(shape.keys)[None], np.int32), column])


def _part(r: Rewriting, name: str, start: int, end: int) -> str:
    limits = [r.constant([limit], np.int64) for limit in (start, end)]
    return r.add("Slice", [name, *limits])


def _filtered(r: Rewriting, is_read: str, axes: list[int]) -> str:
    """Return 0 for what is read and the node's filter value for the rest, of four dimensions."""
    value = float(r.attribute("mask_filter_value", -10000.0))
    zero, low = (r.constant(number, _computed_in(r)) for number in (0.0, value))
    chosen = r.add("Where", [is_read, zero, low])
    return r.add("Unsqueeze", [chosen, r.constant(axes, np.int64)])
