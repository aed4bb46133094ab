"""llama.cpp as a contender: a GPT-2 folder as a GGUF file, and a process that reads prompts.

By its Python package and its own writer of files (``pip install llama-cpp-python gguf``, compiled
for the processor that is here), which only that process imports. Matrices are of the type that ours
are of, groups of 32 with a scale where it is 8 or 4 bits (Q8_0, Q4_0); the head has 8 bits where
the others have 4, as ours has. Everything else is llama.cpp's own default, but for the number of
threads and that a prompt goes in at once.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from benchmarks.spawned_process import SpawnedProcess

# Our types of weights, and what GGUF calls them.
TYPES = {"float32": "F32", "bfloat16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
_PARTS = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip


def is_installed() -> bool:
    """Whether llama.cpp can be run here, and files written for it."""
    return all(importlib.util.find_spec(name) for name in ("llama_cpp", "gguf"))


def write_gguf(folder: Path, weights: str, path: Path) -> Path:
    """Write a folder of `benchmarks.decoding.model` with weights of a type; the file."""
    gguf: Any = importlib.import_module("gguf")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    for name, values, kind in _tensors(tensors, config["n_layer"], weights):
        stored = getattr(gguf.GGMLQuantizationType, kind)
        if kind == "F32":
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(
    tensors: dict[str, NDArray[Any]], layers: int, weights: str
) -> list[tuple[str, NDArray[np.float32], str]]:
    """Names, values and types; vectors and the table of positions stay float32."""
    matrix = TYPES[weights]
    head = TYPES["int8"] if weights == "int4" else matrix
    words = tensors["transformer.wte.weight"]
    found = [
        ("token_embd.weight", words, head), ("output.weight", words, head),
        ("position_embd.weight", tensors["transformer.wpe.weight"], "F32"),
        *((f"output_norm.{kind}", tensors[f"transformer.ln_f.{kind}"], "F32")
          for kind in ("weight", "bias")),
    ]  # fmt: skip
    for layer in range(layers):
        for ours, theirs in _PARTS.items():
            for kind in ("weight", "bias"):
                values = tensors[f"transformer.h.{layer}.{ours}.{kind}"]
                form = matrix if values.ndim == 2 else "F32"
                found.append((f"blk.{layer}.{theirs}.{kind}", values.T, form))
    return [(name, np.ascontiguousarray(each, np.float32), kind) for name, each, kind in found]


class LlamaCpp:
    """A process that reads prompts with some threads."""

    def __init__(self, file: Path, threads: int, length: int, tokens: int) -> None:
        self._process = SpawnedProcess(_serve, str(file), threads, length, tokens)
        self.version = str(self._process.pipe.recv())

    def read(self, prompt: NDArray[np.int32]) -> tuple[float, NDArray[np.float32]]:
        """Seconds until the logits of the last token are there, and those."""
        self._process.pipe.send(prompt)
        seconds, logits = self._process.pipe.recv()
        return seconds, logits

    def close(self) -> None:
        """End it."""
        self._process.close()


def _serve(pipe: Connection, file: str, threads: int, length: int, tokens: int) -> None:
    """In the process: read one prompt after the other, each into empty caches."""
    api: Any = importlib.import_module("llama_cpp")
    quiet = api.llama_log_callback(lambda *_: None)  # it must live as long as the library
    api.llama_log_set(quiet, ctypes.c_void_p(0))
    api.llama_backend_init()
    model = api.llama_model_load_from_file(file.encode(), api.llama_model_default_params())
    how = api.llama_context_default_params()
    how.n_ctx, how.n_batch, how.n_ubatch = length, tokens, tokens
    how.n_threads = how.n_threads_batch = threads
    context = api.llama_init_from_model(model, how)
    words = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
    pipe.send(api.__version__)
    while True:
        prompt = pipe.recv()
        given = (ctypes.c_int32 * len(prompt))(*prompt.tolist())
        api.llama_memory_clear(api.llama_get_memory(context), True)
        begin = time.perf_counter()
        failed = api.llama_decode(context, api.llama_batch_get_one(given, len(prompt)))
        logits = np.ctypeslib.as_array(api.llama_get_logits(context), (words,)).copy()
        seconds = time.perf_counter() - begin
        if failed:
            raise RuntimeError(f"llama.cpp did not read {len(prompt)} tokens: code {failed}")
        pipe.send((seconds, logits))
