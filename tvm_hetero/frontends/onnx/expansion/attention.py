"""``Attention`` of opset 23 and later, in products and a softmax for which there are kernels.

With B sequences, H heads of queries and G of keys and values (head h reads those of h G / H), S
places of queries that read T places, the first P of them from the past:

    scores = scale Q K'              (qk_matmul_output_mode 0)
    capped = c tanh(scores / c)      (1; c is ``softcap``, and nothing is capped where it is 0)
    masked = capped + bias           (2; see `attention_bias`)
    weights = softmax(masked)        (3; 0 for a place that reads nothing)
    Y = weights V

onnx has a function of it, which repeats keys and values for each head that reads them and takes the
root of the scale on both sides.  Here the heads that read the same keys are rows of one product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_hetero.frontends.onnx.expansion.activations import NARROW
from tvm_hetero.frontends.onnx.expansion.attention_bias import (
    AttentionBias,
    AttentionSizes,
    attention_bias,
)
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

_SCORES, _CAPPED, _MASKED, _WEIGHTS = range(4)


@dataclass(frozen=True)
class _SplitHeads:
    """Queries, keys and values of (batch, head, place, number)."""

    query: str
    key: str
    value: str


@rewrites("Attention")
def rewrite_attention(r: Rewriting) -> bool:
    """Write out what a place reads, in the order of the module."""
    if bool(r.operand(4)) != bool(r.operand(5)):
        r.refuse("has past keys without past values, or the other way round")
    if r.operand(4) and r.operand(6):
        r.refuse("has both past keys and nonpad_kv_seqlen, which ONNX excludes")
    sizes = _sizes(r)
    heads = _with_past(r, _SplitHeads(*(_by_heads(r, position) for position in range(3))))
    bias = attention_bias(r, sizes, _softmax_type(r))
    weights = _weights(r, _scores(r, heads, sizes), bias)
    grouped = r.add("Reshape", [weights, _grouped(r, sizes, sizes.keys)])
    context = r.add("MatMul", [grouped, heads.value])
    apart = [sizes.batch, sizes.heads, sizes.places, sizes.value_size]
    context = r.add("Reshape", [context, r.constant(apart, np.int64)])
    if bias.reads_nothing and not _gives_weights(r):
        # Here, since it is less than weights are; those of such a place are NaN.
        context = r.add("Where", [bias.reads_nothing, r.like(0, r.operand(0)), context])
    _merge(r, context, sizes)
    return True


def _head_count(r: Rewriting, position: int) -> int:
    """Return the heads of queries, keys or values."""
    dims = r.dims(r.operand(position))
    if len(dims) == 4:
        return dims[1]
    name = "q_num_heads" if position == 0 else "kv_num_heads"
    heads = int(r.attribute(name, 0))
    if heads < 1 or dims[2] % heads:
        r.refuse(f"has {name} = {heads}, which does not divide its operand's {dims[2]} numbers")
    return heads


def _by_heads(r: Rewriting, position: int) -> str:
    """Return queries, keys or values by heads."""
    name = r.operand(position)
    dims = r.dims(name)
    if len(dims) == 4:
        return name
    if len(dims) != 3:
        r.refuse(f"has an operand of {len(dims)} dimensions, where ONNX wants 3 or 4")
    heads = _head_count(r, position)
    shape = r.constant([dims[0], dims[1], heads, dims[2] // heads], np.int64)
    return r.add("Transpose", [r.add("Reshape", [name, shape])], perm=[0, 2, 1, 3])


def _with_past(r: Rewriting, heads: _SplitHeads) -> _SplitHeads:
    """Put keys and values of the past in front, and give them as the node's results."""
    key, value = heads.key, heads.value
    if r.operand(4):
        key = r.add("Concat", [r.operand(4), key], axis=2)
        value = r.add("Concat", [r.operand(5), value], axis=2)
    for position, each in ((1, key), (2, value)):
        if r.wants(position):
            r.alias(each, r.outputs[position])
    return _SplitHeads(heads.query, key, value)


def _sizes(r: Rewriting) -> AttentionSizes:
    """Return the sizes of the node, once its operands agree."""
    (q, k, v), heads, kv_heads = (
        [r.dims(r.operand(i)) for i in range(3)],
        _head_count(r, 0),
        _head_count(r, 1),
    )
    if kv_heads != _head_count(r, 2) or heads % kv_heads:
        r.refuse(f"lets {heads} heads read {kv_heads} of keys and {_head_count(r, 2)} of values")
    past = r.dims(r.operand(4))[2] if r.operand(4) else 0
    size, value_size = (
        d[-1] // (count if len(d) == 3 else 1) for d, count in ((q, heads), (v, kv_heads))
    )
    return AttentionSizes(q[0], heads, kv_heads, q[-2], past + k[-2], past, size, value_size)


def _grouped(r: Rewriting, sizes: AttentionSizes, columns: int) -> str:
    """Return the shape in which heads that read the same keys are rows of one matrix."""
    rows = sizes.heads // sizes.kv_heads * sizes.places
    return r.constant([sizes.batch, sizes.kv_heads, rows, columns], np.int64)


def _scores(r: Rewriting, heads: _SplitHeads, sizes: AttentionSizes) -> str:
    """Add ``scale Q K'`` and its cap, in the type of the softmax."""
    scale = float(r.attribute("scale", 0.0) or 1 / math.sqrt(sizes.size))
    # Narrow types overflow: each side gets the root of the scale, as ONNX has it.
    both = r.element_type(r.operand(0)) in NARROW and scale > 0
    side = r.like(math.sqrt(scale) if both else scale, r.operand(0))
    query = r.add("Mul", [heads.query, side])
    key = r.add("Transpose", [heads.key], perm=[0, 1, 3, 2])
    if both:
        key = r.add("Mul", [key, side])
    grouped = r.add("Reshape", [query, _grouped(r, sizes, sizes.size)])
    apart = r.constant([sizes.batch, sizes.heads, sizes.places, sizes.keys], np.int64)
    scores = r.add("Reshape", [r.add("MatMul", [grouped, key]), apart])
    _give(r, _SCORES, scores)
    scores = _cast(r, scores, _softmax_type(r))
    cap = float(r.attribute("softcap", 0.0))
    if cap:
        limit = r.add("Cast", [r.constant(cap, np.float32)], to=_softmax_type(r))
        scores = r.add("Mul", [r.add("Tanh", [r.add("Div", [scores, limit])]), limit])
    _give(r, _CAPPED, scores)
    return scores


def _weights(r: Rewriting, scores: str, bias: AttentionBias) -> str:
    """Add the bias and the softmax over what is read, in the type of the operands then."""
    if bias.bias:
        scores = r.add("Add", [scores, bias.bias])
    _give(r, _MASKED, scores)
    weights = r.add("Softmax", [scores], axis=-1)
    weights = _cast(r, weights, r.element_type(r.operand(0)))
    if bias.reads_nothing and _gives_weights(r):
        weights = r.add("Where", [bias.reads_nothing, r.like(0, r.operand(0)), weights])
    _give(r, _WEIGHTS, weights)
    return weights


def _softmax_type(r: Rewriting) -> int:
    """Return the element type in which the softmax is computed."""
    return int(r.attribute("softmax_precision", 0)) or r.element_type(r.operand(0))


def _cast(r: Rewriting, value: str, to: int) -> str:
    """Return scores or weights in another type, if the softmax is of another than the operands."""
    same = _softmax_type(r) == r.element_type(r.operand(0))
    return value if same else r.add("Cast", [value], to=to)


def _gives_weights(r: Rewriting) -> bool:
    return r.wants(3) and r.attribute("qk_matmul_output_mode", 0) == _WEIGHTS


def _give(r: Rewriting, mode: int, value: str) -> None:
    """Give a value as the node's fourth result if that is the one which it asks for."""
    if r.wants(3) and r.attribute("qk_matmul_output_mode", 0) == mode:
        r.add("Cast", [value], [r.outputs[3]], to=r.element_type(r.operand(0)))


def _merge(r: Rewriting, context: str, sizes: AttentionSizes) -> None:
    """Give what was read: by heads, or as (batch, place, number) where queries are."""
    if len(r.dims(r.operand(0))) == 4:
        r.alias(context, r.outputs[0])
        return
    flat = r.constant([sizes.batch, sizes.places, sizes.heads * sizes.value_size], np.int64)
    turned = r.add("Transpose", [context], perm=[0, 2, 1, 3])
    r.add("Reshape", [turned, flat], r.outputs[:1])
