"""Everything that is replayed: a job a network or model, so that two processes share them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import cycle
from typing import Any

from benchmarks.replayed import models
from benchmarks.replayed.modules import Maker, of_build, of_model
from benchmarks.replayed.places import LATENCY, PLACEMENTS, THROUGHPUT, cpu
from benchmarks.replayed.schedules import HEURISTICS, Effort, of_zoo
from tvm_hetero import zoo
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import names as solver_names

# The first argument is the name of the network or model.
Job = partial[Iterable[tuple[str, str]]]

_GOALS = (Objective("latency"), Objective("throughput"))
_SMALL_NETS = ("resnet18", "inception-v1", "light-squeezenet", "gnn", "gpt2-small")
# Networks on which every solver is asked, and what for.
_SEARCHED = (("gnn", "sched-nvl"), ("light-squeezenet", "big-little"), ("vgg16", "h100x8"))
_SEARCHED_GOALS = (
    *_GOALS,
    Objective("latency", 4),
    Objective("throughput", 4),
    Objective("throughput", contiguous=True),
    Objective("energy"),
    Objective("cost"),
)
_SMALL_TARGETS = (cpu("skylake-avx512"), cpu("x86-64-v3"))
_TARGETS = (*_SMALL_TARGETS, cpu("sapphirerapids"))
# One of each line of the table of vector units, one of two cores, one that is no CPU.
_ALL_TARGETS = (
    *_TARGETS,
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
    "llama-bfloat16": (
        "llama",
        {"dtype": "bfloat16"},
        {"weights": "bfloat16", "cache": "bfloat16"},
    ),
    "llama-shards": ("llama", {}, {"shards": 2, "cache": "float16"}),
    "mixtral-step": ("mixtral", {}, {}),
    "mistral-step": ("mistral", {}, {"weights": "int8"}),
    "qwen2-step": ("qwen2", {}, {"length": 32}),
}
_LIGHTEST, _BUILT = ("shufflenet", "squeezenet"), ("squeezenet", "relay-text", "gpt2-step")
# Platforms of the zoo that its networks take in turns, beside the first.
_OTHERS = ("sched-6", "phone", "mixed-4", "xeon-x2", "gpt3-4node")
_SEARCH_LIMIT = 0.1
_EXACT = "light-zfnet512"
_SMALL_DECODERS = ("gpt2-step", "llama-int8-prefill")


def all_jobs(*, small: bool) -> list[Job]:
    """All jobs, those that take longest first; with `small` those that are the same everywhere."""
    return [*_small_models(), *_small_schedules()] if small else [*_models(), *_schedules()]


def name_of(job: Job) -> str:
    """The network or model that a job is about, as in the names of its texts."""
    return str(job.args[0])


def _small_schedules() -> list[Job]:
    effort = Effort(portable=True)
    return [
        partial(of_zoo, name, ("diviml", "big-little"), _GOALS, HEURISTICS, effort)
        for name in _SMALL_NETS
    ]


def _small_models() -> list[Job]:
    makers: dict[str, Maker] = {
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
    effort = Effort(_SEARCH_LIMIT)
    searched = [
        partial(of_zoo, network, (platform,), (goal,), _quick_solvers(), effort)
        for network, platform in _SEARCHED
        for goal in _SEARCHED_GOALS
    ]
    exact = partial(of_zoo, _EXACT, ("big-little",), _GOALS, ("milp",), effort)
    quick = [
        partial(of_zoo, name, ("diviml", other), _GOALS)
        for name, other in zip(zoo.names(), cycle(_OTHERS), strict=False)
    ]
    return [*searched, exact, *quick]


def _quick_solvers() -> tuple[str, ...]:
    """All but one that takes seconds for the least that it does."""
    return tuple(name for name in solver_names() if name != "milp")


def _models() -> list[Job]:
    # Of the large ones the most usual alone: every one of them takes seconds to lower.
    large = {name: partial(models.light, name) for name in light_models() if name not in _LIGHTEST}
    small: dict[str, Maker] = {
        **{name: partial(models.light, name) for name in _LIGHTEST},
        "relay-json": models.relay_json,
        "relay-text": models.relay_text,
        "torch-step": partial(models.exported, "index_copy", 1),
        "torch-prefill": partial(models.exported, "index_put", 4),
        **{name: partial(models.decoder, *how) for name, how in _DECODERS.items()},
    }
    return [
        *(partial(of_model, n, make, (LATENCY, THROUGHPUT), _TARGETS) for n, make in large.items()),
        *(partial(of_model, n, make, PLACEMENTS, _ALL_TARGETS) for n, make in small.items()),
        *(partial(of_build, name, small[name], LATENCY) for name in _BUILT),
    ]
