"""The one table of README.md: what was measured, at a glance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.decoding.page import GAIN_BATCH, gains
from benchmarks.execution.page import over_rivals, over_single
from benchmarks.parts import Document, Row
from benchmarks.quoted.performance import table
from benchmarks.quoted.scheduling import best_answers
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.problem.schedule import OPTIMAL_GAP


def tables(found: Mapping[str, Document], scheduled: Mapping[str, Document]) -> list[str]:
    """The table at a glance."""
    rows = {name: document["rows"] for name, document in found.items()}
    latency = {batch: [row for row in rows["latency"] if row["batch"] == batch] for batch in (1, 8)}
    two = [gain for (_, batch), gain in gains(rows["decode"]).items() if batch == GAIN_BATCH]
    best = list(best_answers(scheduled["latency"]["rows"]))
    proven = sum(row["gap"] <= OPTIMAL_GAP for row in best)
    lines = [
        ["latency, one image, two equal cores: one core's time / the plan's",
         _range(latency[1], _speed_up)],
        ["the same for eight images at once", _range(latency[8], _speed_up)],
        ["images a second, two equal cores: the plan's / one core's",
         _range(rows["steady_state"], over_single)],
        ["the same beside the best of five rivals on both cores",
         _range(rows["steady_state"], over_rivals)],
        ["a fast core and a slow one: the fast core's time / the plan's",
         _range(rows["big_little"], _speed_up)],
        [f"tokens a second at batch {GAIN_BATCH}, two cores / one core", _between(two)],
        ["schedules for latency that are proven optimal, networks of the zoo",
         f"{proven} of {len(best)}"],
    ]  # fmt: skip
    return [table(["what was measured", "least to most (geometric mean)"], lines)]


def _speed_up(row: Row) -> float:
    return float(row["single_median_s"] / row["plan_median_s"])


def _range(rows: Sequence[Row], figure: Callable[[Row], float]) -> str:
    return _between([figure(row) for row in rows])


def _between(figures: Sequence[float]) -> str:
    return f"{min(figures):.2f} to {max(figures):.2f} ({geometric_mean(list(figures)):.2f})"
