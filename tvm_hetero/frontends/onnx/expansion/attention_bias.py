"""What is added to the scores of an ``Attention``: 0 where a place may read, -inf where not.

With P places before the first query, place s reads t if all of these hold:

    t <= s + P                          is_causal
    s + P - t <= left_window_size       where that is not negative
    t - s - P <= right_window_size      where that is not negative
    t < nonpad_kv_seqlen                of its sequence
    attn_mask[s, t]                     a mask of booleans

P are the places of the past; ``nonpad_kv_seqlen`` - S, of each sequence, where the cache lies
outside of the node; else 0.  A mask of numbers is added as it is.  What is known before the model
runs is one constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

_MASK, _LENGTHS = 3, 6
_PADS_SHORT_MASKS = 24
"""The opset from which a mask may be shorter than what is read; the rest is not read."""


@dataclass(frozen=True)
class AttentionSizes:
    """Sizes of an attention.

    Attributes
    ----------
    batch, heads, kv_heads : int
        Sequences, heads of queries, and of keys and values.
    places, keys, past : int
        Of queries, of all that is read, and of that what is from before.
    size, value_size : int
        Of a head's keys, and values.
    """

    batch: int
    heads: int
    kv_heads: int
    places: int
    keys: int
    past: int
    size: int
    value_size: int


@dataclass(frozen=True)
class AttentionBias:
    """What is added, '' for nothing.

    Attributes
    ----------
    bias : str
        The value that is added to scores, of the type that was asked for.
    reads_nothing : str
        Whether a place reads nothing at all, along a last axis of 1; '' where every place reads.
    """

    bias: str
    reads_nothing: str


def attention_bias(r: Rewriting, sizes: AttentionSizes, to: int) -> AttentionBias:
    """Add the bias of an attention.

    Parameters
    ----------
    r : Rewriting
        The node.
    sizes : AttentionSizes
        Its sizes.
    to : int
        ONNX element type of the bias.
    """
    given = _allowed(r, sizes)
    numbers = _given_mask(r, sizes)
    if numbers and r.element_type(r.operand(_MASK)) == TensorProto.BOOL:
        given, numbers = [*given, numbers], ""
    known, terms = _split(r, given)
    if not terms and not numbers:
        return _constant(r, known, to)
    if known is not None:
        terms.append(r.constant(known))
    bias = _as_number(r, terms, to)
    if numbers:
        if r.element_type(r.operand(_MASK)) != to:
            numbers = r.add("Cast", [numbers], to=to)
        bias = r.add("Add", [numbers, bias]) if bias else numbers
    return AttentionBias(bias, _without(r, bias, to))


def _constant(r: Rewriting, known: np.ndarray[Any, Any] | None, to: int) -> AttentionBias:
    """Return a bias that is known; a place that reads nothing is rare, and known, too."""
    if known is None or known.all():
        return AttentionBias("", "")
    bias = _as_number(r, [r.constant(known)], to)
    nothing = ~known.any(-1, keepdims=True)
    return AttentionBias(bias, r.constant(nothing) if nothing.any() else "")


def _split(r: Rewriting, names: list[str]) -> tuple[np.ndarray[Any, Any] | None, list[str]]:
    """Return the conjunction of what is constant, None for nothing, and what is not."""
    known, terms = None, []
    for name in names:
        array = r.array(name)
        if array is None:
            terms.append(name)
        else:
            known = array if known is None else known & array
    return known, terms


def _as_number(r: Rewriting, allowed: list[str], to: int) -> str:
    """Return 0 where all conditions hold and -inf elsewhere; '' of no conditions."""
    if not allowed:
        return ""
    condition, *others = allowed
    for other in others:
        condition = r.add("And", [condition, other])
    zero, never = (r.add("Cast", [r.constant(x, np.float32)], to=to) for x in (0.0, -np.inf))
    return r.add("Where", [condition, zero, never])


def _without(r: Rewriting, bias: str, to: int) -> str:
    """Return which places read nothing: those whose largest bias is -inf."""
    last = r.constant([-1], np.int64)
    never = r.add("Cast", [r.constant(-np.inf, np.float32)], to=to)
    # ReduceMax takes its axes as an operand from opset 18 on, and attention is of 23.
    return r.add("Equal", [r.add("ReduceMax", [bias, last], keepdims=1), never])


def _given_mask(r: Rewriting, sizes: AttentionSizes) -> str:
    """Return the node's mask for all that is read, '' for none."""
    name = r.operand(_MASK)
    if not name:
        return ""
    dims = r.dims(name)
    missing = sizes.keys - (dims[-1] if dims else 1)
    if not missing or r.opset < _PADS_SHORT_MASKS:
        return name
    rest: Any = False
    if r.element_type(name) != TensorProto.BOOL:
        rest = np.array(-np.inf).astype(r.dtype(name))
    r.afford(*dims[:-1], missing)
    filling = np.full((*dims[:-1], missing), rest)
    return r.add("Concat", [name, r.constant(filling)], axis=-1)


def _allowed(r: Rewriting, sizes: AttentionSizes) -> list[str]:
    """Return the conditions under which a place reads another, but for the mask."""
    causal = bool(r.attribute("is_causal", 0))
    left, right = (int(r.attribute(f"{side}_window_size", -1)) for side in ("left", "right"))
    if causal:
        right = 0
    lengths = r.operand(_LENGTHS)
    bounded = left >= 0 or right >= 0
    r.afford(sizes.keys, *([sizes.places] if bounded else []))
    if not lengths:
        ahead = np.arange(sizes.keys) - np.arange(sizes.places)[:, None] - sizes.past
        return [r.constant(_within(ahead, left, right))] if bounded else []
    column = r.add("Reshape", [lengths, r.constant([-1, 1, 1, 1], np.int64)])
    column = r.add("Cast", [column], to=TensorProto.INT64)
    read = r.constant(np.arange(sizes.keys), np.int64)
    found = [r.add("Less", [read, column])]
    if bounded:
        # t - s - (length - S), where S and s and t are known.
        ahead = np.arange(sizes.keys) - np.arange(sizes.places)[:, None] + sizes.places
        found += _bounds(r, r.add("Sub", [r.constant(ahead, np.int64), column]), left, right)
    return found


def _within(ahead: np.ndarray[Any, Any], left: int, right: int) -> np.ndarray[Any, Any]:
    """Return which places lie within the windows, by how far they are ahead of the reader."""
    found = np.ones(ahead.shape, bool)
    if left >= 0:
        found &= ahead >= -left
    if right >= 0:
        found &= ahead <= right
    return found


def _bounds(r: Rewriting, ahead: str, left: int, right: int) -> list[str]:
    """Return the same where it depends on lengths."""
    found = []
    if left >= 0:
        found.append(r.add("GreaterOrEqual", [ahead, r.constant(-left, np.int64)]))
    if right >= 0:
        found.append(r.add("LessOrEqual", [ahead, r.constant(right, np.int64)]))
    return found
