"""The tables of docs/scheduling.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.parts import Document, percent, seconds
from benchmarks.quoted.performance import table
from benchmarks.scheduling.goals import goals
from benchmarks.scheduling.page import bounds_table, quality_table, splitting_table
from benchmarks.scheduling.runner import Row
from tvm_hetero.problem.schedule import OPTIMAL_GAP

_ABOUT = {
    "latency": ("proofs", "hard", "latency", "splitting"),
    "batches, memory, throughput and size": ("batches", "memory", "throughput", "nodes", "scaling",
                                             "bounds"),
}  # fmt: skip
# Those of which a row is an answer to a problem; the others compare.
_SUITES = ("latency", "proofs", "hard", "batches", "memory", "throughput", "nodes")


def tables(found: Mapping[str, Document]) -> list[str]:
    """All tables of the page, in its order."""
    rows = {suite: document["rows"] for suite, document in found.items()}
    return [
        *(_goals(about, {suite: rows[suite] for suite in suites})
          for about, suites in _ABOUT.items()),
        suites_table(rows, {suite: found[suite]["time_limit"] for suite in _SUITES}),
        quality_table(rows["latency"]),
        splitting_table(rows["splitting"], starts=(True,)),
        bounds_table(rows["bounds"]),
    ]  # fmt: skip


def _goals(about: str, rows: Mapping[str, list[Row]]) -> str:
    lines = [[g.text, g.wanted, g.reached, "yes" if g.met else "**no**"] for g in goals(rows)]
    return table([about, "wanted", "reached", "met"], lines)


def suites_table(found: Mapping[str, Sequence[Row]], limits: Mapping[str, float]) -> str:
    """How near the best answer to each problem of a suite is to its bound."""
    lines = []
    for suite in _SUITES:
        best = list(best_answers(found[suite]))
        worst = max(best, key=lambda row: float(row["gap"]))
        proven = sum(row["gap"] <= OPTIMAL_GAP for row in best)
        lines.append([
            suite, len(best), max(row["tasks"] for row in best),
            max(row["devices"] for row in best), proven,
            percent(statistics.median(row["gap"] for row in best)),
            f"{percent(worst['gap'])} ({worst['case']})",
            seconds(statistics.median(row["seconds"] for row in best)), f"{limits[suite]:g}",
        ])  # fmt: skip
    heads = ["suite", "problems", "tasks, at most", "devices, at most", "proven optimal",
             "gap, median", "gap, largest", "s, median", "s for each algorithm"]  # fmt: skip
    return table(heads, lines)


def best_answers(rows: Iterable[Row]) -> Iterable[Row]:
    """Of each problem the answer of auto, or, where auto was not asked, that with the least gap."""
    cases: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if "value" in row:
            cases.setdefault((row["case"], row["batch"]), []).append(row)
    for mine in cases.values():
        asked = [row for row in mine if row["solver"] == "auto"] or mine
        yield min(asked, key=lambda row: float(row["gap"]))
