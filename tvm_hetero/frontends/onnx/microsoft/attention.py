"""``Attention`` and ``QAttention``, which make keys themselves, and ``MultiHeadAttention``.

Both may have a past: keys and values of former places, in front of the new ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import ADVICE, contributed
from tvm_hetero.frontends.onnx.microsoft.heads import (
    HeadShape,
    add_all,
    causal_mask,
    default_scale,
    merge_heads,
    padding_mask,
    scaled_scores,
    split_heads,
)
from tvm_hetero.frontends.onnx.quantized.matrix_products import add_integer_product, side_along


@dataclass(frozen=True)
class _Past:
    """Keys and values that are read, of which so many places are from before."""

    key: str
    value: str
    places: int


@contributed(
    "Attention",
    operands=6,
    results=2,
    attributes=("mask_filter_value", "num_heads", "qkv_hidden_sizes", "scale", "unidirectional"),
    only={"do_rotary": 0, "past_present_share_buffer": 0, "rotary_embedding_dim": 0},
)
def rewrite_attention(r: Rewriting) -> None:
    """One product for queries, keys and values, and then attention."""
    product = r.add("MatMul", r.inputs[:2])
    if r.operand(2):
        product = r.add("Add", [product, r.operand(2)])
    total = r.dims(r.inputs[1])[1]
    sizes = [int(s) for s in r.attribute("qkv_hidden_sizes") or [total // 3] * 3]
    if sum(sizes) != total or sizes[0] != sizes[1]:
        r.refuse(f"splits {total} columns of its weights into {sizes}")
    _attend_to_itself(r, product, sizes, r.operand(4), (r.operand(3), r.operand(5)))


@contributed(
    "QAttention",
    operands=9,
    results=2,
    attributes=("mask_filter_value", "num_heads", "scale", "unidirectional"),
    only={"do_rotary": 0, "past_present_share_buffer": 0},
)
def rewrite_q_attention(r: Rewriting) -> None:
    """The same with a product of codes, which is exact."""
    sides = [side_along(r, r.operand(3), 3, -2), side_along(r, r.operand(4), 2, -1)]
    total = add_integer_product(r, (0, 6), (1, 7)).as_float(r)
    product = r.add("Add", [r.add("Mul", [total, r.add("Mul", sides)]), r.operand(2)])
    size = r.dims(r.inputs[1])[1] // 3
    _attend_to_itself(r, product, [size] * 3, r.operand(8), (r.operand(5), ""))


def _attend_to_itself(
    r: Rewriting, product: str, sizes: list[int], past_name: str, masks: tuple[str, str]
) -> None:
    """Split queries, keys and values, and let places read the past and one another."""
    batch, places, _ = r.dims(r.inputs[0])
    heads = int(r.attribute("num_heads", 0))
    query, key, value = (
        split_heads(r, part, heads, (batch, places, size))
        for part, size in zip(_split(r, product, sizes, 2), sizes, strict=True)
    )
    past = _stacked_past(r, key, value, past_name)
    shape = HeadShape(
        batch, heads, places, past.places + places, sizes[0] // heads, sizes[2] // heads
    )
    _attend(r, query, past, shape, *masks)


def _stacked_past(r: Rewriting, key: str, value: str, past: str) -> _Past:
    """Join keys and values with those of the past, which lie in one tensor: (2, batch, ...)."""
    places = 0
    if past:
        places = r.dims(past)[3]
        key, value = (
            r.add("Concat", [_at(r, past, i), new], axis=2) for i, new in enumerate((key, value))
        )
    if r.wants(1):
        front = r.constant([0], np.int64)
        both = [r.add("Unsqueeze", [each, front]) for each in (key, value)]
        r.add("Concat", both, r.outputs[1:2], axis=0)
    return _Past(key, value, places)


@contributed(
    "MultiHeadAttention",
    operands=8,
    results=3,
    attributes=("mask_filter_value", "num_heads", "scale", "unidirectional"),
)
def rewrite_multi_head_attention(r: Rewriting) -> None:
    """Queries, keys and values are given, apart or packed."""
    heads = int(r.attribute("num_heads", 0))
    if r.rank(r.inputs[0]) == 5 or (r.operand(1) and r.rank(r.operand(1)) == 5):
        query, key, value, sizes = _packed(r)
    else:
        query, key, value, sizes = _apart(r, heads)
    batch, places, keys, size, value_size = sizes
    past = _separate_past(r, key, value)
    shape = HeadShape(batch, heads, places, past.places + keys, size, value_size)
    _attend(r, query, past, shape, r.operand(4), r.operand(5))


_Sizes = tuple[int, int, int, int, int]


def _packed(r: Rewriting) -> tuple[str, str, str, _Sizes]:
    """Take apart (batch, place, head, 3, size), or a query and (batch, place, head, 2, size)."""
    if r.operand(3):
        r.refuse(f"has a bias for packed keys, which is not taken. {ADVICE}")
    packed = r.inputs[0] if r.rank(r.inputs[0]) == 5 else r.operand(1)
    batch, keys, heads, count, size = r.dims(packed)
    parts = [
        r.add("Transpose", [_at(r, packed, i, axis=3)], perm=[0, 2, 1, 3]) for i in range(count)
    ]
    places = r.dims(r.inputs[0])[1]
    if count == 2:
        parts.insert(0, split_heads(r, r.inputs[0], heads, (batch, places, heads * size)))
    query, key, value = parts
    return query, key, value, (batch, places, keys, size, size)


def _apart(r: Rewriting, heads: int) -> tuple[str, str, str, _Sizes]:
    """Take three operands; keys and values may be split into heads already."""
    if not r.operand(1) or not r.operand(2):
        r.refuse("has no keys or no values")
    query, key, value = r.inputs[:3]
    dims = [r.dims(name) for name in (query, key, value)]
    batch, places, hidden = dims[0]
    biases = _biases(r, hidden, [d[2] if len(d) == 3 else 0 for d in dims])
    query, *others = (
        split_heads(r, r.add("Add", [name, bias]) if bias else name, heads, d)
        if len(d) == 3
        else name
        for name, d, bias in zip((query, key, value), dims, biases, strict=True)
    )
    keys, value_size = dims[1][-2], dims[2][-1] // (heads if len(dims[2]) == 3 else 1)
    return query, others[0], others[1], (batch, places, keys, hidden // heads, value_size)


def _biases(r: Rewriting, hidden: int, sizes: list[int]) -> list[str]:
    """Return the parts of the bias; '' for none. Keys that are split already have theirs."""
    if not r.operand(3):
        return [""] * 3
    total = r.dims(r.operand(3))[0]
    parts = _split(r, r.operand(3), [hidden, hidden, total - 2 * hidden], 0)
    return [part if size else "" for part, size in zip(parts, sizes, strict=True)]


def _separate_past(r: Rewriting, key: str, value: str) -> _Past:
    places = 0
    if bool(r.operand(6)) != bool(r.operand(7)):
        r.refuse("has past keys without past values, or the other way round")
    if r.operand(6):
        places = r.dims(r.operand(6))[2]
        key = r.add("Concat", [r.operand(6), key], axis=2)
        value = r.add("Concat", [r.operand(7), value], axis=2)
    for position, each in ((1, key), (2, value)):
        if r.wants(position):
            r.alias(each, r.outputs[position])
    return _Past(key, value, places)


def _attend(r: Rewriting, query: str, past: _Past, shape: HeadShape, mask: str, bias: str) -> None:
    scores = scaled_scores(r, query, past.key, default_scale(r, shape.size))
    terms = [*padding_mask(r, mask, shape), *causal_mask(r, shape, past.places)]
    masked = add_all(r, scores, [bias, *terms] if bias else terms)
    context = r.add("MatMul", [r.add("Softmax", [masked], axis=-1), past.value])
    merge_heads(r, context, shape)


def _split(r: Rewriting, name: str, sizes: list[int], axis: int) -> list[str]:
    made = [r.fresh(f"{part}_of_{r.outputs[0]}") for part in ("query", "key", "value")]
    r.add("Split", [name, r.constant(sizes, np.int64)], made, axis=axis)
    return made


def _at(r: Rewriting, name: str, index: int, axis: int = 0) -> str:
    """Return one slice of a value."""
    return r.add("Gather", [name, r.constant(index, np.int64)], axis=axis)
