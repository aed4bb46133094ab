"""Lower bounds before any exact solving, in per cent of the best known value."""

from __future__ import annotations

import time

from benchmarks.scheduling.latency import cases
from benchmarks.scheduling.runner import Row, describe, run
from tvm_hetero.bounds import bound_ladder


def rows(small: bool, time_limit: float) -> list[Row]:
    """A row for each rung on each latency case; the best known value is auto's."""
    result = []
    for name, problem in cases(small):
        best, _ = run(problem, "auto", time_limit)
        began = time.perf_counter()
        for rung in bound_ladder(problem):
            seconds = time.perf_counter() - began
            result.append(
                describe(problem, name)
                | {"rung": rung.name, "bound": rung.value, "seconds": seconds}
                | {"best": best["value"], "share": rung.value / best["value"]}
            )
    return result
