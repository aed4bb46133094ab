"""Seconds of a run of torchvision's networks on a GPU; a program of its own, for a Python without
TVM.

    python torch_networks_on_gpu.py NAME

Prints ``{"eager": ..., "graph": ..., "graph float32": ...}``, the least of many runs of batch 1,
from an input on the GPU to an output there: as it comes, captured as a graph of CUDA's, and that
without TF32.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torchvision

_NAMES = {"squeezenet": "squeezenet1_1", "inception_v1": "googlenet"}
_RUNS = 60


@torch.inference_mode()
def main(name: str) -> None:
    """Print the times."""
    made: Any = torchvision.models.get_model(_NAMES.get(name, name), weights=None)
    model = made.eval().to("cuda")
    image = torch.randn(1, 3, 224, 224, device="cuda")
    torch.backends.cudnn.benchmark = True
    seconds = {"eager": _least(lambda: model(image)), "graph": _least(_captured(model, image))}
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    seconds["graph float32"] = _least(_captured(model, image))
    print(json.dumps(seconds))


def _captured(model: Any, image: torch.Tensor) -> Callable[[], object]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            model(image)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(image)
    return graph.replay


def _least(run: Callable[[], object]) -> float:
    for _ in range(10):
        run()
    taken = []
    for _ in range(_RUNS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        run()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begun)
    return min(taken)


if __name__ == "__main__":
    main(sys.argv[1])
