"""Tokens a second of transformers on a GPU; a program of its own, for a Python without TVM.

    python torch_on_gpu.py FOLDER DTYPE PROMPT COUNT

Prints ``{"eager": ..., "graph": ...}``: a plain loop with the growing cache as transformers has it,
and steps with a cache of fixed size, captured once as a graph of CUDA's and replayed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import transformers
from transformers import StaticCache


def main(folder: str, dtype: str, prompt: int, count: int) -> None:
    """Print the rates."""
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model: Any = loaded.eval().to("cuda")
    ids = torch.randint(0, model.config.vocab_size, (1, prompt), device="cuda")
    rates = {"eager": _eager(model, ids, count)}
    try:
        rates["graph"] = _graph(model, ids, count)
    except Exception as error:  # what a version of transformers cannot capture is left out
        print(f"no graph: {type(error).__name__}: {error}", file=sys.stderr)
    print(json.dumps(rates))


@torch.inference_mode()
def _eager(model: Any, ids: torch.Tensor, count: int) -> float:
    for _ in range(2):
        out = model(ids, use_cache=True)
        token = out.logits[:, -1].argmax(-1)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(count):
            out = model(token[:, None], past_key_values=out.past_key_values, use_cache=True)
            token = out.logits[:, -1].argmax(-1)
            token.item()
        seconds = time.perf_counter() - begun
    return count / seconds


@torch.inference_mode()
def _graph(model: Any, ids: torch.Tensor, count: int) -> float:
    cache = StaticCache(config=model.config, max_cache_len=ids.shape[1] + count + 8)
    first = model(
        ids, past_key_values=cache, use_cache=True, cache_position=_range(0, ids.shape[1])
    )
    token = first.logits[:, -1:].argmax(-1)
    at = _range(ids.shape[1], 1)

    def step() -> None:
        out = model(token, past_key_values=cache, use_cache=True, cache_position=at,
                    position_ids=at[None])  # fmt: skip
        token.copy_(out.logits[:, -1:].argmax(-1))
        at.add_(1)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    begun = time.perf_counter()
    for _ in range(count):
        graph.replay()
        token.item()
    return count / (time.perf_counter() - begun)


def _range(first: int, count: int) -> torch.Tensor:
    return torch.arange(first, first + count, device="cuda")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
