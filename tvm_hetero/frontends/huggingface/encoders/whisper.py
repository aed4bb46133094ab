"""Whisper's encoder, of a spectrum of 30 s whatever is in it.

    x = gelu(conv(gelu(conv(input_features)))) + positions
    last_hidden_state = norm(layers(x))

The second convolution takes every other time.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax

from tvm_hetero.frontends.huggingface.encoders.config import EncoderConfig
from tvm_hetero.frontends.huggingface.encoders.graph import EncoderGraph
from tvm_hetero.frontends.huggingface.encoders.inputs import EncoderInput, agreed_shape
from tvm_hetero.frontends.huggingface.graph import constant
from tvm_hetero.frontends.huggingface.values import read_integer

_SIZE = 3  # of both convolutions


def whisper_inputs(
    config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, EncoderInput]:
    """The spectrum, ``[batch, bins, times]``; all but the batch is the config's."""
    spectrum = (read_integer(config.data, "num_mel_bins", 80), 2 * _positions(config))
    whole = (None, *spectrum)
    shape = agreed_shape(["input_features"], shapes, (1, *spectrum), whole, whole)
    return {"input_features": EncoderInput(shape, "float32")}


def emit_whisper(graph: EncoderGraph) -> dict[str, relax.Expr]:
    """Emit the encoder; its output by name."""
    width, rows = graph.config.width, _positions(graph.config)
    x = graph.inputs["input_features"]
    for name, stride in (("conv1", 1), ("conv2", 2)):
        wide = graph.emit(relax.op.nn.pad(x, [0, 0, 0, 0, 1, 1]))
        x = graph.activated(graph.convolved(wide, name, width, _SIZE, stride), "gelu")
    positions = graph.stored.take("embed_positions.weight", rows, width)
    x = graph.emit(relax.op.add(graph.turned(x), constant(positions[None])))
    x = graph.norm(graph.layers(graph.rows(x), None), "layer_norm")
    return {"last_hidden_state": graph.sequences(x)}


def _positions(config: EncoderConfig) -> int:
    return read_integer(config.data, "max_source_positions", 1500)
