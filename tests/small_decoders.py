"""Folders of tiny decoders as Hugging Face's libraries write them, made without those libraries.

`tiny` writes ``config.json`` and ``model.safetensors`` (or several files and their index) with the
names, shapes and meanings of the real models; the weights are random, large enough that different
tokens win at different steps. `SHAPES` says for each family which weights there are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FAMILIES = ("gpt2", "llama", "mixtral")

Shape = tuple[int, ...]

_COMMON = {"vocab_size": 96, "bos_token_id": 0, "eos_token_id": 95}
_ROTATED = {
    **_COMMON,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {
        **_COMMON,
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_positions": 64,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
    },
    "llama": {**_ROTATED, "architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "mixtral": {
        **_ROTATED,
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "mistral": {
        **_ROTATED,
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "sliding_window": None,
    },
    "qwen2": {**_ROTATED, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
}


def tiny(
    family: str,
    folder: Path,
    seed: int = 0,
    *,
    dtype: str = "float32",
    files: int = 1,
    **changes: Any,
) -> Path:
    """Write a tiny decoder; returns its folder.

    Parameters
    ----------
    family
        One of `FAMILIES`, or of those that are Llama but for a detail: ``mistral``, ``qwen2``.
    folder
        Where; made if it is not there.
    seed
        Of the weights.
    dtype
        In which the weights are stored: ``float32``, ``float16`` or ``bfloat16``.
    files
        Among how many safetensors files they are divided.
    changes
        Keys of ``config.json`` with other values; None for a key stands there as null.
    """
    config = {**CONFIGS[family], "torch_dtype": dtype, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    weights = random_weights(config, seed)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    write_weights(folder, {name: w.astype(kind) for name, w in weights.items()}, files)
    return folder


def random_weights(config: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Weights by name, float32: matrices keep the size of what goes through them."""
    rng = np.random.default_rng(seed)
    shapes = SHAPES[config["model_type"]](config)
    return {name: _drawn(rng, name, shape, config) for name, shape in shapes}


def _drawn(
    rng: np.random.Generator, name: str, shape: Shape, config: Mapping[str, Any]
) -> np.ndarray:
    drawn = rng.standard_normal(shape).astype(np.float32)
    if len(shape) == 1:
        is_scale = name.endswith("weight")
        return np.float32(1.0 if is_scale else 0.0) + np.float32(0.2) * drawn
    if "emb" in name or ".wte." in name or ".wpe." in name:
        return drawn * np.float32(0.5)
    rows = shape[0] if config["model_type"] == "gpt2" else shape[1]  # Conv1D is [in, out]
    return drawn / np.float32(math.sqrt(rows))


def _gpt2(config: Mapping[str, Any]) -> Iterator[tuple[str, Shape]]:
    width = config["n_embd"]
    inner = config["n_inner"] or 4 * width
    yield "transformer.wte.weight", (config["vocab_size"], width)
    yield "transformer.wpe.weight", (config["n_positions"], width)
    for layer in range(config["n_layer"]):
        h = f"transformer.h.{layer}"
        for name, shape in {
            "ln_1": (width,), "attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
            "ln_2": (width,), "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width),
        }.items():  # fmt: skip
            yield f"{h}.{name}.weight", shape
            yield f"{h}.{name}.bias", shape[-1:]
    yield "transformer.ln_f.weight", (width,)
    yield "transformer.ln_f.bias", (width,)
    if not config.get("tie_word_embeddings", True):
        yield "lm_head.weight", (config["vocab_size"], width)


def _rotated(
    config: Mapping[str, Any], inner: Callable[[Mapping[str, Any]], Iterator[tuple[str, Shape]]]
) -> Iterator[tuple[str, Shape]]:
    width, heads = config["hidden_size"], config["num_attention_heads"]
    size = config.get("head_dim") or width // heads
    kv = config["num_key_value_heads"] * size
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        start = f"model.layers.{layer}"
        yield f"{start}.input_layernorm.weight", (width,)
        for name, shape in {
            "q_proj": (heads * size, width), "k_proj": (kv, width), "v_proj": (kv, width),
            "o_proj": (width, heads * size),
        }.items():  # fmt: skip
            yield f"{start}.self_attn.{name}.weight", shape
            if config.get("attention_bias") or (config["model_type"] == "qwen2" and name[0] != "o"):
                yield f"{start}.self_attn.{name}.bias", shape[:1]
        yield f"{start}.post_attention_layernorm.weight", (width,)
        for name, shape in inner(config):
            yield f"{start}.{name}", shape
    yield "model.norm.weight", (width,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], width)


def _gated(config: Mapping[str, Any]) -> Iterator[tuple[str, Shape]]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    for name, shape in {
        "gate_proj": (inner, width), "up_proj": (inner, width), "down_proj": (width, inner),
    }.items():  # fmt: skip
        yield f"mlp.{name}.weight", shape
        if config.get("mlp_bias"):
            yield f"mlp.{name}.bias", shape[:1]


def _experts(config: Mapping[str, Any]) -> Iterator[tuple[str, Shape]]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    yield "block_sparse_moe.gate.weight", (config["num_local_experts"], width)
    for expert in range(config["num_local_experts"]):
        for name, shape in (("w1", (inner, width)), ("w2", (width, inner)), ("w3", (inner, width))):
            yield f"block_sparse_moe.experts.{expert}.{name}.weight", shape


SHAPES: dict[str, Callable[[Mapping[str, Any]], Iterator[tuple[str, Shape]]]] = {
    "gpt2": _gpt2,
    "llama": lambda config: _rotated(config, _gated),
    "mistral": lambda config: _rotated(config, _gated),
    "mixtral": lambda config: _rotated(config, _experts),
    "qwen2": lambda config: _rotated(config, _gated),
}


def write_weights(folder: Path, weights: Mapping[str, np.ndarray], files: int = 1) -> None:
    """Write weights as one safetensors file, or as several with an index."""
    if files == 1:
        write_safetensors(folder / "model.safetensors", weights)
        return
    names = sorted(weights)
    home = {n: f"model-{i % files + 1:05}-of-{files:05}.safetensors" for i, n in enumerate(names)}
    for file in sorted(set(home.values())):
        write_safetensors(folder / file, {n: weights[n] for n in names if home[n] == file})
    size = sum(w.nbytes for w in weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": home}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


_KINDS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64"}


def write_safetensors(path: Path, weights: Mapping[str, np.ndarray]) -> None:
    """The format itself: length of the header, header (JSON), the tensors' bytes in order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, weight in weights.items():
        end = at + weight.nbytes
        header[name] = {
            "dtype": _KINDS[weight.dtype.name],
            "shape": list(weight.shape),
            "data_offsets": [at, end],
        }
        at = end
    write_raw(path, json.dumps(header).encode(), b"".join(w.tobytes() for w in weights.values()))


def write_raw(path: Path, header: bytes, data: bytes) -> None:
    """A file of this header, padded to eight bytes as the libraries do, and this data."""
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
