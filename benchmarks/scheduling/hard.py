"""Modules that no articulation cuts: random wirings and modules of 50 tasks, with a minute each."""

from __future__ import annotations

from benchmarks.scheduling.runner import Row, describe, run, zoo_case

CASES = (
    ("randwire-ws", {}), ("randwire-er", {}), ("randwire-ba", {}), ("module", {"tasks": 50}),
)  # fmt: skip
PLATFORMS = ("sched-nvl",)
ALGORITHMS = ("auto",)


def rows(small: bool, time_limit: float) -> list[Row]:
    """A row for each algorithm on each case."""
    cases = (("module", {"tasks": 10}),) if small else CASES
    platforms = PLATFORMS[:1] if small else PLATFORMS
    result = []
    for name, sizes in cases:
        for platform in platforms:
            problem = zoo_case(name, platform, **sizes)
            label = " ".join([name, *(f"{k}={v}" for k, v in sizes.items()), "on", platform])
            for algorithm in ALGORITHMS:
                row, _ = run(problem, algorithm, time_limit)
                result.append(describe(problem, label) | row)
    return result
