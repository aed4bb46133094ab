"""Encoders that transformers saves, run by TVM's virtual machine and by transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax

from tests.kernels.helpers import scheduled
from tvm_hetero.frontends.huggingface.encoders.importer import encoder_from_huggingface
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.passes.attributes import INPUT_NAMES, OUTPUT_NAMES
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})


def saved(model: Any, folder: Path, seed: int = 0) -> Any:
    """The model with weights large enough to tell one position from another, saved."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim < 2:
                weight.add_(0.2 * torch.randn_like(weight))
            else:
                wide = "embed" in name
                weight.normal_(0.0, 0.5 if wide else weight[0].numel() ** -0.5)
    model.save_pretrained(folder)
    return model.eval()


def run(
    folder: Path,
    inputs: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, np.ndarray]:
    """Outputs by name."""
    module = encoder_from_huggingface(folder, shapes=shapes)
    attrs = module["main"].attrs
    lowered = scheduled(LowerToTasks([TARGET])(module), TARGET)
    executable = tvm.compile(lowered, TARGET, tir_pipeline=PIPELINE)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    names = [str(name) for name in attrs[INPUT_NAMES]]
    assert sorted(names) == sorted(inputs)
    found = main(*(tvm.runtime.tensor(inputs[name]) for name in names))
    outputs = [str(name) for name in attrs[OUTPUT_NAMES]]
    return {name: each.numpy() for name, each in zip(outputs, found, strict=True)}


def expected(model: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What transformers gives for the same, by the same names."""
    with torch.no_grad():
        found = model(**{name: torch.from_numpy(values) for name, values in inputs.items()})
    return {name: value.numpy() for name, value in found.items() if torch.is_tensor(value)}
