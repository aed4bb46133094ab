"""Tokens a second of a decoder: one core, two one-core devices by our plan, and PyTorch.

    python -m benchmarks.decode                    all, writes results/decode.json
    python -m benchmarks.decode --weights float32 --batches 1 --output FILE
    python -m benchmarks.decode --small            seconds (the tests run it)
    python -m benchmarks.decode --show             writes build/results/performance.md

A model of the shape of GPT-2 small with random weights, greedily, prompts of 32 tokens. Sides: one
core; two devices of a core each, once with three groups of sequences in flight (a throughput plan:
each device has a part of the model) and once with one group (a latency plan: both devices work on
each layer, which is in two halves); one device that has both cores; teams (each core, and both);
PyTorch (transformers, its cache, a plain loop) with one and two threads. A batch is the sequences
of a group. All sides of a weight type and a batch run in turns, and again while the host is not
calm (`execution.unrest`: by our sides' medians beside their best turns). Before each turn one core
and two read from memory (`decoding.memory_pace`): a single sequence is decoded no faster than that
allows. Goal: two devices at batch 8 give at least 1.8 times the tokens of one.

How much rounded weights cost is measured too: logits beside those of transformers in float32, on
random texts that are given token by token.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.decoding.accuracy import Accuracy, accuracy, right_logits, texts_for
from benchmarks.decoding.contenders import SIDES, Contender, Ours, Prompts, Run, Torch
from benchmarks.decoding.memory_pace import SPAN, MemoryPace
from benchmarks.decoding.model import MODELS, write_model
from benchmarks.documents import write_document
from benchmarks.execution.arguments import RESULTS
from benchmarks.execution.cases import one_device
from benchmarks.execution.unrest import ATTEMPTS, calmest
from benchmarks.results_page import write_pages
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.decoders.build import WEIGHTS, DecoderOptions

BATCHES = (1, 8)
# Rows of the caches, tokens of a prompt and of a chunk, tokens that are generated, turns.
LENGTH, PROMPT, COUNT, ROUNDS = 256, 32, 48, 5
_SMALL = {"length": 40, "prompt": 8, "count": 6, "rounds": 1}
_SMALL_SPAN = 1 << 20  # bytes that are read
_ACCURACY_TOKENS = 48  # of each of the texts, one a slot of the largest batch
_PAUSE = 0.05  # threads of PyTorch spin for a while
PYTORCH = {"PyTorch, 1 thread": 1, "PyTorch, 2 threads": 2}
_FEW_SIDES = ("one core", "two devices, three groups")
# PyTorch has no kernels for weights of groups with scales.
_TORCH_TYPES = ("float32", "bfloat16")

Runs = dict[str, list[Run]]  # of each side


@dataclass(frozen=True)
class Row:
    """A side at a batch: steady tokens per second (median and best of the turns, and what the plan
    predicts; 0 where there is none), tokens of the prompts per second, the share of greedy tokens
    that are those of the first side, cores that others kept busy, seconds of the build, by which
    share the medians of our sides stand off their best; GB/s that one core and two read from memory
    in the same turns (medians).
    """

    weights: str
    batch: int
    side: str
    tokens_s: float
    best_s: float
    predicted_s: float
    prompt_s: float
    same: float
    others: float
    build_s: float
    unrest: float
    read_gbs: float
    both_read_gbs: float


@dataclass(frozen=True)
class AccuracyRow:
    """What a weight type costs (see `Accuracy`)."""

    weights: str
    error: float
    same: float
    tokens: int


@dataclass(frozen=True)
class Settings:
    """What is measured, and how long. No `sides`: those of `sides_of`."""

    model: str
    weights: tuple[str, ...]
    batches: tuple[int, ...]
    sides: tuple[str, ...]
    small: bool
    length: int = LENGTH
    prompt: int = PROMPT
    count: int = COUNT
    rounds: int = ROUNDS
    tries: int = ATTEMPTS

    def command(self) -> str:
        """How the same is asked for again."""
        said = "python -m benchmarks.decode"
        if self.small:
            return f"{said} --small"
        asked = {"weights": (self.weights, WEIGHTS, ","), "batches": (self.batches, BATCHES, ","),
                 "sides": (self.sides, (), ";")}  # fmt: skip
        for option, (values, default, between) in asked.items():
            if values != default:
                said += f' --{option} "{between.join(map(str, values))}"'
        return said

    def sides_of(self, weights: str) -> tuple[str, ...]:
        """All sides in float32; rounded weights on one core and in a pipeline, unless asked for."""
        if self.sides:
            return self.sides
        ours = SIDES if weights == WEIGHTS[0] else _FEW_SIDES
        return (*ours, *PYTORCH)


def main(arguments: Sequence[str] | None = None) -> tuple[list[Row], list[AccuracyRow]]:
    """Measure, print and write; the rows."""
    settings, output, show = _read(arguments)
    if show:
        write_pages()
        return [], []
    rows: list[Row] = []
    accuracies: list[AccuracyRow] = []
    print(_HEAD)
    with tempfile.TemporaryDirectory(prefix="tvm_hetero.decode.") as folder:
        model = write_model(settings.model, Path(folder) / "model")
        texts = _texts(settings)
        right = right_logits(model, texts)
        for weights in settings.weights:
            for batch in settings.batches:
                found, exact = _measure(settings, model, weights, batch, texts, right)
                rows += found
                accuracies += [AccuracyRow(weights, **asdict(exact))] if exact else []
                if output is not None:  # each time: the next takes long
                    _write(output, settings, rows, accuracies)
    for each in accuracies:
        print(f"{each.weights:<10} error {each.error:.4f}, same token {100 * each.same:.1f} %")
    print(summary(rows))
    return rows, accuracies


def _read(arguments: Sequence[str] | None) -> tuple[Settings, Path | None, bool]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, one turn, no file")
    parser.add_argument("--weights", help="types with commas between")
    parser.add_argument("--batches", help="numbers with commas between")
    parser.add_argument("--sides", help="names with ; between")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of turns")
    parser.add_argument("--tries", type=int, default=ATTEMPTS, help="until the host is calm")
    parser.add_argument("--output", type=Path, help="JSON file (everything: decode.json)")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    asked = parser.parse_args(arguments)
    everything = not (asked.small or asked.weights or asked.batches or asked.sides)
    output = asked.output or (RESULTS / "decode.json" if everything else None)
    some = ("bfloat16",) if asked.small else WEIGHTS
    weights = tuple(asked.weights.split(",")) if asked.weights else some
    numbers = (2,) if asked.small else BATCHES
    batches = tuple(map(int, asked.batches.split(","))) if asked.batches else numbers
    sides = tuple(asked.sides.split(";")) if asked.sides else ()
    if asked.small:
        few = (*_FEW_SIDES, "PyTorch, 1 thread")
        return Settings("tiny", weights, batches, few, True, **_SMALL, tries=1), output, asked.show
    how = {"rounds": asked.rounds, "tries": asked.tries}
    return Settings("gpt2-small", weights, batches, sides, False, **how), output, asked.show


def _texts(settings: Settings) -> np.ndarray:
    length = min(_ACCURACY_TOKENS, settings.length)
    vocabulary = MODELS[settings.model]["vocab_size"]
    return texts_for(max(settings.batches), vocabulary, length)


def _measure(
    settings: Settings,
    model: Path,
    weights: str,
    batch: int,
    texts: np.ndarray,
    right: np.ndarray,
) -> tuple[list[Row], Accuracy | None]:
    """Build all sides and let them run in turns; the accuracy at the largest batch."""
    prompts = texts_for(batch, MODELS[settings.model]["vocab_size"], settings.prompt, 2).tolist()
    with tempfile.TemporaryDirectory(prefix="tvm_hetero.decode.") as folder, ExitStack() as stack:
        sides: dict[str, Contender] = {}
        for name in settings.sides_of(weights):
            for side in _made(settings, model, weights, batch, name, Path(folder)):
                sides[name] = side
                stack.callback(side.close)
        rows = _turns(settings, weights, batch, sides, prompts)
        first = sides.get("one core")
        exact = None
        if isinstance(first, Ours) and batch == len(texts):
            exact = accuracy(first.decoder, texts, right)
    return rows, exact


def _made(
    settings: Settings, model: Path, weights: str, batch: int, name: str, folder: Path
) -> Iterator[Contender]:
    """The contender of a side; none where PyTorch knows no such weights."""
    if name in SIDES:
        options = DecoderOptions(
            batch=batch, length=settings.length, chunk=settings.prompt, weights=weights
        )
        place = folder / f"{list(SIDES).index(name)}.hetero"
        yield Ours(model, place, SIDES[name], options, quick=settings.small)
    elif weights in _TORCH_TYPES:
        yield Torch(model, PYTORCH[name], weights)


def _turns(
    settings: Settings, weights: str, batch: int, sides: dict[str, Contender], prompts: Prompts
) -> list[Row]:
    neighbours = Neighbours()
    for side in sides.values():
        side.run(prompts, 3)  # warm
    memory = MemoryPace(_SMALL_SPAN if settings.small else SPAN)

    def measure() -> tuple[Runs, list[tuple[float, float]]]:
        runs: Runs = {name: [] for name in sides}
        paces = []
        for _ in range(settings.rounds):
            paces.append(memory.measure())
            for name, side in sides.items():
                time.sleep(_PAUSE)
                runs[name].append(side.run(prompts, settings.count))
        return runs, paces

    (runs, paces), unrest = calmest(measure, lambda found: _unrest(found[0]), settings.tries)
    others = neighbours.busy_cores()
    one, both = (statistics.median(pace) for pace in zip(*paces, strict=True))
    rows = []
    reference = next(iter(runs.values()))[-1].tokens
    for name, found in runs.items():
        rates = [run.rate for run in found]
        prompt_s = statistics.median(run.prompt_rate for run in found)
        same = float(np.mean(np.array(found[-1].tokens) == np.array(reference)))
        build_s = getattr(sides[name], "build_s", 0.0)
        predicted = getattr(sides[name], "predicted", 0.0)
        rows.append(Row(weights, batch, name, statistics.median(rates), max(rates), predicted,
                        prompt_s, same, others, build_s, unrest, one, both))  # fmt: skip
        print(line(rows[-1]), flush=True)
    return rows


def _unrest(runs: Runs) -> float:
    """By which share the medians of our sides stand off their best turns, at most."""
    found = [[run.rate for run in mine] for name, mine in runs.items() if name in SIDES]
    return max((max(rates) / statistics.median(rates) - 1 for rates in found), default=0.0)


def _write(
    output: Path, settings: Settings, rows: Sequence[Row], accuracies: Sequence[AccuracyRow]
) -> None:
    write_document(
        output, settings.command(), map(asdict, rows),
        target=dict(one_device(1).devices[0].target or {}), torch=torch.__version__,
        model=settings.model, length=settings.length, prompt=settings.prompt,
        count=settings.count, rounds=settings.rounds,
        accuracy=[asdict(row) for row in accuracies],
    )  # fmt: skip


_HEAD = (
    f"{'weights':<10}{'batch':>6}  {'side':<32}{'tokens/s':>10}{'best':>10}{'predict.':>10}"
    f"{'prompt/s':>10}{'same %':>8}{'others':>8}{'build s':>9}{'unrest':>8}{'GB/s':>7}{'both':>6}"
)


def line(row: Row) -> str:
    """One row of the table."""
    return (
        f"{row.weights:<10}{row.batch:>6}  {row.side:<32}{row.tokens_s:>10.1f}{row.best_s:>10.1f}"
        f"{row.predicted_s:>10.1f}{row.prompt_s:>10.1f}{100 * row.same:>8.1f}"
        f"{row.others:>8.1f}{row.build_s:>9.1f}{100 * row.unrest:>7.0f}%{row.read_gbs:>7.1f}"
        f"{row.both_read_gbs:>6.1f}"
    )


def summary(rows: Sequence[Row]) -> str:
    """The goal beside what was reached."""
    from benchmarks.decoding.page import GAIN_GOAL, gains

    texts = [
        f"{weights}, batch {batch}: two devices give {gain:.2f} times one core's tokens"
        for (weights, batch), gain in gains([asdict(row) for row in rows]).items()
    ]
    return "\n".join([*texts, f"goal {GAIN_GOAL:g} at batch {max(BATCHES)}"])


if __name__ == "__main__":
    main()
