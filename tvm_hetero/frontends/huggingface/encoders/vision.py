"""Encoders of images: ViT.

x = [class token, patches of the image] + positions
last_hidden_state = norm(layers(x))
pooler_output = tanh(pooler(x of the class token)), where a pooler is stored
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface.encoders.config import EncoderConfig
from tvm_hetero.frontends.huggingface.encoders.graph import EncoderGraph
from tvm_hetero.frontends.huggingface.encoders.inputs import EncoderInput, agreed_shape
from tvm_hetero.frontends.huggingface.graph import constant
from tvm_hetero.frontends.huggingface.values import read_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_PATCHES = {"vit": 16, "clip_vision_model": 32}


def image_inputs(
    config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, EncoderInput]:
    """The image, ``[batch, channels, height, width]``; all but the batch is the config's."""
    image = (read_integer(config.data, "num_channels", 3), *_pair(config, "image_size", 224))
    shape = agreed_shape(["pixel_values"], shapes, (1, *image), (None, *image), (None, *image))
    return {"pixel_values": EncoderInput(shape, "float32")}


def emit_vit(graph: EncoderGraph) -> dict[str, relax.Expr]:
    """Emit the whole model; its outputs by name."""
    config, stored = graph.config, graph.stored
    at, count = "embeddings.patch_embeddings.projection", patch_count(config)
    bias = stored.take(f"{at}.bias", config.width)
    first = stored.take("embeddings.cls_token", 1, 1, config.width)
    positions = stored.take("embeddings.position_embeddings", 1, count + 1, config.width)
    x = emit_patches(graph, f"{at}.weight", bias, first.reshape(-1), positions[0])
    x = graph.norm(graph.layers(x, None), "layernorm")
    found = {"last_hidden_state": graph.sequences(x)}
    if "pooler.dense.weight" in stored:
        size = read_integer(config.data, "pooler_output_size", config.width)
        pooled = graph.linear(graph.first_tokens(x), "pooler.dense", config.width, size)
        found["pooler_output"] = graph.activated(pooled, "tanh")
    return found


def emit_patches(
    graph: EncoderGraph, matrix: str, bias: Array | None, first: Array, positions: Array
) -> relax.Expr:
    """Rows of the class token and of the image's patches, plus their positions."""
    config, image = graph.config, graph.inputs["pixel_values"]
    channels, size = int(image.ty.shape[1]), _pair(config, "patch_size", _PATCHES[config.name])
    weight = constant(graph.stored.take(matrix, config.width, channels, *size))
    patches = graph.emit(relax.op.nn.conv2d(image, weight, strides=list(size)))
    shape = (graph.batch, config.width, patch_count(config))
    patches = graph.emit(relax.op.reshape(patches, shape))
    patches = graph.emit(relax.op.permute_dims(patches, [0, 2, 1]))
    if bias is not None:
        patches = graph.emit(relax.op.add(patches, constant(bias)))
    patches = graph.emit(relax.op.add(patches, constant(positions[None, 1:])))
    token = np.broadcast_to(first + positions[0], (graph.batch, 1, config.width))
    return graph.rows(graph.emit(relax.op.concat([constant(token), patches], axis=1)))


def patch_count(config: EncoderConfig) -> int:
    """How many patches an image has.

    Raises
    ------
    ModelError
        An image is smaller than a patch.
    """
    image = _pair(config, "image_size", 224)
    patch = _pair(config, "patch_size", _PATCHES[config.name])
    count = (image[0] // patch[0]) * (image[1] // patch[1])
    if count < 1:
        raise ModelError(f"image_size {image} is smaller than patch_size {patch}")
    return count


def _pair(config: EncoderConfig, key: str, usual: int) -> tuple[int, int]:
    """Height and width, which may be one number."""
    value = config.data.get(key)
    both = value if isinstance(value, list) and len(value) == 2 else [value, value]
    high, wide = (read_integer({key: each}, key, usual) for each in both)
    return high, wide
