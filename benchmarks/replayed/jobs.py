"""Everything that is replayed: a job a network or model, so that two processes share them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from benchmarks.replayed import models
from benchmarks.replayed.modules import of_build, of_model
from benchmarks.replayed.places import LATENCY, PLACEMENTS, THROUGHPUT, cpu
from benchmarks.replayed.schedules import HEURISTICS, Effort, of_zoo
from tvm_hetero import zoo
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import names as solver_names

Job = Callable[[], Iterable[tuple[str, str]]]

_GOALS = (Objective("latency"), Objective("throughput"))
_SMALL_NETS = ("resnet18", "inception-v1", "light-squeezenet", "gnn", "gpt2-small", "mixtral-8x7b")
# Networks on which every solver is asked, and what for.
_SEARCHED = ("vgg16", "resnet18", "light-squeezenet", "gnn", "module", "gpt2-small")
_SEARCHED_GOALS = (
    *_GOALS,
    Objective("latency", 4),
    Objective("throughput", 4),
    Objective("throughput", contiguous=True),
    Objective("energy"),
    Objective("cost"),
)
_SMALL_TARGETS = (cpu("skylake-avx512"), cpu("x86-64-v3"))
# One of each line of the table of vector units, one of two cores, one that is no CPU.
_TARGETS = (
    *_SMALL_TARGETS,
    cpu("sapphirerapids"),
    cpu("znver4"),
    cpu("x86-64-v2"),
    cpu("x86-64-v3", cores=2),
    {"kind": "cuda", "arch": "sm_80"},
)
# Family, changes of its configuration, and how it is imported.
_DECODERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gpt2-step": ("gpt2", {}, {}),
    "gpt2-prefill": ("gpt2", {}, {"tokens": 8}),
    "llama-int4": ("llama", {}, {"weights": "int4"}),
    "llama-int8-prefill": ("llama", {}, {"weights": "int8", "tokens": 8}),
    "llama-bfloat16": ("llama", {"dtype": "bfloat16"}, {"weights": "bfloat16", "cache": "bfloat16"}),
    "llama-shards": ("llama", {}, {"shards": 2, "cache": "float16"}),
    "mixtral-step": ("mixtral", {}, {}),
    "mistral-step": ("mistral", {}, {"weights": "int8"}),
    "qwen2-step": ("qwen2", {}, {"length": 32}),
}
_SMALL_DECODERS = ("gpt2-step", "llama-int8-prefill")


def all_jobs(*, small: bool) -> list[Job]:
    """All jobs, those that take longest first; with `small` those that are the same everywhere."""
    return [*_small_models(), *_small_schedules()] if small else [*_models(), *_schedules()]


def _small_schedules() -> list[Job]:
    effort = Effort(portable=True)
    return [
        partial(of_zoo, name, ("diviml", "big-little"), _GOALS, HEURISTICS, effort)
        for name in _SMALL_NETS
    ]


def _small_models() -> list[Job]:
    makers: dict[str, Callable[[], Any]] = {
        "squeezenet": partial(models.light, "squeezenet"),
        "relay-json": models.relay_json,
        "relay-text": models.relay_text,
    }
    makers |= {name: partial(models.decoder, *_DECODERS[name]) for name in _SMALL_DECODERS}
    placements = (LATENCY, THROUGHPUT)
    return [
        partial(of_model, name, make, placements, _SMALL_TARGETS, weights=False, variants=False)
        for name, make in makers.items()
    ]


def _schedules() -> list[Job]:
    searched = [
        partial(of_zoo, f"{name}", (platform,), _SEARCHED_GOALS, _searches(), Effort(0.5))
        for name in _SEARCHED
        for platform in ("big-little", "sched-nvl")
    ]
    platforms = ("diviml", "phone", "sched-6")
    return [*searched, *(partial(of_zoo, name, platforms, _GOALS) for name in zoo.names())]


def _searches() -> tuple[str, ...]:
    return solver_names()


def _models() -> list[Job]:
    lights = {name: partial(models.light, name) for name in light_models()}
    others: dict[str, Callable[[], Any]] = {
        "relay-json": models.relay_json,
        "relay-text": models.relay_text,
        "torch-step": partial(models.exported, "index_copy", 1),
        "torch-prefill": partial(models.exported, "index_put", 4),
    }
    others |= {name: partial(models.decoder, *how) for name, how in _DECODERS.items()}
    every = [
        partial(of_model, name, make, PLACEMENTS, _TARGETS)
        for name, make in {**lights, **others}.items()
    ]
    built = [
        partial(of_build, name, make, LATENCY)
        for name, make in {**lights, **others}.items()
        if name in ("squeezenet", "relay-text", "gpt2-step")
    ]
    return [*built, *every]
