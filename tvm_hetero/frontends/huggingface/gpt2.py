"""GPT-2, and GPT-3, which is the same at other sizes.

    x = wte[token] + wpe[position]
    in each layer:  x = x + attention(norm(x))        x = x + proj(gelu(fc(norm(x))))
    logits = norm(x) @ wte^T

Its matrices are stored as ``[in, out]``, those of queries, keys and values side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax

from tvm_hetero.frontends.huggingface import operators
from tvm_hetero.frontends.huggingface.config import Config
from tvm_hetero.frontends.huggingface.graph import DecoderGraph, constant
from tvm_hetero.frontends.huggingface.shards import unit_groups

if TYPE_CHECKING:
    Shape = tuple[int, ...]

HEAD = "lm_head.weight"
TABLE, _POSITIONS = "transformer.wte.weight", "transformer.wpe.weight"


def weight_shapes(config: Config) -> dict[str, Shape]:
    """Name and shape of every weight."""
    width, inner = config.width, config.inner
    shapes: dict[str, Shape] = {
        TABLE: (config.vocabulary, width),
        _POSITIONS: (config.longest, width),
    }
    for layer in range(config.layers):
        for name, shape in {
            "ln_1": (width,), "attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
            "ln_2": (width,), "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width),
        }.items():  # fmt: skip
            shapes[f"{_layer(layer)}.{name}.weight"] = shape
            shapes[f"{_layer(layer)}.{name}.bias"] = shape[-1:]
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (width,)
    return shapes if config.tied else {**shapes, HEAD: (config.vocabulary, width)}


def logits(graph: DecoderGraph) -> relax.Expr:
    """Emit the whole model."""
    rows = graph.weight(_POSITIONS)[: graph.plan.length]
    tables = [constant(graph.weight(TABLE)), constant(rows)]
    x = operators.embed(graph.bb, graph.token, graph.position, tables)
    for layer in range(graph.config.layers):
        x = _attention(graph, x, layer)
        x = _inner(graph, x, _layer(layer))
    x = _norm(graph, graph.wanted(x), "transformer.ln_f")
    return graph.head(x, graph.weight(TABLE if graph.config.tied else HEAD).T)


def _attention(graph: DecoderGraph, x: relax.Expr, layer: int) -> relax.Expr:
    name, size, width = f"{_layer(layer)}.attn", graph.config.size, graph.config.width
    normed = _norm(graph, x, f"{_layer(layer)}.ln_1")
    matrix, bias = (graph.weight(f"{name}.c_attn.{kind}") for kind in ("weight", "bias"))
    back = graph.weight(f"{name}.c_proj.weight")
    parts = []
    for shard, heads in enumerate(graph.heads):
        own = heads.of(heads.queries, size)
        columns = [slice(start + own.start, start + own.stop) for start in (0, width, 2 * width)]
        q, k, v = (graph.linear(normed, matrix[:, c], bias[c]) for c in columns)
        parts.append(graph.linear(graph.attention(layer, shard, q, k, v), back[own]))
    return graph.joined(x, parts, graph.weight(f"{name}.c_proj.bias"))


def _inner(graph: DecoderGraph, x: relax.Expr, name: str) -> relax.Expr:
    normed = _norm(graph, x, f"{name}.ln_2")
    there, back = (graph.weight(f"{name}.mlp.{kind}.weight") for kind in ("c_fc", "c_proj"))
    bias = graph.weight(f"{name}.mlp.c_fc.bias")
    parts = []
    for units in unit_groups(graph.config, graph.plan.shards):
        hidden = graph.activated(graph.linear(normed, there[:, units], bias[units]))
        parts.append(graph.linear(hidden, back[units]))
    return graph.joined(x, parts, graph.weight(f"{name}.mlp.c_proj.bias"))


def _norm(graph: DecoderGraph, x: relax.Expr, name: str) -> relax.Expr:
    scale, shift = (graph.vector(graph.weight(f"{name}.{kind}")) for kind in ("weight", "bias"))
    return operators.layer_norm(graph.bb, x, scale, shift, graph.config.epsilon)


def _layer(layer: int) -> str:
    return f"transformer.h.{layer}"
