"""Transformers in parts: attention by groups of heads, and the feed-forward network.

Decoders and encoders share `block`. A task is what a compiler leaves after fusion: a matrix product
with its bias, activation, residual and normalisation, or the attention of a group of heads.
Sources: A. Vaswani et al., Attention Is All You Need, arXiv 1706.03762; BERT, arXiv 1810.04805;
GPT-2, "Language Models are Unsupervised Multitask Learners" (2019); ViT, arXiv 2010.11929.
"""

from __future__ import annotations

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import dense
from tvm_hetero.zoo.work_graph import HALF, SINGLE, Builder, Value, WorkGraph


def block(
    net: Builder,
    x: Value,
    *,
    heads: int,
    groups: int,
    hidden: int,
    context: int = 0,
    causal: bool = False,
) -> Value:
    """One layer on `x` of shape (tokens, width): attention, then two products with residuals.

    `heads` are divided over `groups` tasks. `context` tokens before these have keys and values in a
    cache; `causal` tokens do not look at later ones.
    """
    width = x.shape[1]
    if heads % groups or width % heads:
        raise UsageError(
            f"{heads} heads of a model of width {width} in {groups} groups: expected the width "
            "to be a multiple of the heads and the heads of the groups"
        )
    qkv = product(net, "qkv", [x], width, 3 * width)
    attended = _attention(net, qkv, width // groups, groups, context, causal)
    x = product(net, "proj", [*attended, x], width, width)
    up = product(net, "up", [x], width, hidden)
    return product(net, "down", [up, x], hidden, width)


def product(net: Builder, op: str, reads: list[Value], inner: int, outer: int) -> Value:
    """A product of (tokens, inner) with weights (inner, outer), a bias, and what follows it."""
    tokens = reads[0].shape[0]
    weights = inner * outer
    return net.add(
        op, "gemm", reads, (tokens, outer), flops=2.0 * tokens * weights, weights=weights + outer
    )


def _attention(
    net: Builder, qkv: Value, width: int, groups: int, context: int, causal: bool
) -> list[Value]:
    """Each group of heads (together `width` wide) reads its own queries, keys and values."""
    tokens = qkv.shape[0]
    seen = context + ((tokens + 1) / 2 if causal else tokens)
    return [
        net.add(
            "attention",
            "attention",
            [part],
            (tokens, width),
            flops=4.0 * tokens * seen * width,
            cache=2 * context * width,
        )
        for part in net.parts(qkv, [(tokens, 3 * width)] * groups)
    ]


def embedding(net: Builder, x: Value, rows: int, width: int) -> Value:
    """Look up one row of a table of `rows` for each token; the others are not read."""
    tokens = x.shape[0]
    share = min(1.0, tokens / rows)
    shape = (tokens, width)
    return net.add("embedding", "lookup", [x], shape, weights=rows * width, share=share)


def bert(
    layers: int = 12, width: int = 768, heads: int = 12, tokens: int = 128, groups: int = 1
) -> WorkGraph:
    """BERT encoder (base: 12 x 768, large: 24 x 1024), vocabulary 30,522, numbers of 32 bits."""
    net = Builder(f"bert-{layers}x{width}", SINGLE)
    x = embedding(net, net.input(tokens), 30522 + 512 + 2, width)
    for _ in range(layers):
        x = block(net, x, heads=heads, groups=groups, hidden=4 * width)
    # The pooler reads the first token alone.
    first = product(net, "pooler", [net.add("first", "elementwise", [x], (1, width))], width, width)
    net.output(first)
    return net.build()


def gpt(
    layers: int = 24,
    width: int = 1024,
    heads: int = 16,
    tokens: int = 128,
    context: int = 0,
    groups: int = 4,
    vocabulary: int = 50257,
) -> WorkGraph:
    """GPT decoder in 16 bits. `tokens` at once (prefill), or 1 after `context` others (decode)."""
    net = Builder(f"gpt-{layers}x{width}", HALF)
    x = embedding(net, net.input(tokens, width=8), vocabulary, width)
    for _ in range(layers):
        x = block(
            net, x, heads=heads, groups=groups, hidden=4 * width, context=context, causal=True
        )
    # Only the last token's successor is asked for, but a prefill scores every position.
    net.output(product(net, "head", [x], width, vocabulary))
    return net.build()


def vit(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    patch: int = 16,
    resolution: int = 224,
    groups: int = 1,
) -> WorkGraph:
    """Vision transformer (base: 12 x 768, large: 24 x 1024), patches of 16 x 16."""
    if resolution % patch:
        raise UsageError(f"resolution {resolution}: expected a multiple of the patch, {patch}")
    side = resolution // patch
    tokens = side * side + 1
    net = Builder(f"vit-{layers}x{width}", SINGLE)
    image = net.input(3, resolution, resolution)
    weights = 3 * patch * patch * width
    x = net.add(
        "patches",
        "conv",
        [image],
        (tokens, width),
        flops=2.0 * side * side * weights,
        weights=weights + (tokens + 2) * width,
    )
    for _ in range(layers):
        x = block(net, x, heads=heads, groups=groups, hidden=4 * width)
    first = net.add("first", "elementwise", [x], (width,), traffic=2 * width)
    net.output(dense(net, first, 1000, op="classifier"))
    return net.build()
