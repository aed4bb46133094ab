"""Llama, Mistral, Qwen2, and Mixtral, which has experts instead of one network (`experts`).

    x = embed[token]
    in each layer:  x = x + attention(norm(x))     x = x + down(silu(gate(norm(x))) * up(norm(x)))
    logits = norm(x) @ head^T

Norms are RMS norms; queries and keys are turned by their position inside of the attention; keys and
values may have fewer heads than queries. Matrices are stored as ``[out, in]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvm import relax

from tvm_hetero.frontends.huggingface import experts, operators
from tvm_hetero.frontends.huggingface.config import Config
from tvm_hetero.frontends.huggingface.graph import DecoderGraph, constant
from tvm_hetero.frontends.huggingface.shards import unit_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Shape = tuple[int, ...]

HEAD = "lm_head.weight"
TABLE, _NORM = "model.embed_tokens.weight", "model.norm.weight"
_INNER = ("gate_proj", "up_proj", "down_proj")


def weight_shapes(config: Config) -> dict[str, Shape]:
    """Name and shape of every weight."""
    width = config.width
    shapes: dict[str, Shape] = {TABLE: (config.vocabulary, width), _NORM: (width,)}
    for layer in range(config.layers):
        start = f"model.layers.{layer}"
        shapes[f"{start}.input_layernorm.weight"] = (width,)
        shapes[f"{start}.post_attention_layernorm.weight"] = (width,)
        inner = experts.weight_shapes(config) if config.experts else _inner_shapes(config)
        for name, shape in (_attention_shapes(config) | inner).items():
            shapes[f"{start}.{name}"] = shape
    return shapes if config.tied else {**shapes, HEAD: (config.vocabulary, width)}


def _attention_shapes(config: Config) -> dict[str, Shape]:
    width, queries = config.width, config.heads * config.size
    kv = config.kv_heads * config.size
    shapes = {
        "q_proj": (queries, width), "k_proj": (kv, width), "v_proj": (kv, width),
        "o_proj": (width, queries),
    }  # fmt: skip
    named = _with_biases("self_attn", shapes, config.attention_bias)
    if not config.output_bias:
        named.pop("self_attn.o_proj.bias", None)
    return named


def _inner_shapes(config: Config) -> dict[str, Shape]:
    there, back = (config.inner, config.width), (config.width, config.inner)
    shapes = dict(zip(_INNER, (there, there, back), strict=True))
    return _with_biases("mlp", shapes, config.inner_bias)


def _with_biases(start: str, matrices: Mapping[str, Shape], bias: bool) -> dict[str, Shape]:
    shapes = {f"{start}.{name}.weight": shape for name, shape in matrices.items()}
    if bias:
        shapes |= {f"{start}.{name}.bias": shape[:1] for name, shape in matrices.items()}
    return shapes


def logits(graph: DecoderGraph) -> relax.Expr:
    """Emit the whole model."""
    tables = [constant(graph.weight(TABLE))]
    x = operators.embed(graph.bb, graph.token, graph.position, tables)
    for layer in range(graph.config.layers):
        x = _attention(graph, x, layer)
        start = f"model.layers.{layer}"
        normed = _norm(graph, x, f"{start}.post_attention_layernorm.weight")
        parts = (
            experts.parts(graph, normed, start)
            if graph.config.experts
            else _inner(graph, normed, f"{start}.mlp")
        )
        x = graph.joined(x, parts, _bias(graph, f"{start}.mlp.down_proj"))
    x = _norm(graph, graph.wanted(x), _NORM)
    return graph.head(x, graph.weight(TABLE if graph.config.tied else HEAD).T)


def _attention(graph: DecoderGraph, x: relax.Expr, layer: int) -> relax.Expr:
    start, size = f"model.layers.{layer}", graph.config.size
    normed = _norm(graph, x, f"{start}.input_layernorm.weight")
    names = [f"{start}.self_attn.{kind}_proj" for kind in "qkvo"]
    matrices = [graph.weight(f"{name}.weight") for name in names]
    biases = [_bias(graph, name) for name in names]
    parts = []
    for shard, heads in enumerate(graph.heads):
        queries, kv = heads.of(heads.queries, size), heads.of(heads.kv, size)
        q, k, v = (
            graph.linear(normed, matrix[rows].T, None if bias is None else bias[rows])
            for matrix, bias, rows in zip(matrices[:3], biases[:3], (queries, kv, kv), strict=True)
        )
        found = graph.attention(layer, shard, q, k, v)
        parts.append(graph.linear(found, matrices[3][:, queries].T))
    return graph.joined(x, parts, biases[3])


def _inner(graph: DecoderGraph, x: relax.Expr, name: str) -> list[relax.Expr]:
    """What the shards of a feed-forward network compute, without the last bias."""
    gate, up, down = (graph.weight(f"{name}.{kind}.weight") for kind in _INNER)
    biases = [_bias(graph, f"{name}.{kind}") for kind in _INNER[:2]]
    parts = []
    for units in unit_groups(graph.config, graph.plan.shards):
        own = [None if bias is None else bias[units] for bias in biases]
        gates = graph.activated(graph.linear(x, gate[units].T, own[0]))
        hidden = graph.times(graph.linear(x, up[units].T, own[1]), gates)
        parts.append(graph.linear(hidden, down[:, units].T))
    return parts


def _bias(graph: DecoderGraph, name: str) -> NDArray[Any] | None:
    config = graph.config
    there = config.attention_bias if ".self_attn." in name else config.inner_bias
    if name.endswith(".o_proj"):
        there = config.output_bias
    return graph.weight(f"{name}.bias") if there else None


def _norm(graph: DecoderGraph, x: relax.Expr, name: str) -> relax.Expr:
    return operators.rms_norm(graph.bb, x, graph.vector(graph.weight(name)), graph.config.epsilon)
