"""``GroupQueryAttention``: several heads of queries read the same keys, of a cache.

The cache has room for C places.  Of sequence b, T = seqlens_k[b] + 1 places are filled after this
step, S of them now, so that P = T - S (0 in a prompt: S is total_sequence_length) were filled
before it:

    present[b] = past[b][0:P], new[b][0:S], 0...        place s reads 0 .. P + s

Keys and queries are turned to their places first (``do_rotary``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import contributed
from tvm_hetero.frontends.onnx.microsoft.heads import (
    LOWEST,
    HeadShape,
    default_scale,
    merge_heads,
    split_heads,
)
from tvm_hetero.frontends.onnx.microsoft.rotary import add_rotary, angles


@dataclass(frozen=True)
class _Cache:
    """Heads of keys and values, places of the cache and of the past; whether it is the prompt."""

    heads: int
    places: int
    past: int
    is_prompt: bool


@contributed(
    "GroupQueryAttention",
    operands=12,
    results=3,
    attributes=(
        "causal",
        "do_rotary",
        "kv_num_heads",
        "local_window_size",
        "num_heads",
        "rotary_interleaved",
        "scale",
        "smooth_softmax",
        "softcap",
    ),
    only={
        "k_quant_type": b"NONE",
        "kv_cache_bit_width": 0,
        "qk_output": 0,
        "sliding_window_cache": 0,
        "v_quant_type": b"NONE",
    },
    indifferent=("k_norm_epsilon", "q_norm_epsilon", "qk_norm_epsilon"),
)
def rewrite_group_query_attention(r: Rewriting) -> None:
    """Turn, put into the cache, and read."""
    heads, kv_heads = int(r.attribute("num_heads", 0)), int(r.attribute("kv_num_heads", 0))
    query, key, value, size = _heads(r, heads, kv_heads)
    batch, places = r.dims(r.inputs[0])[:2]
    cache = _cache(r, kv_heads, places)
    filled = _filled_before(r, cache, places)
    if r.attribute("do_rotary", 0):
        turns, half = _turns(r, cache, filled, places)
        interleaved = bool(r.attribute("rotary_interleaved", 0))
        query, key = (
            add_rotary(r, x, turns, (batch, count, places, size), half, interleaved=interleaved)
            for x, count in ((query, heads), (key, kv_heads))
        )
    order = _cache_order(r, cache, filled, places)
    keys, values = (
        _present(r, new, position, order, cache, (batch, size))
        for position, new in ((1, key), (2, value))
    )
    shape = HeadShape(batch, heads, places, cache.places, size, size)
    scores = _scores(r, query, keys, shape, cache)
    probabilities = _softmax(r, _masked(r, scores, filled, shape, cache), shape)
    grouped = _grouped(r, probabilities, shape, cache, cache.places)
    context = r.add("MatMul", [grouped, values])
    apart = r.constant([batch, heads, places, size], np.int64)
    merge_heads(r, r.add("Reshape", [context, apart]), shape)


def _heads(r: Rewriting, heads: int, kv_heads: int) -> tuple[str, str, str, int]:
    """Return queries, keys and values by heads, and the size of one; they may lie in one tensor."""
    if not heads or not kv_heads or heads % kv_heads:
        r.refuse(f"lets {heads} heads read {kv_heads}")
    dims = r.dims(r.inputs[0])
    if r.operand(1):
        size = dims[2] // heads
        operands = zip(r.inputs[:3], (heads, kv_heads, kv_heads), strict=True)
        query, key, value = (split_heads(r, x, n, r.dims(x)) for x, n in operands)
        if r.dims(r.operand(1))[1] != dims[1]:
            r.refuse("has not as many keys as queries")
        return query, key, value, size
    total = heads + 2 * kv_heads
    all_heads = split_heads(r, r.inputs[0], total, dims)
    made = [r.fresh(part) for part in ("query", "key", "value")]
    r.add("Split", [all_heads, r.constant([heads, kv_heads, kv_heads], np.int64)], made, axis=1)
    return made[0], made[1], made[2], dims[2] // total


def _cache(r: Rewriting, kv_heads: int, places: int) -> _Cache:
    total = r.whole_number(6, "total_sequence_length")
    past = r.dims(r.operand(3))[2] if r.operand(3) else 0
    if total < places:
        r.refuse(f"has total_sequence_length {total}, less than its {places} queries")
    return _Cache(kv_heads, max(total, past), past, total == places)


def _filled_before(r: Rewriting, cache: _Cache, places: int) -> str:
    """Return P of each sequence, (batch, 1) of int64."""
    column = r.constant([-1, 1], np.int64)
    last = r.add("Cast", [r.add("Reshape", [r.operand(5), column])], to=TensorProto.INT64)
    factor = r.constant(0 if cache.is_prompt else 1, np.int64)
    before = r.add("Sub", [last, r.constant(places - 1, np.int64)])
    return r.add("Mul", [before, factor])


def _turns(r: Rewriting, cache: _Cache, filled: str, places: int) -> tuple[list[str], int]:
    """Return cosines and sines of the new places, and the number of pairs that are turned."""
    cosines, sines = r.operand(7), r.operand(8)
    batch = r.dims(r.inputs[0])[0]
    steps = r.constant(np.arange(places)[None], np.int64)
    positions = r.add("Add", [filled, steps])
    if r.operand(9) and cache.is_prompt and places > 1:
        # The first place's position alone counts in a prompt.
        flat = r.add("Reshape", [r.operand(9), r.constant([-1], np.int64)])
        first = r.add("Gather", [flat, r.constant([0], np.int64)], axis=0)
        positions = r.add("Add", [first, r.constant(np.arange(places)[None], np.int64)])
    elif r.operand(9):
        positions = r.operand(9)
    turns = [angles(r, table, positions, (batch, places), places) for table in (cosines, sines)]
    return turns, r.dims(cosines)[1]


def _cache_order(r: Rewriting, cache: _Cache, filled: str, places: int) -> str:
    """Return which of (past, new, a place of zeros) each place of the cache holds: (batch, C)."""
    place = r.constant(np.arange(cache.places)[None], np.int64)
    new = r.add("Sub", [place, filled])
    is_past = r.add("Less", [new, r.constant(0, np.int64)])
    is_new = r.add("Less", [new, r.constant(places, np.int64)])
    moved = r.add("Add", [new, r.constant(cache.past, np.int64)])
    nothing = r.constant(cache.past + places, np.int64)
    rest = r.add("Where", [is_new, moved, nothing])
    return r.add("Where", [is_past, place, rest])


def _present(
    r: Rewriting,
    new: str,
    position: int,
    order: str,
    cache: _Cache,
    sizes: tuple[int, int],
) -> str:
    """Return the cache with the new places in it, which is the node's result `position`."""
    batch, size = sizes
    parts = [r.operand(position + 2)] if cache.past else []
    parts.append(new)
    r.afford(batch, cache.heads, size)
    parts.append(r.constant(np.zeros((batch, cache.heads, 1, size)), r.dtype(r.inputs[0])))
    lined = r.add("Concat", parts, axis=2)
    if cache.is_prompt and not cache.past:
        made = new
    else:
        index = r.add("Unsqueeze", [order, r.constant([1, 3], np.int64)])
        full = r.constant([batch, cache.heads, cache.places, size], np.int64)
        made = r.add("GatherElements", [lined, r.add("Expand", [index, full])], axis=2)
    if r.wants(position):
        r.alias(made, r.outputs[position])
    return made


def _grouped(r: Rewriting, x: str, shape: HeadShape, cache: _Cache, size: int) -> str:
    """Return (batch, head, place, size) by the heads of the cache: (batch, kv head, rows, size)."""
    rows = shape.heads // cache.heads * shape.places
    return r.add("Reshape", [x, r.constant([shape.batch, cache.heads, rows, size], np.int64)])


def _scores(r: Rewriting, query: str, keys: str, shape: HeadShape, cache: _Cache) -> str:
    turned = r.add("Transpose", [keys], perm=[0, 1, 3, 2])
    product = r.add("MatMul", [_grouped(r, query, shape, cache, shape.size), turned])
    scaled = r.add("Mul", [product, r.like(default_scale(r, shape.size), r.inputs[0])])
    apart = r.constant([shape.batch, shape.heads, shape.places, cache.places], np.int64)
    scores = r.add("Reshape", [scaled, apart])
    softcap = float(r.attribute("softcap", 0.0))
    if softcap > 0:
        cap = r.like(softcap, r.inputs[0])
        scores = r.add("Mul", [r.add("Tanh", [r.add("Div", [scores, cap])]), cap])
    if r.operand(10):
        scores = r.add("Add", [scores, _bias(r, shape)])
    return scores


def _bias(r: Rewriting, shape: HeadShape) -> str:
    """Return the bias for all places of the cache; those behind its last are not read."""
    *outer, keys = r.dims(r.operand(10))
    if keys > shape.keys:
        r.refuse(f"has a bias for {keys} keys where the cache has {shape.keys}")
    if keys == shape.keys:
        return r.operand(10)
    r.afford(*outer, shape.keys - keys)
    rest = r.constant(np.zeros((*outer, shape.keys - keys)), r.dtype(r.inputs[0]))
    return r.add("Concat", [r.operand(10), rest], axis=3)


def _masked(r: Rewriting, scores: str, filled: str, shape: HeadShape, cache: _Cache) -> str:
    """Put the lowest number in the place of scores that may not be read."""
    r.afford(shape.places + cache.places)
    reader = r.add("Add", [filled, r.constant(np.arange(shape.places)[None], np.int64)])
    last = reader
    if not r.attribute("causal", 1):
        last = r.add("Add", [filled, r.constant(shape.places - 1, np.int64)])
    read = r.constant(np.arange(cache.places)[None, None], np.int64)
    column = r.constant([-1], np.int64)
    ahead = r.add("Greater", [read, r.add("Unsqueeze", [last, column])])
    window = int(r.attribute("local_window_size", -1))
    if window > 0:
        oldest = r.add("Sub", [reader, r.constant(window - 1, np.int64)])
        behind = r.add("Less", [read, r.add("Unsqueeze", [oldest, column])])
        ahead = r.add("Or", [ahead, behind])
    hidden = r.add("Unsqueeze", [ahead, r.constant([1], np.int64)])
    return r.add("Where", [hidden, r.constant(LOWEST, r.dtype(r.inputs[0])), scores])


def _softmax(r: Rewriting, scores: str, shape: HeadShape) -> str:
    """Softmax; a sink takes its part of the sum, and is then cut off."""
    smooth = int(r.attribute("smooth_softmax", 0)) == 1
    if not smooth and not r.operand(11):
        return r.add("Softmax", [scores], axis=-1)
    dims = [shape.batch, shape.heads, shape.places, 1]
    r.afford(*dims)
    sink = r.constant(np.zeros(dims), r.dtype(r.inputs[0]))
    if r.operand(11):
        column = r.add("Reshape", [r.operand(11), r.constant([1, -1, 1, 1], np.int64)])
        sink = r.add("Expand", [column, r.constant(dims, np.int64)])
    soft = r.add("Softmax", [r.add("Concat", [scores, sink], axis=3)], axis=-1)
    limits = [r.constant([limit], np.int64) for limit in (0, shape.keys, 3)]
    return r.add("Slice", [soft, *limits])
