"""Mixtures of experts: one decoding step in 16 bits, the experts of a layer in groups.

A token is sent to `chosen` of `experts` experts. Which ones is known only at run time, so a group
of a layer's experts is one task that every token may reach: its work is what it does on average,
and of its weights n tokens read the expected part (`share` of its work). Shapes:
    mixtral-8x7b    A. Jiang et al., arXiv 2401.04088, Table 1 (47B parameters, 13B active)
    mixtral-8x22b   Mistral AI, Cheaper, Better, Faster, Stronger, April 2024, and its configuration
                    file (141B, 39B active)
    deepseek-v3     DeepSeek-AI, arXiv 2412.19437, section 4.2 (671B, 37B active)
    kimi-k2         Kimi Team, arXiv 2507.20534, Table 2 (1.04T, 32B active)
The last two have latent attention: a low-rank product, and a cache of `latent` numbers a token.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.decoder_shapes import DecoderShape
from tvm_hetero.zoo.language import attention, head, weight_bytes
from tvm_hetero.zoo.layers import total
from tvm_hetero.zoo.transformer import embedding
from tvm_hetero.zoo.work_graph import HALF, Builder, Value, WorkGraph


@dataclass(frozen=True)
class Mixture:
    """The shape of a mixture; `base.hidden` is the width of the layers that are dense.

    `expert` is the hidden width of one expert, `shared` the experts that every token takes, `dense`
    the number of dense layers at the beginning. `latent` (query rank, key rank, position) is None
    for plain attention.
    """

    base: DecoderShape
    experts: int
    chosen: int
    expert: int
    shared: int = 0
    dense: int = 0
    latent: tuple[int, int, int] | None = None

    def cache_bytes(self, tokens: int = 1) -> int:
        """Bytes of the cache of so many tokens of one sequence, all layers."""
        if self.latent is None:
            return self.base.cache_bytes(tokens)
        _, key, position = self.latent
        return self.base.layers * (key + position) * HALF * tokens


MIXTURES = {
    "mixtral-8x7b": Mixture(DecoderShape(32, 4096, 0, 32, 8, 32000, 3), 8, 2, 14336),
    "mixtral-8x22b": Mixture(DecoderShape(56, 6144, 0, 48, 8, 32768, 3), 8, 2, 16384),
    "deepseek-v3": Mixture(
        DecoderShape(61, 7168, 18432, 128, 128, 129280, 3), 256, 8, 2048, 1, 3, (1536, 512, 64)
    ),
    "kimi-k2": Mixture(
        DecoderShape(61, 7168, 18432, 64, 64, 163840, 3), 384, 8, 2048, 1, 1, (1536, 512, 64)
    ),
}
# Width of one head of latent attention, for queries, keys and values alike.
_HEAD = 128


def mixture(
    model: str = "kimi-k2",
    context: int = 2048,
    groups: int = 8,
    layers: int = 0,
    tokens: int = 1,
    weights: str = "float16",
) -> WorkGraph:
    """One decoding step of a mixture of experts, whose experts are in `groups` tasks a layer.

    `tokens`, `layers` and `weights` as in `tvm_hetero.zoo.language.decoder`.
    """
    if model not in MIXTURES:
        raise UsageError(f"model {model!r}: expected one of {', '.join(MIXTURES)}")
    shape = MIXTURES[model]
    if groups < 1 or shape.experts % groups:
        raise UsageError(f"{groups} groups: expected a divisor of {shape.experts} experts")
    net = Builder(model, HALF, weight_bytes(weights))
    base = shape.base
    x = embedding(net, net.input(tokens, width=8), base.vocabulary, base.width)
    for layer in range(layers or base.layers):
        if shape.latent is None:
            x = attention(net, x, base, context, 1)
        else:
            x = _latent_attention(net, x, base, shape.latent, context)
        x = _dense(net, x, base) if layer < shape.dense else _experts(net, x, shape, groups)
    net.output(head(net, x, base.vocabulary))
    return net.build()


def _latent_attention(
    net: Builder, x: Value, base: DecoderShape, latent: tuple[int, int, int], context: int
) -> Value:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys are made of a small cache.

    In a decoding step the keys' and values' matrices are taken into the queries and the output, so
    that scores are products with the cache itself.
    """
    query, key, position = latent
    heads, tokens = base.heads, x.shape[0]
    weights = base.width * query + query * heads * (_HEAD + position)
    weights += base.width * (key + position) + key * heads * 2 * _HEAD
    weights += heads * _HEAD * base.width
    scores = 2.0 * heads * (context + (tokens + 1) / 2) * ((key + position) + key)
    return net.add(
        "attention",
        "gemm",
        [x],
        x.shape,
        flops=tokens * (2.0 * weights + scores),
        weights=weights,
        cache=(key + position) * context,
    )


def _dense(net: Builder, x: Value, base: DecoderShape) -> Value:
    weights = base.matrices * base.width * base.hidden
    flops = 2.0 * x.shape[0] * weights
    return net.add("feedforward", "gemm", [x], x.shape, flops=flops, weights=weights)


def _experts(net: Builder, x: Value, shape: Mixture, groups: int) -> Value:
    """The router, the groups of experts, the shared experts, and their sum."""
    tokens, width = x.shape
    one = shape.base.matrices * width * shape.expert
    gate = width * shape.experts
    routed = net.add("router", "gemm", [x], x.shape, flops=2.0 * tokens * gate, weights=gate)
    chance = shape.chosen / shape.experts
    ends = [
        net.add(
            "experts",
            "gemm",
            [routed],
            x.shape,
            flops=2.0 * tokens * one * shape.chosen / groups,
            weights=one * shape.experts // groups,
            share=chance if tokens == 1 else 1 - (1 - chance) ** tokens,
        )
        for _ in range(groups)
    ]
    if shape.shared:
        both = shape.shared * one
        flops = 2.0 * tokens * both
        ends.append(net.add("shared", "gemm", [x], x.shape, flops=flops, weights=both))
    return total(net, [x, *ends], "sum")
