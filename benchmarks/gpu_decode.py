"""Decoding on a GPU, on the CPU beside it, and on both: tokens a second, and how far logits are.

    python -m benchmarks.gpu_decode [--weights TYPE,TYPE] [--torch PYTHON] [--output FILE]
    python -m benchmarks.gpu_decode --tiny [--weights TYPE,TYPE]     # all families, every kernel

Needs a CUDA device and nvcc. The model has the shape of GPT-2 small and random weights; one
sequence, greedily, from a prompt of 32 tokens. Costs are measured, and the step is solved for the
CPU alone and for the GPU and the CPU together. Logits are compared with the CPU's on a text that is
given token by token. With ``--torch`` the given Python, whose PyTorch sees the GPU, decodes the
same folder by transformers, as it comes and as a graph of CUDA's. ``--tiny`` times nothing: costs
are made up so that every kernel of tiny decoders of all families is on the GPU, and logits and
tokens are compared with the CPU's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conforming.engines import cpu_and_gpu
from benchmarks.decoding.model import write_model
from benchmarks.documents import write_document
from benchmarks.execution.argument_types import output_file
from benchmarks.execution.arguments import RESULTS
from benchmarks.execution.torch_process import run_torch
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.decoders.build import WEIGHTS, DecoderOptions, build_decoder
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.platform import Platform
from tvm_hetero.platform.host import read_gpus

LENGTH, PROMPT, COUNT, TEXT = 256, 32, 96, 24
# The furthest that logits may be, by their deviation: rounded weights add up in another order.
TOLERANCE = 2e-2
_TORCH = Path(__file__).parent / "decoding" / "torch_on_gpu.py"
Row = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """What one platform's plan is, and gives."""

    predicted_s: float
    tasks_on: dict[str, int]
    tokens_per_s: float
    tokens: list[int]
    logits: np.ndarray[Any, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; returns the exit status."""
    options = _parser().parse_args(arguments)
    if not read_gpus():
        sys.exit("this machine has no CUDA device that nvidia-smi shows; nothing to measure")
    if options.tiny:
        return check_tiny(options.weights.split(","))
    platform = measure_links(Platform.detect())
    rows, wrong = [], False
    with tempfile.TemporaryDirectory() as scratch:
        model = write_model(options.model, Path(scratch) / "model")
        for weights in options.weights.split(","):
            row = measure(model, platform, weights, Path(scratch), options.torch)
            wrong |= row["difference"] > TOLERANCE
            print(json.dumps(row), flush=True)
            rows.append(row)
    if not wrong:
        gpus = [gpu.name for gpu in read_gpus()]
        write_document(options.output, "python -m benchmarks.gpu_decode", rows, gpus=gpus)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="gpt2-small")
    parser.add_argument("--tiny", action="store_true", help="tiny decoders, nothing is timed")
    parser.add_argument("--weights", default=",".join(WEIGHTS))
    parser.add_argument("--torch", help="a Python whose PyTorch sees the GPU")
    parser.add_argument("--output", type=output_file, default=RESULTS / "gpu_decode.json")
    return parser


def check_tiny(types: Sequence[str]) -> int:
    """Print how far tiny decoders on the GPU are from the CPU; returns the exit status."""
    from tests.small_decoders import FAMILIES, tiny

    both, wrong = cpu_and_gpu(), 0
    for family, weights, batch in product(FAMILIES, types, (1, 3)):
        with tempfile.TemporaryDirectory() as scratch:
            model = tiny(family, Path(scratch) / "model")
            here, there = (
                _said(model, platform, DecoderOptions(batch, 32, 4, weights=weights), Path(place))
                for platform, place in (
                    (Platform(both.devices[:1]), f"{scratch}/cpu"), (both, f"{scratch}/gpu")
                )
            )  # fmt: skip
        difference = float(np.abs(there[0] - here[0]).max() / here[0].std())
        right = difference <= TOLERANCE and there[1] == here[1] and there[2] == {"gpu0"}
        wrong += not right
        verdict = "right" if right else "WRONG"
        print(f"{family}, {weights}, {batch} sequences: {difference:.1e}, {verdict}", flush=True)
    return 1 if wrong else 0


def _said(
    model: Path, platform: Platform, options: DecoderOptions, place: Path
) -> tuple[np.ndarray[Any, Any], list[list[int]], set[str]]:
    """Logits of a text for each sequence, the tokens that two prompts are gone on with, and where
    kernels are.
    """
    build_decoder(
        model, platform, place, options, solver="heft", cost_model="analytical", measure=False
    )
    with Decoder.load(place) as decoder:
        texts = np.random.default_rng(1).integers(0, decoder.vocabulary, (options.batch, 12))
        logits = _logits(decoder, texts)
        made = decoder.generate([[3, 5, 7, 9, 11, 2, 4], [1, 2]], 10, stop=())
        kernels = [e for e in decoder.steps.schedule.executions if not _is_at_an_end(e.task)]
        return logits, [list(each.tokens) for each in made], {e.device for e in kernels}


def _is_at_an_end(task: str) -> bool:
    """Whether a task is no kernel: what comes in, or goes out, is on the host."""
    return task.startswith(("input.", "output."))


def _logits(decoder: Decoder, texts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of texts ``[slot, token]`` that are given token by token."""
    slots, count = texts.shape
    steps = (decoder.step(0, texts[:, at].tolist(), [at] * slots) for at in range(count))
    return np.stack([np.array(each.result()) for each in steps])


def measure(model: Path, platform: Platform, weights: str, scratch: Path, torch: str | None) -> Row:
    """One type of weights on the CPU, on both, and by PyTorch."""
    cpu = Platform(tuple(d for d in platform.devices if d.kind == "llvm"), name="cpu")
    sides = {
        name: decode(model, given, weights, scratch / f"{weights} {name}")
        for name, given in (("cpu", cpu), ("cpu and gpu", platform))
    }
    right, found = sides["cpu"], sides["cpu and gpu"]
    row: Row = {
        "weights": weights,
        "difference": float(np.abs(found.logits - right.logits).max() / right.logits.std()),
        "same_tokens": found.tokens == right.tokens,
    }
    for name, side in sides.items():
        row[name] = {
            "tokens_per_s": side.tokens_per_s,
            "predicted_s": side.predicted_s,
            "tasks_on": side.tasks_on,
        }
    if torch is not None and weights in ("float32", "bfloat16"):
        row["torch"] = run_torch(torch, _TORCH, str(model), weights, str(PROMPT), str(COUNT))
    return row


def decode(model: Path, platform: Platform, weights: str, place: Path) -> Side:
    """Build for a platform, decode, and read the logits of a text."""
    build_decoder(
        model, platform, place, DecoderOptions(length=LENGTH, weights=weights),
        time_limit=10.0, measure=False,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    with Decoder.load(place) as decoder:
        schedule = decoder.steps.schedule
        tasks: dict[str, int] = {}
        for execution in schedule.executions:
            tasks[execution.device] = tasks.get(execution.device, 0) + 1
        prompt = rng.integers(0, decoder.vocabulary, PROMPT).tolist()
        decoder.generate([prompt], 8, stop=())
        told: list[float] = []
        (made,) = decoder.generate(
            [prompt], COUNT, stop=(), told=lambda *_: told.append(time.perf_counter())
        )
        logits = _logits(decoder, rng.integers(0, decoder.vocabulary, (1, TEXT)))
    rate = (len(told) - 1) / (told[-1] - told[0])
    return Side(schedule.value, tasks, rate, list(made.tokens), logits)


if __name__ == "__main__":
    sys.exit(main())
