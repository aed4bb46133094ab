"""Decoders from folders: run by TVM's virtual machine, and by transformers to compare with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tests.kernels.helpers import scheduled
from tvm_hetero.frontends.huggingface import from_huggingface
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})


class Runner:
    """A graph of a decoder, compiled, with caches of its own."""

    def __init__(self, folder: Path, caches: Sequence[Any] | None = None, **options: Any) -> None:
        module = from_huggingface(folder, **options)
        main = LowerToTasks([TARGET])(module)
        self.tokens = int(main["main"].params[0].ty.shape[0])
        executable = tvm.compile(scheduled(main, TARGET), TARGET, tir_pipeline=PIPELINE)
        self._main = relax.VirtualMachine(executable, tvm.cpu())["main"]
        states = len(main["main"].attrs["hetero_states"])
        shapes = [[int(e) for e in p.ty.shape] for p in main["main"].params[-states:]]
        # What nobody has written may be anything: it must not be read.
        self.caches = caches or [
            tvm.runtime.tensor(np.full(shape, np.nan, np.float32)) for shape in shapes
        ]

    def __call__(self, tokens: Sequence[int], position: int) -> np.ndarray:
        """Logits of the last of these tokens, which stand in rows ``position`` and on."""
        padded = [*tokens, *[0] * (self.tokens - len(tokens))]
        inputs = [padded, [position]] + ([[len(tokens) - 1]] if self.tokens > 1 else [])
        given = [tvm.runtime.tensor(np.array(values, np.int32)) for values in inputs]
        return self._main(*given, *self.caches).numpy()[0]


def reference(folder: Path, dtype: str = "float32") -> Any:
    """The model in transformers; its weights rounded to a type, its arithmetic in float32."""
    import torch
    import transformers

    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, kind).from_pretrained(folder, dtype=getattr(torch, dtype))
    return model.float().eval()


def expected(model: Any, tokens: Sequence[int]) -> np.ndarray:
    """Logits after each token, ``[tokens, vocabulary]``."""
    import torch

    with torch.no_grad():
        return model(torch.tensor([list(tokens)])).logits[0].numpy()
