"""Exports one model of PyTorch.

    python -m benchmarks.file_zoo.torch_export OUT.onnx NAME legacy|dynamo

Beside OUT.onnx come the inputs it was exported with, as OUT.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.file_zoo.torch_layers import LAYERS


def export(path: Path, name: str, exporter: str) -> None:
    """Export a model and write its inputs beside it."""
    torch.manual_seed(0)
    model, inputs = _made(name)
    model = model.eval()
    names = [f"input_{i}" for i in range(len(inputs))]
    with torch.no_grad():
        if exporter == "dynamo":
            torch.onnx.export(
                model, inputs, str(path), dynamo=True, input_names=names, external_data=False
            )
        else:
            torch.onnx.export(
                model, inputs, str(path), dynamo=False, input_names=names, opset_version=17
            )
    arrays = {n: value.numpy() for n, value in zip(names, inputs, strict=True)}
    np.savez(path.with_suffix(".npz"), **arrays)


def _made(name: str) -> Any:
    if name in LAYERS:
        return LAYERS[name]()
    # transformers takes seconds to import.
    from benchmarks.file_zoo.torch_full_size import FULL_SIZE
    from benchmarks.file_zoo.torch_models import MODELS

    return (FULL_SIZE.get(name) or MODELS[name])()


if __name__ == "__main__":
    export(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
