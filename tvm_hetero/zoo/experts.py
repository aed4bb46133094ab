"""Mixtures of experts: one decoding step in 16 bits, the experts of a layer in groups.

A token is sent to `chosen` of `experts` experts. Which ones is known only at run time, so a group
of a layer's experts is one task that every token may reach: its work is what it does on average,
and of its weights n tokens read the expected part (see `Work.share`). Shapes:
    mixtral-8x7b    A. Jiang et al., arXiv 2401.04088, Table 1 (47B parameters, 13B active)
    deepseek-v3     DeepSeek-AI, arXiv 2412.19437, section 4.2 (671B, 37B active)
    kimi-k2         Kimi Team, arXiv 2507.20534, Table 2 (1.04T, 32B active)
The last two have latent attention: a low-rank product, and a cache of `latent` numbers a token.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.language import Shape, attention, head
from tvm_hetero.zoo.layers import total
from tvm_hetero.zoo.transformer import embedding
from tvm_hetero.zoo.work import HALF, Builder, Value, WorkGraph


@dataclass(frozen=True)
class Mixture:
    """The shape of a mixture; `base.hidden` is the width of the layers that are dense.

    `expert` is the hidden width of one expert, `shared` the experts that every token takes, `dense`
    the number of dense layers at the beginning. `latent` (query rank, key rank, position) is None
    for plain attention.
    """

    base: Shape
    experts: int
    chosen: int
    expert: int
    shared: int = 0
    dense: int = 0
    latent: tuple[int, int, int] | None = None


MIXTURES = {
    "mixtral-8x7b": Mixture(Shape(32, 4096, 0, 32, 8, 32000, 3), 8, 2, 14336),
    "deepseek-v3": Mixture(
        Shape(61, 7168, 18432, 128, 128, 129280, 3), 256, 8, 2048, 1, 3, (1536, 512, 64)
    ),
    "kimi-k2": Mixture(
        Shape(61, 7168, 18432, 64, 64, 163840, 3), 384, 8, 2048, 1, 1, (1536, 512, 64)
    ),
}
# Width of one head of latent attention, for queries, keys and values alike.
_HEAD = 128


def mixture(
    model: str = "kimi-k2", context: int = 2048, groups: int = 8, layers: int = 0
) -> WorkGraph:
    """One decoding step of a mixture of experts, whose experts are in `groups` tasks a layer."""
    if model not in MIXTURES:
        raise UsageError(f"model {model!r}: expected one of {', '.join(MIXTURES)}")
    shape = MIXTURES[model]
    if groups < 1 or shape.experts % groups:
        raise UsageError(f"{groups} groups: expected a divisor of {shape.experts} experts")
    net = Builder(model, HALF)
    base = shape.base
    x = embedding(net, net.input(1, width=8), base.vocabulary, base.width)
    for layer in range(layers or base.layers):
        if shape.latent is None:
            x = attention(net, x, base, context, 1)
        else:
            x = _latent_attention(net, x, base, shape.latent, context)
        x = _dense(net, x, base) if layer < shape.dense else _experts(net, x, shape, groups)
    net.output(head(net, x, base.vocabulary))
    return net.build()


def _latent_attention(
    net: Builder, x: Value, base: Shape, latent: tuple[int, int, int], context: int
) -> Value:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys are made of a small cache.

    In a decoding step the keys' and values' matrices are taken into the queries and the output, so
    that scores are products with the cache itself.
    """
    query, key, position = latent
    heads = base.heads
    weights = base.width * query + query * heads * (_HEAD + position)
    weights += base.width * (key + position) + key * heads * 2 * _HEAD
    weights += heads * _HEAD * base.width
    scores = 2.0 * heads * (context + 1) * ((key + position) + key)
    return net.add(
        "attention",
        "gemm",
        [x],
        (1, base.width),
        flops=2.0 * weights + scores,
        weights=weights,
        cache=(key + position) * context,
    )


def _dense(net: Builder, x: Value, base: Shape) -> Value:
    weights = base.matrices * base.width * base.hidden
    return net.add("feedforward", "gemm", [x], x.shape, flops=2.0 * weights, weights=weights)


def _experts(net: Builder, x: Value, shape: Mixture, groups: int) -> Value:
    """The router, the groups of experts, the shared experts, and their sum."""
    width = shape.base.width
    one = shape.base.matrices * width * shape.expert
    gate = width * shape.experts
    routed = net.add("router", "gemm", [x], (1, width), flops=2.0 * gate, weights=gate)
    ends = [
        net.add(
            "experts",
            "gemm",
            [routed],
            (1, width),
            flops=2.0 * one * shape.chosen / groups,
            weights=one * shape.experts // groups,
            share=shape.chosen / shape.experts,
        )
        for _ in range(groups)
    ]
    if shape.shared:
        both = shape.shared * one
        ends.append(net.add("shared", "gemm", [x], (1, width), flops=2.0 * both, weights=both))
    return total(net, [x, *ends], "sum")
