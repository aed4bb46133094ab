"""Batches of 16 and 64 elements: divided, against whole and against the best single device."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero.problem import Objective

NETWORKS = ("light-resnet50", "light-inception_v1", "light-inception_v2", "gpt-24")
PLATFORMS = ("sched-pcie", "sched-nvl")
SIZES = (16, 64)
ALGORITHMS = ("single", "heft", "auto")


def rows(
    small: bool, time_limit: float, algorithms: Sequence[str] = ALGORITHMS, only: str = ""
) -> list[Row]:
    """A row for each algorithm on each network, platform and batch.

    `only`: cases with this in their name, which ends with the number of elements.
    """
    networks = ("light-squeezenet",) if small else NETWORKS
    platforms = PLATFORMS[-1:] if small else PLATFORMS
    sizes = SIZES[:1] if small else SIZES
    result = []
    for name in networks:
        for platform in platforms:
            for size in sizes:
                if only not in f"{name} on {platform} {size}":
                    continue
                problem = zoo_case(name, platform, Objective("latency", size))
                for algorithm in algorithms:
                    row, _ = run(problem, algorithm, time_limit)
                    result.append(describe(problem, f"{name} on {platform}") | row)
    return result
