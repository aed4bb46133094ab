"""Throughput: the busiest device, with tasks placed freely and in contiguous stages."""

from __future__ import annotations

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero.problem import Objective, Problem

FREE = Objective("throughput")
STAGES = Objective("throughput", contiguous=True)
# Serial: copies keep devices busy. h100x8 has eight alike and a host, mixed-4 four unlike nodes.
FREE_PLATFORMS = (
    "diviml", "diviml-serial", "sched-nvl-serial", "h100x8", "h100x8-serial", "mixed-4", "hopper-8",
)  # fmt: skip
STAGE_PLATFORMS = ("diviml", "sched-nvl-serial", "mixed-4")
ALGORITHMS = ("heft", "annealing", "auto")
STAGE_ALGORITHMS = ("linear-dp", "auto")


def cases(small: bool) -> list[tuple[str, Problem, tuple[str, ...]]]:
    """Networks and layered graphs of 2,000 tasks on 3 and 8 devices; chains in stages."""
    if small:
        problem = zoo_case("light-squeezenet", "diviml", FREE)
        stages = zoo_case("light-squeezenet", "diviml", STAGES)
        return [
            ("squeezenet, free", problem, ALGORITHMS),
            ("squeezenet, stages", stages, STAGE_ALGORITHMS),
        ]
    found = []
    for platform in FREE_PLATFORMS:
        for name, sizes in (
            ("light-inception_v1", {}), ("gpt-96", {}), ("layered", {"tasks": 2000}),
        ):  # fmt: skip
            label = " ".join([name, *(f"{v}" for v in sizes.values())])
            problem = zoo_case(name, platform, FREE, **sizes)
            found.append((f"{label} on {platform}, free", problem, ALGORITHMS))
    for platform in STAGE_PLATFORMS:
        for name, sizes in (
            ("light-inception_v1", {}), ("light-densenet121", {}), ("resnet152", {}),
            ("gpt-24", {}), ("gpt-24", {"groups": 1, "layers": 96}), ("bert-large", {}),
            ("lstm", {}), ("randwire-ws", {}), ("series-parallel", {"tasks": 200}),
        ):  # fmt: skip
            label = " ".join([name, *(f"{k}={v}" for k, v in sizes.items())])
            problem = zoo_case(name, platform, STAGES, **sizes)
            found.append((f"{label} on {platform}, stages", problem, STAGE_ALGORITHMS))
    return found


def rows(
    small: bool, time_limit: float, algorithms: tuple[str, ...] = (), only: str = ""
) -> list[Row]:
    """A row for each algorithm on each case; 2,000 tasks have three times as long.

    Some `algorithms` alone, and `only` cases with this in their name, where they are given.
    """
    result = []
    for name, problem, known in cases(small):
        limit = time_limit if len(problem.tasks) < 2000 else 3 * time_limit
        for algorithm in known if only in name else ():
            if algorithms and algorithm not in algorithms:
                continue
            row, _ = run(problem, algorithm, limit)
            stages = problem.objective.contiguous
            result.append(describe(problem, name) | {"stages": stages} | row)
    return result
