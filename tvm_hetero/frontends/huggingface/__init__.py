"""Decoders from Hugging Face folders: GPT-2, Llama, Mistral, Mixtral, Qwen2.

`from_huggingface` gives the graph of a step or of a chunk of a prompt. It reads ``config.json``
(`config`) and safetensors (`weights`), refuses what it does not compute, and never unpickles.

    config, values, rotary   what the config says     files, tensor_file, weights   what is stored
    gpt2, rotated, experts   the families             graph, operators, shards      their parts
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_hetero.frontends.huggingface.config import Config, read_config

if TYPE_CHECKING:
    from tvm_hetero.frontends.huggingface.importer import from_huggingface as from_huggingface

__all__ = ["Config", "from_huggingface", "read_config"]


def __getattr__(name: str) -> Any:
    """`from_huggingface` imports TVM; what a config says is known without."""
    if name != "from_huggingface":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tvm_hetero.frontends.huggingface.importer import from_huggingface as load

    return load
