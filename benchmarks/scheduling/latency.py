"""Latency of one element: every algorithm on every network of the zoo, with the same time."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero import zoo
from tvm_hetero.problem import Problem

# The heuristics that DiviML and its field compare with, and ours.
HEURISTICS = (
    "single", "greedy", "heft", "peft", "cpop", "random-walk", "hill-climbing", "genetic",
    "annealing",
)  # fmt: skip
ALGORITHMS = (*HEURISTICS, "cpsat", "milp", "milp-split", "auto")

# The platforms of our measurements (SOLVERS.md), one like DiviML's, and a telephone.
PLATFORMS = ("sched-nvl", "sched-pcie", "diviml", "phone")
# Models that need many devices to hold them.
LARGE = {
    "gpt3-175b": "sched-6", "llama3-70b": "h100x8", "llama3-405b": "mixed-16",
    "megatron-1t": "hopper-8", "mixtral-8x7b": "a100x8", "deepseek-v3": "hopper-8",
    "kimi-k2": "mixed-64",
}  # fmt: skip
# Times the time limit on platforms of more devices than that.
_MORE, _MANY = 5, 9
SMALL = (("light-squeezenet", "sched-nvl"),)


def cases(small: bool) -> list[tuple[str, Problem]]:
    """Every network on every platform that can hold it; modules of 50 tasks too."""
    if small:
        return [(f"{n} on {p}", zoo_case(n, p)) for n, p in SMALL]
    networks = [name for name in zoo.names() if name not in LARGE]
    pairs = [(n, p) for p in PLATFORMS for n in networks] + list(LARGE.items())
    found = [(f"{n} on {p}", zoo_case(n, p)) for n, p in pairs]
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
    small: bool, time_limit: float, algorithms: Sequence[str] = ALGORITHMS, only: str = ""
) -> list[Row]:
    """A row for each algorithm on each case that has `only` in its name."""
    result = []
    for name, problem in cases(small):
        if only not in name:
            continue
        limit = time_limit * (_MORE if len(problem.platform.devices) > _MANY else 1)
        for algorithm in algorithms:
            row, _ = run(problem, algorithm, limit)
            result.append(describe(problem, name) | row)
    return result
