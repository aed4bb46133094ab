"""Who decodes: our decoder on several platforms, and PyTorch with so many threads.

What is measured is the steady state, from when the last sequence has its first token to when the
first sequence has its last: tokens of all sequences in between, by the seconds in between. All
sequences have prompts of one length and run equally long, so that every slot is in use throughout.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers

from benchmarks.execution.cases import one_device, two_core_teams, two_devices
from tvm_hetero.decoders.build import DecoderOptions, build_decoder
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.frontends.torch.transformers import cache_name
from tvm_hetero.platform import Link, Platform

_TIME_LIMIT = 20.0  # seconds for each solve
Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Run:
    """Steady tokens per second, tokens per second of the prompts, and the tokens."""

    rate: float
    prompt_rate: float
    tokens: list[list[int]]


class Contender(Protocol):
    """Somebody who goes on with prompts."""

    def run(self, prompts: Prompts, count: int) -> Run:
        """Generate `count` tokens for each prompt, greedily."""
        ...

    def close(self) -> None:
        """Let go of threads and memory."""
        ...


@dataclass(frozen=True)
class Side:
    """A platform and what the plan on it is made for. `groups` are in flight together.

    Layers are in as many parts as there are devices; the head too, a third of a small model's work.
    """

    platform: str
    kind: str
    groups: int = 1
    shards: int = 1


SIDES = {
    "one core": Side("one core", "latency"),
    "two devices, three groups": Side("two devices", "throughput", groups=3, shards=2),
    "two devices, halves of layers": Side("two devices", "latency", shards=2),
    "one device of two cores": Side("two cores", "latency"),
    "teams of two cores": Side("teams", "latency"),
}


def platform_of(name: str) -> Platform:
    """The platform that a side names."""
    made = {
        "one core": lambda: one_device(1),
        "two devices": two_devices,
        "two cores": lambda: one_device(2),
        "teams": two_core_teams,
    }
    return made[name]()


class Ours:
    """A decoder of ours."""

    def __init__(
        self, model: Path, place: Path, side: Side, options: DecoderOptions, *, quick: bool
    ) -> None:
        """Build and load it. `quick`: nothing is measured for the plan."""
        platform = platform_of(side.platform)
        platform = _described(platform) if quick else platform
        start = time.perf_counter()
        build_decoder(
            model,
            platform,
            place,
            replace(options, groups=side.groups, shards=side.shards),
            objective=side.kind,
            solver="heft" if quick else "auto",
            time_limit=_TIME_LIMIT,
            cost_model="analytical" if quick else "profiled",
            measure=False,
        )
        self.build_s = time.perf_counter() - start
        self.decoder = Decoder.load(place)
        self.predicted = self.decoder.batch / self.decoder.steps.schedule.value

    def run(self, prompts: Prompts, count: int) -> Run:
        """Every slot has a sequence: prompts are taken again where there are fewer."""
        slots = self.decoder.groups * self.decoder.batch
        asked = [prompts[i % len(prompts)] for i in range(slots)]
        told: list[tuple[float, int]] = []
        start = time.perf_counter()
        made = self.decoder.generate(
            asked, count, stop=(), told=lambda s, _: told.append((time.perf_counter(), s))
        )
        tokens = [each.tokens for each in made]
        begin, end = _window(told, slots)
        steady = sum(begin < moment <= end for moment, _ in told)
        prompted = sum(map(len, asked))
        return Run(steady / (end - begin), prompted / (begin - start), tokens[: len(prompts)])

    def close(self) -> None:
        """Stop its threads."""
        self.decoder.close()


def _described(platform: Platform) -> Platform:
    """The platform with made-up figures, where nothing is to be measured."""
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    devices = tuple(replace(device, **figures) for device in platform.devices)
    pairs = permutations(platform.names, 2)
    links = tuple(Link(one, other, bandwidth=1e10, latency=1e-6) for one, other in pairs)
    return replace(platform, devices=devices, links=links)


def _window(told: Sequence[tuple[float, int]], slots: int) -> tuple[float, float]:
    """From when all sequences have begun to when the first has ended; else from first to last."""
    moments = [[moment for moment, sequence in told if sequence == s] for s in range(slots)]
    begin, end = max(own[0] for own in moments), min(own[-1] for own in moments)
    if begin < end:
        return begin, end
    # Few tokens on a busy machine: one sequence was through before another had begun.
    return min(own[0] for own in moments), max(own[-1] for own in moments)


class Torch:
    """The same model in transformers, with its cache, in a plain loop."""

    def __init__(self, model: Path, threads: int, dtype: str = "float32") -> None:
        self.threads = threads
        kind = getattr(torch, dtype)
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=kind)
        self.model.eval()

    def run(self, prompts: Prompts, count: int) -> Run:
        """All prompts in one batch."""
        torch.set_num_threads(self.threads)
        ids = torch.tensor([list(prompt) for prompt in prompts])
        cache = cache_name(self.model)
        made = []
        with torch.inference_mode():
            start = time.perf_counter()
            out = self.model(ids, use_cache=True)
            made.append(out.logits[:, -1].argmax(-1))
            begin = time.perf_counter()
            for _ in range(count - 1):
                out = self.model(made[-1][:, None], **{cache: out[cache]})
                made.append(out.logits[:, -1].argmax(-1))
            end = time.perf_counter()
        steady = len(prompts) * (count - 1)
        tokens = torch.stack(made, 1).tolist()
        return Run(steady / (end - begin), ids.numel() / (begin - start), tokens)

    def close(self) -> None:
        """Let go of the weights."""
        self.model = None
