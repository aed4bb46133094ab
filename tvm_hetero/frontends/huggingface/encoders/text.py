"""Encoders of text: BERT (MiniLM is one), RoBERTa, DistilBERT.

    x = norm(words[input_ids] + types[token_type_ids] + positions)
    last_hidden_state = layers(x)
    pooler_output = tanh(pooler(x of the first token)), where a pooler is stored

CLIP's (`clip`) has no kinds of tokens and no norm in front, and sees no token that comes later.
RoBERTa counts its positions past what fills a text up: a token has ``padding + 1 + how many come
before it that are no padding``, and padding has row ``padding`` of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface.encoders.config import EncoderConfig
from tvm_hetero.frontends.huggingface.encoders.graph import EncoderGraph
from tvm_hetero.frontends.huggingface.encoders.inputs import EncoderInput, agreed_shape
from tvm_hetero.frontends.huggingface.graph import constant
from tvm_hetero.frontends.huggingface.values import read_integer
from tvm_hetero.kernels.ordered.accumulate import accumulate

_VOCABULARIES = {"bert": 30522, "distilbert": 30522, "roberta": 50265}


def text_inputs(
    config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, EncoderInput]:
    """Inputs of an encoder of text, all of ``[batch, tokens]``."""
    names = ["input_ids", "attention_mask"]
    if _types(config) > 1:
        names.append("token_type_ids")
    longest = _rows(config) - _first(config)
    if longest < 1:
        raise ModelError(
            f"max_position_embeddings is {_rows(config)}, and the first of them is of row "
            f"{_first(config)}; expected more"
        )
    shape = agreed_shape(names, shapes, (1, longest), (None, longest))
    most = {"input_ids": _vocabulary(config) - 1, "token_type_ids": _types(config) - 1}
    return {name: EncoderInput(shape, "int64", (0, most.get(name, 1))) for name in names}


def emit_text(graph: EncoderGraph) -> dict[str, relax.Expr]:
    """Emit the whole model; its outputs by name."""
    config = graph.config
    x = graph.norm(_embedded(graph), "embeddings.LayerNorm")
    x = graph.layers(x, graph.unseen(graph.inputs["attention_mask"]))
    found = {"last_hidden_state": graph.sequences(x)}
    if "pooler.dense.weight" in graph.stored:
        first = graph.linear(graph.first_tokens(x), "pooler.dense", config.width, config.width)
        found["pooler_output"] = graph.activated(first, "tanh")
    return found


def _embedded(graph: EncoderGraph) -> relax.Expr:
    config, ids = graph.config, graph.inputs["input_ids"]
    words = _table(graph, "word", _vocabulary(config))
    x = graph.embedded(ids, words)
    if _types(config):
        types = _table(graph, "token_type", _types(config))
        kinds = graph.inputs.get("token_type_ids")
        x = graph.emit(
            relax.op.add(x, _row(types) if kinds is None else graph.embedded(kinds, types))
        )
    positions = _table(graph, "position", _rows(config))
    if config.name == "roberta":
        return graph.emit(relax.op.add(x, graph.embedded(_counted(graph, ids), positions)))
    tokens = int(ids.ty.shape[1])
    whole = relax.op.add(graph.sequences(x), constant(positions[None, :tokens]))
    return graph.rows(graph.emit(whole))


def _table(graph: EncoderGraph, kind: str, rows: int) -> np.ndarray:
    return graph.stored.take(f"embeddings.{kind}_embeddings.weight", rows, graph.config.width)


def _row(table: np.ndarray) -> relax.Expr:
    return constant(table[:1])


def _counted(graph: EncoderGraph, ids: relax.Expr) -> relax.Expr:
    """RoBERTa's position of each token."""
    batch, tokens = (int(extent) for extent in ids.ty.shape)
    padding = relax.const(_padding(graph.config), "int64")
    real = graph.emit(relax.op.astype(graph.emit(relax.op.not_equal(ids, padding)), "int64"))
    column = graph.emit(relax.op.reshape(real, (batch, tokens, 1)))
    kernel = graph.bb.add_func(accumulate((batch, tokens, 1), "int64"), "accumulate")
    kind = relax.TensorType((batch, tokens, 1), "int64")
    sums = graph.emit(relax.call_tir(kernel, [column], kind))
    counts = graph.emit(
        relax.op.multiply(graph.emit(relax.op.reshape(sums, (batch, tokens))), real)
    )
    return graph.emit(relax.op.add(counts, padding))


def _vocabulary(config: EncoderConfig) -> int:
    return read_integer(config.data, "vocab_size", _VOCABULARIES[config.name])


def _types(config: EncoderConfig) -> int:
    """Kinds of token; 0: the family has none."""
    return 0 if config.name == "distilbert" else read_integer(config.data, "type_vocab_size", 2)


def _rows(config: EncoderConfig) -> int:
    return read_integer(config.data, "max_position_embeddings", 512)


def _padding(config: EncoderConfig) -> int:
    padding = config.data.get("pad_token_id", 1)
    if type(padding) is not int or not 0 <= padding < _vocabulary(config):
        raise ModelError("pad_token_id: expected a token's number, which positions count from")
    return padding


def _first(config: EncoderConfig) -> int:
    """The first row of the table of positions that a token can have."""
    return _padding(config) + 1 if config.name == "roberta" else 0
