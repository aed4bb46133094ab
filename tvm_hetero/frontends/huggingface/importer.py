"""From a folder of a decoder to the module of one of its graphs: a step, or a chunk of a prompt."""

from __future__ import annotations

import json
import os
from pathlib import Path

import tvm
from tvm import relax

from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.huggingface import gpt2, llama_family
from tvm_hetero.frontends.huggingface.config import Config, read_config
from tvm_hetero.frontends.huggingface.graph import BuildPlan, DecoderGraph
from tvm_hetero.frontends.huggingface.shards import check_shards
from tvm_hetero.frontends.huggingface.weights import Weights
from tvm_hetero.kernels.attention.kernel import CACHE_TYPES
from tvm_hetero.passes.attributes import (
    INPUT_NAMES,
    MODEL_NAME,
    OUTPUT_NAMES,
    RANGES,
    SOURCE,
    STATES,
)
from tvm_hetero.util.tvm_state import one_thread
from tvm_hetero.util.untrusted_names import identifier

WEIGHTS = ("float32", "bfloat16", "int8", "int4")


@one_thread
def from_huggingface(
    folder: str | os.PathLike[str],
    *,
    tokens: int = 1,
    length: int | None = None,
    shards: int = 1,
    weights: str = "float32",
    cache: str = "float32",
) -> tvm.IRModule:
    """Import a decoder from a folder as Hugging Face's libraries write it.

    Parameters
    ----------
    folder
        With ``config.json`` and safetensors. Nothing is downloaded and nothing unpickled.
    tokens
        How many tokens a run takes: 1 for a step, more for a chunk of a prompt.
    length
        Rows of the caches: the longest sequence; by default the longest that the model allows.
    shards
        In how many parts each layer's attention and feed-forward network (or experts) is divided.
    weights
        In which type matrices are kept: ``float32`` (as they are stored), ``bfloat16`` (all weights
        are rounded, and what matrices are multiplied by), ``int8`` or ``int4`` (matrices, with a
        scale for each group of numbers; the head is of 8 bits then, tables and norms are as they
        are stored). Sums are of float32.
    cache
        In which type keys and values are kept.

    Returns
    -------
    tvm.IRModule
        ``main`` of one sequence: ``token [tokens]``, ``position [1]``, where there are more tokens
        than one ``last [1]``, and the caches ``key.L.S`` and ``value.L.S`` of layer L and shard S.
        It gives the logits ``[1, vocabulary]`` of the token in row ``last``. Row ``position`` of
        the caches is that of the first token; they are written in place (`STATES`).

    Raises
    ------
    ModelError
        The folder is malformed, or the model is none that we compute.
    UsageError
        An argument is out of its range.
    """
    path = Path(folder)
    config = read_config(path)
    plan = _plan(config, tokens, length, shards, weights, cache)
    family = llama_family if config.rotary is not None else gpt2
    tied = (family.HEAD, family.TABLE) if config.tied else None
    with Weights(path, family.weight_shapes(config), tied) as stored:
        graph = DecoderGraph(config, plan, stored)
        with graph.bb.function("main", list(graph.inputs.values())):
            with graph.bb.dataflow():
                result = graph.bb.emit_output(family.emit_logits(graph))
            graph.bb.emit_func_output(result)
    return _with_attributes(graph.bb.get(), graph, path)


def _plan(
    config: Config, tokens: int, length: int | None, shards: int, weights: str, cache: str
) -> BuildPlan:
    """What is asked for, checked."""
    rows = config.longest if length is None else length
    if not 1 <= rows <= config.longest:
        raise UsageError(f"length={length}: expected 1 to {config.longest}, the model's longest")
    if not 1 <= tokens <= rows:
        raise UsageError(f"tokens={tokens}: expected 1 to {rows}, the rows of the caches")
    check_shards(config, shards)
    for name, value, known in (("weights", weights, WEIGHTS), ("cache", cache, CACHE_TYPES)):
        if value not in known:
            raise UsageError(f"{name}={value!r}: expected one of {', '.join(known)}")
    return BuildPlan(tokens, rows, shards, weights, cache)


def _with_attributes(mod: tvm.IRModule, graph: DecoderGraph, folder: Path) -> tvm.IRModule:
    config, plan = graph.config, graph.plan
    ranges = {"token": [0, config.vocabulary - 1], "position": [0, plan.length - 1]}
    if graph.last is not None:
        ranges["last"] = [0, plan.tokens - 1]
    note = {**config.source, "tokens": plan.tokens, "length": plan.length,
            "shards": plan.shards, "weights": plan.weights, "cache": plan.cache}  # fmt: skip
    attributes = {
        INPUT_NAMES: list(graph.inputs),
        OUTPUT_NAMES: ["logits"],
        MODEL_NAME: identifier(folder.absolute().name or "model"),
        STATES: list(graph.states),
        RANGES: json.dumps(ranges),
        SOURCE: json.dumps(note),
    }
    mod["main"] = mod["main"].with_attrs(attributes)
    return relax.transform.Normalize()(mod)
