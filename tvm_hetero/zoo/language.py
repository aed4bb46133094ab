"""Large language models: one decoding step in 16 bits, one or a few tasks a layer.

An element is one sequence: one new token (or a chunk of `tokens` of its prompt), with the keys and
values of `context` tokens before it. They are resident and read in every step (see `Work.cache`).
Weights may take fewer bytes than the numbers that are computed with (`WEIGHTS`). Dense models:
    GPT-2           A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019,
                    Table 2; parameters as of the released weights
    GPT-3           T. Brown et al., arXiv 2005.14165, Table 2.1 (the width 5140 of the 13B model is
                    taken as 5120, which is 40 heads of 128)
    Llama 2         H. Touvron et al., arXiv 2307.09288, Table 1; and its configuration files
    Llama 3         A. Dubey et al., arXiv 2407.21783, Table 3
    Megatron 1T     D. Narayanan et al., SC 2021, doi:10.1145/3458817.3476209, Table 1 (1008B)
Mixtures of experts are in `tvm_hetero.zoo.experts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.util.nearest import nearest
from tvm_hetero.zoo.layers import total
from tvm_hetero.zoo.transformer import embedding
from tvm_hetero.zoo.work_graph import HALF, Builder, Value, WorkGraph

# Bytes of one weight by the format that it is kept in. Scales of groups, which int8 and int4 have
# besides, are left out.
WEIGHTS: dict[str, float] = {
    "float32": 4, "bfloat16": HALF, "float16": HALF, "int8": 1, "int4": 0.5,
}  # fmt: skip


@dataclass(frozen=True)
class DecoderShape:
    """The shape of a dense decoder.

    `matrices` of the feed-forward network: 2, or 3 if gated. `tied`: the head's weights are those
    of the embedding (which two devices hold twice, if one has the first and another the last task).
    """

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int
    matrices: int = 2
    positions: int = 0
    tied: bool = False

    @property
    def head_size(self) -> int:
        """Numbers of a query, key or value of one head."""
        return self.width // self.heads

    def cache_bytes(self, tokens: int = 1) -> int:
        """Bytes of the keys and values of so many tokens of one sequence, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size * HALF * tokens


def _gpt2(layers: int, width: int, heads: int, positions: int = 1024) -> DecoderShape:
    return DecoderShape(layers, width, 4 * width, heads, heads, 50257, 2, positions, tied=True)


def _gpt3(layers: int, width: int, heads: int) -> DecoderShape:
    return _gpt2(layers, width, heads, 2048)


def _llama2(layers: int, width: int, hidden: int, heads: int, kv_heads: int) -> DecoderShape:
    return DecoderShape(layers, width, hidden, heads, kv_heads, 32000, 3)


def _llama3(layers: int, width: int, hidden: int, heads: int) -> DecoderShape:
    return DecoderShape(layers, width, hidden, heads, 8, 128256, 3)


SHAPES = {
    "gpt2-small": _gpt2(12, 768, 12),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    "gpt3-125m": _gpt3(12, 768, 12),
    "gpt3-350m": _gpt3(24, 1024, 16),
    "gpt3-760m": _gpt3(24, 1536, 16),
    "gpt3-1.3b": _gpt3(24, 2048, 16),
    "gpt3-2.7b": _gpt3(32, 2560, 32),
    "gpt3-6.7b": _gpt3(32, 4096, 32),
    "gpt3-13b": _gpt3(40, 5120, 40),
    "gpt3-175b": _gpt3(96, 12288, 96),
    "llama2-7b": _llama2(32, 4096, 11008, 32, 32),
    "llama2-13b": _llama2(40, 5120, 13824, 40, 40),
    "llama2-70b": _llama2(80, 8192, 28672, 64, 8),
    "llama3-8b": _llama3(32, 4096, 14336, 32),
    "llama3-70b": _llama3(80, 8192, 28672, 64),
    "llama3-405b": _llama3(126, 16384, 53248, 128),
    "megatron-1t": DecoderShape(128, 25600, 4 * 25600, 160, 160, 51200, 2, 2048),
}


def decoder(
    model: str = "gpt3-175b",
    context: int = 2048,
    shards: int = 1,
    layers: int = 0,
    tokens: int = 1,
    weights: str = "float16",
) -> WorkGraph:
    """One decoding step of a dense model, or the prefill of a chunk of `tokens`.

    Each layer is an attention task and a feed-forward task. With `shards` > 1 each of the two is
    divided by heads and by hidden units into that many tasks, whose sums are a task as well (as
    tensor parallelism does). `layers` other than 0 takes only so many. `weights` is a format of
    `WEIGHTS`; keys, values and what is computed stay in 16 bits.
    """
    if model not in SHAPES:
        raise UsageError(f"model {model!r}: expected one of {', '.join(SHAPES)}")
    shape = SHAPES[model]
    if shards < 1 or shape.kv_heads % shards or shape.hidden % shards:
        raise UsageError(
            f"{shards} shards of {model}: expected a divisor of its {shape.kv_heads} key heads"
        )
    net = Builder(model, HALF, weight_bytes(weights))
    x = embedding(net, net.input(tokens, width=8), shape.vocabulary + shape.positions, shape.width)
    for _ in range(layers or shape.layers):
        x = add_up(net, x, [attention(net, x, shape, context, shards) for _ in range(shards)])
        x = add_up(net, x, [_feed_forward(net, x, shape, shards) for _ in range(shards)])
    net.output(head(net, x, shape.vocabulary))
    return net.build()


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
