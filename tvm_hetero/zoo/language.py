"""Large language models: one decoding step in 16 bits, one or a few tasks a layer.

An element is one sequence: one new token, with the keys and values of `context` tokens before it.
They are resident and read in every step (see `Work.cache`). Dense models:
    GPT-3 175B      T. Brown et al., arXiv 2005.14165, Table 2.1
    Llama 3 70B, 405B   A. Dubey et al., arXiv 2407.21783, Table 3
    Megatron 1T     D. Narayanan et al., SC 2021, doi:10.1145/3458817.3476209, Table 1 (1008B)
Mixtures of experts are in `tvm_hetero.zoo.experts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import total
from tvm_hetero.zoo.transformer import embedding
from tvm_hetero.zoo.work import HALF, Builder, Value, WorkGraph


@dataclass(frozen=True)
class Shape:
    """The shape of a dense decoder; `matrices` of the feed-forward network: 2, or 3 if gated."""

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int
    matrices: int = 2
    positions: int = 0


SHAPES = {
    "gpt3-175b": Shape(96, 12288, 4 * 12288, 96, 96, 50257, 2, 2048),
    "llama3-70b": Shape(80, 8192, 28672, 64, 8, 128256, 3),
    "llama3-405b": Shape(126, 16384, 53248, 128, 8, 128256, 3),
    "megatron-1t": Shape(128, 25600, 4 * 25600, 160, 160, 51200, 2, 2048),
}


def decoder(
    model: str = "gpt3-175b", context: int = 2048, shards: int = 1, layers: int = 0
) -> WorkGraph:
    """One decoding step of a dense model.

    Each layer is an attention task and a feed-forward task. With `shards` > 1 each of the two is
    divided by heads and by hidden units into that many tasks, whose sums are a task as well (as
    tensor parallelism does). `layers` other than 0 takes only so many.
    """
    if model not in SHAPES:
        raise UsageError(f"model {model!r}: expected one of {', '.join(SHAPES)}")
    shape = SHAPES[model]
    if shards < 1 or shape.kv_heads % shards or shape.hidden % shards:
        raise UsageError(
            f"{shards} shards of {model}: expected a divisor of its {shape.kv_heads} key heads"
        )
    net = Builder(model, HALF)
    x = embedding(net, net.input(1, width=8), shape.vocabulary + shape.positions, shape.width)
    for _ in range(layers or shape.layers):
        x = add_up(net, x, [attention(net, x, shape, context, shards) for _ in range(shards)])
        x = add_up(net, x, [_feed_forward(net, x, shape, shards) for _ in range(shards)])
    net.output(head(net, x, shape.vocabulary))
    return net.build()


def attention(net: Builder, x: Value, shape: Shape, context: int, shards: int) -> Value:
    """One shard of the attention of one token: projections, scores, mixing, projection."""
    size = shape.width // shape.heads
    queries = shape.width // shards
    keys = size * shape.kv_heads // shards
    weights = shape.width * (2 * queries + 2 * keys)
    scores = 4.0 * queries * (context + 1)
    return net.add(
        "attention",
        "gemm",
        [x],
        (1, shape.width),
        flops=2.0 * weights + scores,
        weights=weights,
        cache=2 * keys * context,
    )


def _feed_forward(net: Builder, x: Value, shape: Shape, shards: int) -> Value:
    weights = shape.matrices * shape.width * shape.hidden // shards
    return net.add(
        "feedforward", "gemm", [x], x.shape, flops=2.0 * weights, weights=weights
    )


def add_up(net: Builder, x: Value, parts: Sequence[Value]) -> Value:
    """The residual sum; with one part the part has done it already."""
    return parts[0] if len(parts) == 1 else total(net, [x, *parts], "sum")


def head(net: Builder, x: Value, vocabulary: int) -> Value:
    """The scores of all words of the vocabulary."""
    weights = x.size * vocabulary
    return net.add("head", "gemm", [x], (1, vocabulary), flops=2.0 * weights, weights=weights)
