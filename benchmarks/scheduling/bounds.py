"""Lower bounds before any exact solving, in per cent of the best known value."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.scheduling.latency import cases
from benchmarks.scheduling.runner import Row, describe, run
from tvm_hetero.bounds import bound_ladder

_LATENCY = Path(__file__).parent.parent / "results" / "schedule_latency.json"


def rows(small: bool, time_limit: float) -> list[Row]:
    """A row for each rung on each latency case."""
    known = {} if small else best_values()
    result = []
    for name, problem in cases(small):
        best = known.get(name) or run(problem, "auto", time_limit)[0]["value"]
        began = time.perf_counter()
        for rung in bound_ladder(problem):
            seconds = time.perf_counter() - began
            result.append(
                describe(problem, name)
                | {"rung": rung.name, "bound": rung.value, "seconds": seconds}
                | {"best": best, "share": rung.value / best}
            )
    return result


def best_values() -> dict[str, float]:
    """The least value of any algorithm in the committed latency results, by case."""
    if not _LATENCY.exists():
        return {}
    best: dict[str, float] = {}
    for row in json.loads(_LATENCY.read_text(encoding="utf-8"))["rows"]:
        if "value" in row:
            best[row["case"]] = min(row["value"], best.get(row["case"], row["value"]))
    return best
