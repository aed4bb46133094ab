"""A folder of a GPT-2-shaped model with random weights, as Hugging Face's libraries write it.

Matrices keep the size of what goes through them and embeddings are small beside what the layers add
to them, so that a token's logits hang on all that stands before it: rounding weights shows as much
as it can. With the weights that training begins with, the next token would be the last one again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors.numpy

SMALL = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}
TINY = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 96, "n_positions": 64}
MODELS = {"gpt2-small": SMALL, "tiny": TINY}


def write_model(name: str, folder: Path, seed: int = 0) -> Path:
    """Write a model of that shape (one of `MODELS`); its folder."""
    shape = MODELS[name]
    last = shape["vocab_size"] - 1
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "torch_dtype": "float32",
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "bos_token_id": last, "eos_token_id": last, **shape,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    rng = np.random.default_rng(seed)
    weights = {key: _drawn(rng, key, dims) for key, dims in _shapes(shape)}
    safetensors.numpy.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def _shapes(shape: dict[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = shape["n_embd"]
    yield "transformer.wte.weight", (shape["vocab_size"], width)
    yield "transformer.wpe.weight", (shape["n_positions"], width)
    for layer in range(shape["n_layer"]):
        for part, dims in (
            ("ln_1", (width,)), ("attn.c_attn", (width, 3 * width)),
            ("attn.c_proj", (width, width)), ("ln_2", (width,)),
            ("mlp.c_fc", (width, 4 * width)), ("mlp.c_proj", (4 * width, width)),
        ):  # fmt: skip
            yield f"transformer.h.{layer}.{part}.weight", dims
            yield f"transformer.h.{layer}.{part}.bias", dims[-1:]
    yield "transformer.ln_f.weight", (width,)
    yield "transformer.ln_f.bias", (width,)


def _drawn(
    rng: np.random.Generator, name: str, shape: tuple[int, ...]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    drawn = rng.standard_normal(shape, dtype=np.float32)
    if len(shape) == 1:
        centre = 1.0 if name.endswith("weight") else 0.0
        return np.float32(centre) + np.float32(0.2) * drawn
    if ".wte." in name or ".wpe." in name:
        return np.float32(0.2) * drawn
    return drawn / np.float32(math.sqrt(shape[0]))
