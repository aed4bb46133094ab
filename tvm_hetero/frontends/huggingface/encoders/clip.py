"""CLIP: an encoder of text, an encoder of images, and both with what compares them.

text     x = words[input_ids] + positions;  last_hidden_state = norm(layers(x))
         pooler_output: of the token that ends the text; no token sees those behind it
image    x = norm([class token, patches] + positions);  last_hidden_state = layers(x)
         pooler_output = norm(x of the class token)
both     embeds = projection(pooler_output), of length 1
         logits_per_image = exp(logit_scale) * image_embeds @ text_embeds^T
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface import operators
from tvm_hetero.frontends.huggingface.encoders.config import EncoderConfig
from tvm_hetero.frontends.huggingface.encoders.graph import UNSEEN, EncoderGraph
from tvm_hetero.frontends.huggingface.encoders.inputs import EncoderInput, agreed_shape
from tvm_hetero.frontends.huggingface.encoders.vision import (
    emit_patches,
    image_inputs,
    patch_count,
)
from tvm_hetero.frontends.huggingface.graph import constant
from tvm_hetero.frontends.huggingface.values import read_integer

# Configs from before it was corrected say 2, and mean the largest number of all.
_OLD_END = 2
_TEXT, _VISION = "clip_text_model", "clip_vision_model"


def clip_text_inputs(
    config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, EncoderInput]:
    """Inputs of the encoder of text, both of ``[batch, tokens]``."""
    names = ["input_ids", "attention_mask"]
    longest = _longest(config)
    shape = agreed_shape(names, shapes, (1, longest), (None, longest))
    most = {"input_ids": _vocabulary(config) - 1, "attention_mask": 1}
    return {name: EncoderInput(shape, "int64", (0, most[name])) for name in names}


def clip_inputs(
    config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, EncoderInput]:
    """Inputs of both encoders; texts and images need not be as many."""
    text = clip_text_inputs(config.parts[_TEXT], shapes)
    return text | image_inputs(config.parts[_VISION], shapes)


def emit_clip_text(graph: EncoderGraph) -> dict[str, relax.Expr]:
    """Emit the encoder of text; its outputs by name."""
    config, ids = graph.config, graph.inputs["input_ids"]
    words, positions = (
        graph.stored.take(f"embeddings.{kind}_embedding.weight", rows, config.width)
        for kind, rows in (("token", _vocabulary(config)), ("position", _longest(config)))
    )
    tokens = int(ids.ty.shape[1])
    x = graph.sequences(graph.embedded(ids, words))
    x = graph.rows(graph.emit(relax.op.add(x, constant(positions[None, :tokens]))))
    x = graph.norm(graph.layers(x, _unseen(graph, tokens)), "final_layer_norm")
    found = {"last_hidden_state": graph.sequences(x), "pooler_output": _at_end(graph, x)}
    return _with_projection(graph, found, "text_projection", "text_embeds")


def emit_clip_vision(graph: EncoderGraph) -> dict[str, relax.Expr]:
    """Emit the encoder of images; its outputs by name."""
    config, stored = graph.config, graph.stored
    first = stored.take("embeddings.class_embedding", config.width)
    at, rows = "embeddings.position_embedding.weight", patch_count(config) + 1
    positions = stored.take(at, rows, config.width)
    x = emit_patches(graph, "embeddings.patch_embedding.weight", None, first, positions)
    x = graph.layers(graph.norm(x, "pre_layrnorm"), None)
    pooled = graph.norm(graph.first_tokens(x), "post_layernorm")
    found = {"last_hidden_state": graph.sequences(x), "pooler_output": pooled}
    return _with_projection(graph, found, "visual_projection", "image_embeds")


def emit_clip(graph: EncoderGraph) -> dict[str, relax.Expr]:
    """Emit both encoders, and how alike each image is to each text."""
    size = read_integer(graph.config.data, "projection_dim", 512)
    embeds = []
    for name, emit, projection, inputs in (
        (_VISION, emit_clip_vision, "visual_projection", ["pixel_values"]),
        (_TEXT, emit_clip_text, "text_projection", ["input_ids", "attention_mask"]),
    ):
        config = graph.config.parts[name]
        own = {key: graph.inputs[key] for key in inputs}
        # Their projections are of the whole model's size, which the parts do not know.
        part = EncoderGraph(config, graph.whole, own, graph.bb)
        pooled = emit(part)["pooler_output"]
        embeds.append(_of_length_one(graph, _projected(part, pooled, projection, size)))
    images, texts = embeds
    scale = np.exp(graph.whole.take("logit_scale"))
    alike = graph.emit(relax.op.matmul(images, graph.emit(relax.op.permute_dims(texts))))
    logits = graph.emit(relax.op.multiply(alike, relax.const(float(scale), "float32")))
    turned = graph.emit(relax.op.permute_dims(logits))
    return {
        "logits_per_image": logits, "logits_per_text": turned,
        "text_embeds": texts, "image_embeds": images,
    }  # fmt: skip


def _with_projection(
    graph: EncoderGraph, found: dict[str, relax.Expr], name: str, output: str
) -> dict[str, relax.Expr]:
    """Of an encoder alone: its outputs, and the projection's where one is stored."""
    alone = "logit_scale" not in graph.whole
    if alone and f"{name}.weight" in graph.whole:
        size = read_integer(graph.config.data, "projection_dim", 512)
        found[output] = _projected(graph, found["pooler_output"], name, size)
    return found


def _projected(graph: EncoderGraph, x: relax.Expr, name: str, size: int) -> relax.Expr:
    matrix = constant(graph.whole.take(f"{name}.weight", size, graph.config.width))
    return graph.emit(relax.op.matmul(x, graph.emit(relax.op.permute_dims(matrix))))


def _of_length_one(graph: EncoderGraph, x: relax.Expr) -> relax.Expr:
    squares = graph.emit(relax.op.sum(graph.emit(relax.op.multiply(x, x)), [1], keepdims=True))
    return graph.emit(relax.op.divide(x, graph.emit(relax.op.sqrt(squares))))


def _unseen(graph: EncoderGraph, tokens: int) -> relax.Expr:
    """What is added to scores: tokens that come later are not seen, nor those of the mask."""
    later = np.triu(np.full((1, 1, tokens, tokens), UNSEEN, np.float32), 1)
    masked = graph.unseen(graph.inputs["attention_mask"])
    return graph.emit(relax.op.minimum(masked, constant(later)))


def _at_end(graph: EncoderGraph, x: relax.Expr) -> relax.Expr:
    """The row of the token that ends each text."""
    ids = graph.inputs["input_ids"]
    batch, tokens = (int(extent) for extent in ids.ty.shape)
    end = graph.config.data.get("eos_token_id", 49407)
    if type(end) is not int:
        raise ModelError(f"eos_token_id is {end!r:.100}; expected the number of one token")
    if end != _OLD_END:
        same = graph.emit(relax.op.equal(ids, relax.const(end, "int64")))
        ids = graph.emit(relax.op.astype(same, "int64"))
    place = graph.emit(relax.op.argmax(ids, axis=1))
    starts = constant(np.arange(batch, dtype=np.int64) * tokens)
    return operators.look_up(graph.bb, x, graph.emit(relax.op.add(place, starts)))


def _vocabulary(config: EncoderConfig) -> int:
    return read_integer(config.data, "vocab_size", 49408)


def _longest(config: EncoderConfig) -> int:
    return read_integer(config.data, "max_position_embeddings", 77)
