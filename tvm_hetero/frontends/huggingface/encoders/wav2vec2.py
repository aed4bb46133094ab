"""wav2vec2: an encoder of samples, of which convolutions that overlap make frames.

frames = projection(norm(convolutions(input_values))), 0 where the mask says that nothing is
x = frames + gelu(convolution over neighbours)
last_hidden_state = layers(norm(x)), or norm(layers(x)) where norms stand before what they are of
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface.encoders.config import ACTIVATIONS, EncoderConfig
from tvm_hetero.frontends.huggingface.encoders.graph import EncoderGraph
from tvm_hetero.frontends.huggingface.encoders.inputs import EncoderInput, agreed_shape
from tvm_hetero.frontends.huggingface.graph import constant
from tvm_hetero.frontends.huggingface.values import read_flag, read_integer
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_EPSILON = 1e-5  # of norms among the convolutions, whatever the config says
_MOST_CONVOLUTIONS = 100
_USUAL = {
    "conv_dim": [512] * 7, "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
}  # fmt: skip


def wav2vec2_inputs(
    config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, EncoderInput]:
    """Samples and their mask, both of ``[batch, samples]``; how many, the config does not say."""
    least = 1
    for size, stride in reversed(list(zip(*_filters(config)[1:], strict=True))):
        least = (least - 1) * stride + size
    names = ["input_values", "attention_mask"]
    shape = agreed_shape(names, shapes, None, (None, None), (None, least))
    return {
        names[0]: EncoderInput(shape, "float32"),
        names[1]: EncoderInput(shape, "int64", (0, 1)),
    }


def emit_wav2vec2(graph: EncoderGraph) -> dict[str, relax.Expr]:
    """Emit the whole model; its output by name."""
    config = graph.config
    x = graph.rows(graph.turned(_emit_filters(graph)))
    x = graph.norm(x, "feature_projection.layer_norm")
    narrow = int(x.ty.shape[1])
    x = graph.sequences(graph.linear(x, "feature_projection.projection", narrow, config.width))
    frames = _frame_mask(graph, int(x.ty.shape[1]))
    kept = graph.emit(relax.op.expand_dims(graph.emit(relax.op.astype(frames, "float32")), 2))
    x = graph.emit(relax.op.multiply(x, kept))
    x = graph.rows(graph.emit(relax.op.add(x, _neighbours(graph, x))))
    if config.family.layer.norm_before:
        x = graph.norm(graph.layers(x, graph.unseen(frames)), "encoder.layer_norm")
    else:
        x = graph.layers(graph.norm(x, "encoder.layer_norm"), graph.unseen(frames))
    return {"last_hidden_state": graph.sequences(x)}


def _emit_filters(graph: EncoderGraph) -> relax.Expr:
    """The convolutions that make frames of samples, ``[batch, channels, frames]``."""
    config = graph.config
    kind, activation = config.data.get("feat_extract_norm", "group"), _activation(config)
    if kind not in ("group", "layer"):
        raise ModelError(f"feat_extract_norm is '{printable(kind)}'; expected group or layer")
    bias = read_flag(config.data, "conv_bias", False)
    x = graph.emit(relax.op.expand_dims(graph.inputs["input_values"], 1))
    for number, (width, size, stride) in enumerate(zip(*_filters(config), strict=True)):
        at = f"feature_extractor.conv_layers.{number}"
        x = graph.convolved(x, f"{at}.conv", width, size, stride, bias=bias)
        if kind == "layer":
            rows = graph.norm(graph.rows(graph.turned(x)), f"{at}.layer_norm", _EPSILON)
            x = graph.turned(graph.sequences(rows))
        elif number == 0:
            x = _group_norm(graph, x, f"{at}.layer_norm")
        x = graph.activated(x, activation)
    return x


def _group_norm(graph: EncoderGraph, x: relax.Expr, name: str) -> relax.Expr:
    """Each channel with mean 0 and variance 1 over its times."""
    width = int(x.ty.shape[1])
    scale, shift = (
        constant(graph.stored.take(f"{name}.{kind}", width)) for kind in ("weight", "bias")
    )
    return graph.emit(relax.op.nn.instance_norm(x, scale, shift, 1, [2], _EPSILON))


def _neighbours(graph: EncoderGraph, x: relax.Expr) -> relax.Expr:
    """Where frames stand, told by their neighbours: a convolution in groups of channels."""
    config = graph.config
    size = read_integer(config.data, "num_conv_pos_embeddings", 128)
    groups = read_integer(config.data, "num_conv_pos_embedding_groups", 16)
    if config.width % groups:
        raise ModelError(f"hidden_size ({config.width}) is no multiple of {groups} groups")
    at = "encoder.pos_conv_embed.conv"
    weight = constant(_normed_weight(graph, at, (config.width, config.width // groups, size)))
    bias = constant(graph.stored.take(f"{at}.bias", config.width).reshape(1, -1, 1))
    # Of an even size there would be one more than there are frames: its last is left out.
    sides = [size // 2, size // 2 - (1 - size % 2)]
    found = relax.op.nn.conv1d(graph.turned(x), weight, padding=sides, groups=groups)
    found = graph.emit(relax.op.add(graph.emit(found), bias))
    return graph.turned(graph.activated(found, _activation(config)))


def _normed_weight(graph: EncoderGraph, at: str, shape: tuple[int, int, int]) -> Array:
    """A weight that is stored as a direction and a length for each place of the filter."""
    new = f"{at}.parametrizations.weight.original"
    lengths, directions = (
        (f"{new}0", f"{new}1")
        if f"{new}0" in graph.stored
        else (f"{at}.weight_g", f"{at}.weight_v")
    )
    direction = graph.stored.take(directions, *shape).astype(np.float64)
    length = np.sqrt(np.square(direction).sum(axis=(0, 1), keepdims=True))
    weight = direction * graph.stored.take(lengths, 1, 1, shape[2]) / length
    return np.asarray(weight, np.float32)


def _frame_mask(graph: EncoderGraph, frames: int) -> relax.Expr:
    """Which frames are seen, int64 ``[batch, frames]``: those of the samples that are."""
    count = graph.emit(relax.op.sum(graph.inputs["attention_mask"], [1], keepdims=True))
    for size, stride in zip(*_filters(graph.config)[1:], strict=True):
        count = graph.emit(relax.op.subtract(count, relax.const(size, "int64")))
        count = graph.emit(relax.op.floor_divide(count, relax.const(stride, "int64")))
        count = graph.emit(relax.op.add(count, relax.const(1, "int64")))
    seen = graph.emit(relax.op.less(constant(np.arange(frames, dtype=np.int64)[None]), count))
    return graph.emit(relax.op.astype(seen, "int64"))


def _filters(config: EncoderConfig) -> list[Sequence[int]]:
    """Channels, sizes and strides of the convolutions that make frames."""
    found: list[Sequence[int]] = []
    for key, usual in _USUAL.items():
        values = config.data.get(key, usual)
        if not isinstance(values, list) or not 1 <= len(values) <= _MOST_CONVOLUTIONS:
            raise ModelError(f"{key} is {printable(repr(values), 100)}; expected a list of numbers")
        found.append([read_integer({key: value}, key, 0) for value in values])
    if len({len(values) for values in found}) > 1:
        raise ModelError(f"{', '.join(_USUAL)}: expected lists of one length")
    return found


def _activation(config: EncoderConfig) -> str:
    kind = config.data.get("feat_extract_activation", "gelu")
    if kind not in ACTIVATIONS:
        raise ModelError(
            f"feat_extract_activation is '{printable(kind)}'; expected one of "
            f"{', '.join(ACTIVATIONS)}"
        )
    return str(kind)
