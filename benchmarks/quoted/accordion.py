"""The tables of docs/accordion.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.parts import Document, Row, by, percent, table

_OURS = ("accordion", "accordion-even", "accordion-rigid")
_OTHERS = (
    "slo-conforming", "fastest", "bbs", "one-stage", "whole-machine", "fixed-partitions", "packrat",
)  # fmt: skip
_PAPERS = ("slo-conforming", "fastest", "bbs", "one-stage")
_LEVELS = ("strict", "moderate", "relaxed")
_SAID = {"strict": "1.13 fewer", "moderate": "4.2 fewer", "relaxed": "2 % left"}
Cell = Mapping[str, Row]


def tables(document: Document) -> list[str]:
    """All tables of the page, in its order."""
    rows = by(document["rows"], "measure")
    free = [row for row in document["rows"] if "free_latency" in row]
    return [
        summary_table(cells_of(rows["poisson"])),
        violation_table(rows["poisson"]),
        pool_table(cells_of(rows["poisson"])),
        *(stress_table(rows[measure], measure) for measure in ("bursts", "off")),
        *([free_table(free)] if free else []),
    ]


def cells_of(rows: Sequence[Row]) -> list[Cell]:
    """The rows of each pool, intensity and level, by policy."""
    found: dict[tuple[int, str, str], dict[str, Row]] = {}
    for row in rows:
        key = row["places"], row["intensity"], row["level"]
        found.setdefault(key, {})[row["policy"]] = row
    return list(found.values())


def summary_table(cells: Sequence[Cell]) -> str:
    """One line for each figure that the paper names; times, in the mean over all cells."""
    lines = []
    for level in _LEVELS:
        own = [cell for cell in cells if cell["accordion"]["level"] == level]
        left = percent(_mean(own, "accordion", "violations"))
        figures = [f"{_fewer(own, ending):.2g} fewer, {left} left" for ending in (", no drop", "")]
        lines.append([f"SLO violations, {level}", _SAID[level], *figures])
    for text, said, names, key in (
        ("mean latency below SLO-Conforming and Fastest", "1.6", _PAPERS[:2], "mean"),
        ("mean latency below 1-Stage", "2.2", _PAPERS[3:], "mean"),
        ("queries/s in time, above SLO-Conforming and Fastest", "1.6", _PAPERS[:2], "goodput"),
        ("queries/s in time, above 1-Stage", "2", _PAPERS[3:], "goodput"),
        ("queries in time, above the four baselines", "1.4", _PAPERS, "accommodated"),
    ):
        figures = [f"{_times(cells, names, key, end):.2g}" for end in (", no drop", "")]
        lines.append([text, said, *figures])
    high = [cell for cell in cells if cell["accordion"]["intensity"] == "high"]
    full = percent(_mean(high, "accordion", "full"))
    lines.append(["high intensity: all places busy", "70 % of the time", full, full])
    heads = ["measure", "paper", "baselines as they are", "that drop what is late"]
    return table(heads, lines)


def _mean(cells: Sequence[Cell], policy: str, key: str) -> float:
    return statistics.fmean(cell[policy][key] for cell in cells)


def _fewer(cells: Sequence[Cell], ending: str) -> float:
    """Violations of the best of the paper's baselines over ours."""
    best = min(_mean(cells, name + ending, "violations") for name in _PAPERS)
    return best / _mean(cells, "accordion", "violations")


def _times(cells: Sequence[Cell], names: Sequence[str], key: str, ending: str) -> float:
    """The figure of policies beside ours, so that more is better for us."""
    theirs = statistics.fmean(_mean(cells, name + ending, key) for name in names)
    ours = _mean(cells, "accordion", key)
    return theirs / ours if key == "mean" else ours / theirs


def violation_table(rows: Sequence[Row]) -> str:
    """Violations of every policy at each intensity and level, mean over the pools."""
    lines = []
    for intensity, some in by(rows, "intensity").items():
        for level, own in by(some, "level").items():
            lines.append([f"{intensity}, {level}", *_means(own)])
    return table(["violations", *_OURS, *_OTHERS], lines)


def _means(rows: Sequence[Row]) -> list[str]:
    """Violations of each policy; of baselines the better of dropping and not."""
    found = []
    for name in (*_OURS, *_OTHERS):
        kinds = [[r["violations"] for r in rows if r["policy"] == p] for p in (name, _kept(name))]
        found.append(percent(min(statistics.fmean(kind) for kind in kinds if kind)))
    return found


def _kept(name: str) -> str:
    return f"{name}, no drop"


def pool_table(cells: Sequence[Cell]) -> str:
    """Ours and the best other policy on each pool."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        ours = cell["accordion"]
        best = best_other(cell)
        text = f"{percent(ours['violations'])} / {percent(best)}"
        groups.setdefault((ours["intensity"], ours["level"]), []).append(text)
    counts = sorted({cell["accordion"]["places"] for cell in cells})
    lines = [[f"{intensity}, {level}", *texts] for (intensity, level), texts in groups.items()]
    return table(["ours / best other", *(f"{count} places" for count in counts)], lines)


def best_other(cell: Cell) -> float:
    """The fewest violations of a policy that is not ours."""
    return min(row["violations"] for name, row in cell.items() if name not in _OURS)


def stress_table(rows: Sequence[Row], measure: str) -> str:
    """Violations of every policy on other streams, mean over the levels."""
    lines = [[intensity, *_means(own)] for intensity, own in by(rows, "intensity").items()]
    return table([f"{measure}, 4 places", *_OURS, *_OTHERS], lines)


def free_table(rows: Sequence[Row]) -> str:
    """Of queries without deadline: who is late for them / how long they take, by what they get."""
    lines: list[list[str]] = []
    for row in rows:
        if row["intensity"] != "middle":
            continue  # with places to spare nobody waits for them
        if row["policy"] == "accordion":
            lines.append([f"{row['measure']}, {row['intensity']}, {row['places']} places"])
        late = "" if row["late"] is None else f"{percent(row['late'])} / "
        lines[-1].append(f"{late}{row['free_latency']:.2f}")
    return table(["late / latency", "accordion", "10 % alone", "whatever ends it soonest"], lines)
