"""A decoder's layer in smaller tasks, for devices that can do only a part of one.

Units inside of a memory multiply, and leave softmax and norms to others; or they do the attention,
and leave the products with weights to a GPU, where a batch shares them. A layer that is one or two
tasks tells them nothing. So a layer may be cut in three ways (`GRAINS`):

    halves      attention | feed-forward, everything fused (`tvm_hetero.zoo.language`)
    attention   projections | attention itself | projection | feed-forward
    products    norm | projections | scores | softmax | mixing | projection | norm | up |
                activation | down

All have the same operations, weights and cache; the finer ones have more tensors between them,
and pay a launch for each task. Sums (residuals, biases) go with the product before them.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_hetero.zoo.decoder_shapes import DecoderShape
from tvm_hetero.zoo.work_graph import Builder, Kind, Value

HALVES = "halves"


def attention_apart(net: Builder, x: Value, shape: DecoderShape, context: int) -> Value:
    """A layer in which what reads keys and values is a task of its own."""
    qkv = _project(net, x, shape, "gemm")
    cache = 2 * _key_width(shape) * context
    width = (x.shape[0], shape.width)
    flops = 2 * _score_flops(x, shape, context)
    seen = net.add("attention", "attention", [qkv], width, flops=flops, cache=cache)
    x = multiply(net, "projection", [seen, x], shape.width, shape.width)
    weights = shape.matrices * shape.width * shape.hidden
    flops = 2.0 * x.shape[0] * weights
    return net.add("feedforward", "gemm", [x], x.shape, flops=flops, weights=weights)


def products_apart(net: Builder, x: Value, shape: DecoderShape, context: int) -> Value:
    """A layer in which each product is alone, and so is what stands between them."""
    mixed = _mix(net, _rowwise(net, "input_norm", x), shape, context)
    x = multiply(net, "projection", [mixed, x], shape.width, shape.width, "product")
    fine = _rowwise(net, "post_norm", x)
    inner = shape.hidden * (shape.matrices - 1)
    up = multiply(net, "up", [fine], shape.width, inner, "product")
    active = net.add("activation", "elementwise", [up], (x.shape[0], shape.hidden))
    return multiply(net, "down", [active, x], shape.hidden, shape.width, "product")


GRAINS: dict[str, Callable[[Builder, Value, DecoderShape, int], Value]] = {
    "attention": attention_apart,
    "products": products_apart,
}


def multiply(
    net: Builder, op: str, reads: list[Value], inner: int, outer: int, kind: Kind = "gemm"
) -> Value:
    """A product of (tokens, inner) with weights (inner, outer), onto which others may be added."""
    tokens, weights = reads[0].shape[0], inner * outer
    return net.add(op, kind, reads, (tokens, outer), flops=2.0 * tokens * weights, weights=weights)


def _mix(net: Builder, x: Value, shape: DecoderShape, context: int) -> Value:
    """Scores of queries and keys, their softmax, and the values that it mixes."""
    tokens, keys = x.shape[0], _key_width(shape)
    qkv = _project(net, x, shape, "product")
    asked, values = net.parts(qkv, [(tokens, shape.width + keys), (tokens, keys)])
    size = (tokens, shape.heads, context + tokens)
    flops = _score_flops(x, shape, context)
    scores = net.add("scores", "product", [asked], size, flops=flops, cache=keys * context)
    soft = _rowwise(net, "softmax", scores)
    wide = (tokens, shape.width)
    return net.add("mix", "product", [soft, values], wide, flops=flops, cache=keys * context)


def _project(net: Builder, x: Value, shape: DecoderShape, kind: Kind) -> Value:
    """Queries, keys and values."""
    return multiply(net, "qkv", [x], shape.width, shape.width + 2 * _key_width(shape), kind)


def _rowwise(net: Builder, op: str, x: Value) -> Value:
    return net.add(op, "rowwise", [x], x.shape)


def _key_width(shape: DecoderShape) -> int:
    """Numbers of a key, or value, of one token."""
    return shape.head_size * shape.kv_heads


def _score_flops(x: Value, shape: DecoderShape, context: int) -> float:
    """Operations of one of the two products with keys or values, over the tokens before each."""
    tokens = x.shape[0]
    return 2.0 * tokens * shape.width * (context + (tokens + 1) / 2)
