"""Large language models: one decoding step in 16 bits, one or a few tasks a layer.

An element is one sequence: one new token (or a chunk of `tokens` of its prompt), with the keys and
values of `context` tokens before it. They are resident and read in every step (see `Work.cache`).
Weights may take fewer bytes than the numbers that are computed with (`WEIGHTS`). Shapes of dense
models, and their papers, are in `tvm_hetero.zoo.decoder_shapes`.
Mixtures of experts are in `tvm_hetero.zoo.experts`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import UsageError
from tvm_hetero.util.nearest import nearest
from tvm_hetero.zoo.decoder_grains import GRAINS, HALVES, multiply
from tvm_hetero.zoo.decoder_shapes import SHAPES, DecoderShape
from tvm_hetero.zoo.layers import total
from tvm_hetero.zoo.transformer import embedding
from tvm_hetero.zoo.work_graph import HALF, Builder, Value, WorkGraph

# Bytes of one weight by the format that it is kept in. Scales of groups, which int8 and int4 have
# besides, are left out.
WEIGHTS: dict[str, float] = {
    "float32": 4, "bfloat16": HALF, "float16": HALF, "int8": 1, "int4": 0.5,
}  # fmt: skip


def decoder(
    model: str = "gpt3-175b",
    context: int = 2048,
    shards: int = 1,
    layers: int = 0,
    tokens: int = 1,
    weights: str = "float16",
    grain: str = HALVES,
) -> WorkGraph:
    """One decoding step of a dense model, or the prefill of a chunk of `tokens`.

    Each layer is an attention task and a feed-forward task. With `shards` > 1 each of the two is
    divided by heads and by hidden units into that many tasks, whose sums are a task as well (as
    tensor parallelism does). `layers` other than 0 takes only so many. `weights` is a format of
    `WEIGHTS`; keys, values and what is computed stay in 16 bits. `grain` cuts a layer into smaller
    tasks (`tvm_hetero.zoo.decoder_grains`), without shards.

    Raises
    ------
    UsageError
        If there is no such model, format or grain, or the shards do not divide it.
    """
    if model not in SHAPES:
        raise UsageError(f"model {model!r}: expected one of {', '.join(SHAPES)}")
    shape = SHAPES[model]
    if shards < 1 or shape.kv_heads % shards or shape.hidden % shards:
        raise UsageError(
            f"{shards} shards of {model}: expected a divisor of its {shape.kv_heads} key heads"
        )
    if grain != HALVES and (grain not in GRAINS or shards != 1):
        known = f"expected one of {HALVES}, {', '.join(GRAINS)}"
        raise UsageError(
            f"grain {grain!r} with {shards} shards: {known}; only {HALVES} can be in shards"
        )
    net = Builder(model, HALF, weight_bytes(weights))
    x = embedding(net, net.input(tokens, width=8), shape.vocabulary + shape.positions, shape.width)
    for _ in range(layers or shape.layers):
        if grain != HALVES:
            x = GRAINS[grain](net, x, shape, context)
            continue
        x = add_up(net, x, [attention(net, x, shape, context, shards) for _ in range(shards)])
        x = add_up(net, x, [_feed_forward(net, x, shape, shards) for _ in range(shards)])
    net.output(_last(net, x, shape.vocabulary, grain))
    return net.build()


def _last(net: Builder, x: Value, vocabulary: int, grain: str) -> Value:
    """The scores of all words, where products are alone with their norm apart."""
    if grain != "products":
        return head(net, x, vocabulary)
    last = net.add("norm", "rowwise", [x], (1, x.shape[1]))
    return multiply(net, "head", [last], x.shape[1], vocabulary, "product")


def weight_bytes(weights: str) -> float:
    """Bytes of one weight.

    Raises
    ------
    UsageError
        If there is no such format.
    """
    if weights not in WEIGHTS:
        raise UsageError(f"weights {weights!r} are unknown{nearest(weights, WEIGHTS)}")
    return WEIGHTS[weights]


def attention(net: Builder, x: Value, shape: DecoderShape, context: int, shards: int) -> Value:
    """One shard of the attention: projections, scores, mixing, projection.

    Of several tokens each looks at those before it and at itself; the cache is read once for all.
    """
    tokens = x.shape[0]
    queries = shape.width // shards
    keys = shape.head_size * shape.kv_heads // shards
    weights = shape.width * (2 * queries + 2 * keys)
    scores = 4.0 * queries * (context + (tokens + 1) / 2)
    return net.add(
        "attention",
        "gemm",
        [x],
        x.shape,
        flops=tokens * (2.0 * weights + scores),
        weights=weights,
        cache=2 * keys * context,
    )


def _feed_forward(net: Builder, x: Value, shape: DecoderShape, shards: int) -> Value:
    weights = shape.matrices * shape.width * shape.hidden // shards
    return net.add(
        "feedforward", "gemm", [x], x.shape, flops=2.0 * x.shape[0] * weights, weights=weights
    )


def add_up(net: Builder, x: Value, parts: Sequence[Value]) -> Value:
    """The residual sum; with one part the part has done it already."""
    return parts[0] if len(parts) == 1 else total(net, [x, *parts], "sum")


def head(net: Builder, x: Value, vocabulary: int) -> Value:
    """The scores of all words of the vocabulary, for the last token."""
    weights = x.shape[-1] * vocabulary
    return net.add("head", "gemm", [x], (1, vocabulary), flops=2.0 * weights, weights=weights)
