"""Latency of one element: every algorithm on every network, with the same time."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero.problem import Problem

# The heuristics that DiviML and its field compare with, and ours.
HEURISTICS = (
    "single", "greedy", "heft", "peft", "cpop", "random-walk", "hill-climbing", "genetic",
    "annealing",
)  # fmt: skip
ALGORITHMS = (*HEURISTICS, "cpsat", "milp", "milp-split", "auto")

NETWORKS = (
    "light-squeezenet", "light-shufflenet", "light-inception_v1", "light-inception_v2",
    "light-resnet50", "light-densenet121", "inception-v3", "inception-v4", "resnet152",
    "mobilenet-v2", "unet", "randwire-ws", "randwire-er", "randwire-ba", "module", "wide", "lstm",
    "gru", "gnn", "bert-base", "vit-base", "gpt-24", "gpt-96", "gpt-24-decode",
)  # fmt: skip
# The platform of our measurements (SOLVERS.md) and one like DiviML's.
PLATFORMS = ("sched-nvl", "diviml")
SMALL = (("light-squeezenet", "sched-nvl"),)


def cases(small: bool) -> list[tuple[str, Problem]]:
    """Every network on every platform; modules of 50 tasks too."""
    if small:
        return [(f"{n} on {p}", zoo_case(n, p)) for n, p in SMALL]
    found = [(f"{n} on {p}", zoo_case(n, p)) for p in PLATFORMS for n in NETWORKS]
    found += [
        (
            f"module-{size}-{seed} on sched-nvl",
            zoo_case("module", "sched-nvl", tasks=size, seed=seed),
        )
        for size in (20, 50)
        for seed in (1, 2)
    ]
    return found


def rows(
    small: bool, time_limit: float, algorithms: Sequence[str] = ALGORITHMS
) -> list[Row]:
    """A row for each algorithm on each case."""
    result = []
    for name, problem in cases(small):
        for algorithm in algorithms:
            row, _ = run(problem, algorithm, time_limit)
            result.append(describe(problem, name) | row)
    return result
