"""From a folder of an encoder to its module."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import tvm
from tvm import relax

from tvm_hetero.frontends.huggingface.encoders import clip, text, vision, wav2vec2, whisper
from tvm_hetero.frontends.huggingface.encoders.config import EncoderConfig, read_encoder
from tvm_hetero.frontends.huggingface.encoders.graph import EncoderGraph
from tvm_hetero.frontends.huggingface.encoders.inputs import EncoderInput, refuse_others
from tvm_hetero.frontends.huggingface.encoders.stored import StoredWeights
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES, RANGES, SOURCE
from tvm_hetero.util.tvm_state import one_thread
from tvm_hetero.util.untrusted_names import identifier

Inputs = Callable[[EncoderConfig, Mapping[str, tuple[int, ...]]], dict[str, EncoderInput]]
Emit = Callable[[EncoderGraph], dict[str, relax.Expr]]

# What an encoder takes, and how its graph is made.
_BUILDERS: dict[str, tuple[Inputs, Emit]] = {
    "bert": (text.text_inputs, text.emit_text),
    "distilbert": (text.text_inputs, text.emit_text),
    "roberta": (text.text_inputs, text.emit_text),
    "vit": (vision.image_inputs, vision.emit_vit),
    "clip_text_model": (clip.clip_text_inputs, clip.emit_clip_text),
    "clip_vision_model": (vision.image_inputs, clip.emit_clip_vision),
    "clip": (clip.clip_inputs, clip.emit_clip),
    "whisper": (whisper.whisper_inputs, whisper.emit_whisper),
    "wav2vec2": (wav2vec2.wav2vec2_inputs, wav2vec2.emit_wav2vec2),
}


@one_thread
def encoder_from_huggingface(
    folder: str | os.PathLike[str], *, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> tvm.IRModule:
    """Import an encoder from a folder as Hugging Face's libraries write it.

    Parameters
    ----------
    folder
        With ``config.json`` and safetensors. Nothing is downloaded and nothing unpickled. Heads
        that are stored beside the encoder are let pass.
    shapes
        Shapes of inputs, by name; by default one element of the largest size that the config has.

    Returns
    -------
    tvm.IRModule
        ``main``, with the inputs and outputs of the model in transformers, by their names there:
        ``input_ids``, ``attention_mask``, ``token_type_ids`` (int64 ``[batch, tokens]``),
        ``pixel_values``, ``input_features`` or ``input_values``; ``last_hidden_state`` and, where
        the model has one, ``pooler_output``; of CLIP its embeddings and logits.

    Raises
    ------
    ModelError
        The folder is malformed, or the model is none that we compute.
    UsageError
        A shape is none that the model takes.
    """
    path = Path(folder)
    config = read_encoder(path)
    describe, emit = _BUILDERS[config.name]
    given = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    inputs = describe(config, given)
    refuse_others(list(inputs), given)
    parameters = {
        name: relax.Var(name, relax.TensorType(each.shape, each.dtype))
        for name, each in inputs.items()
    }
    bb = relax.BlockBuilder()
    with StoredWeights(path) as stored, bb.function("main", list(parameters.values())):
        with bb.dataflow():
            found = emit(EncoderGraph(config, stored, parameters, bb))
            stored.refuse_rest(config.family.beside)
            result = bb.emit_output(relax.Tuple(list(found.values())))
        bb.emit_func_output(result)
    return _with_attributes(bb.get(), config, inputs, list(found), path)


def _with_attributes(
    mod: tvm.IRModule,
    config: EncoderConfig,
    inputs: Mapping[str, EncoderInput],
    outputs: list[str],
    folder: Path,
) -> tvm.IRModule:
    ranges = {name: each.range for name, each in inputs.items() if each.range is not None}
    note = {**config.source, "shapes": {name: each.shape for name, each in inputs.items()}}
    attributes = {
        INPUT_NAMES: list(inputs),
        OUTPUT_NAMES: outputs,
        MODEL_NAME: identifier(folder.absolute().name or "model"),
        RANGES: json.dumps(ranges),
        SOURCE: json.dumps(note),
    }
    mod["main"] = mod["main"].with_attrs(attributes)
    return relax.transform.Normalize()(mod)
