"""The tables of docs/diviml.md: what the paper states, and what comes out here, case by case."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.parts import Document, Row, by, percent, table
from benchmarks.scheduling.latency import HEURISTICS
from benchmarks.scheduling.page import grouped, splitting_table
from benchmarks.scheduling.runner import geometric_mean

_SERVER = " on diviml"
_LISTS = ("greedy", "heft", "peft", "cpop")
_ORDERED = {"time": "time used", "tasks": "tasks", "batches": "elements", "none": "nothing"}


def tables(found: Document, scheduled: Mapping[str, Document]) -> list[str]:
    """All tables of the page, in its order."""
    parts = by(found["rows"], "part")
    latency, splitting = scheduled["latency"]["rows"], scheduled["splitting"]["rows"]
    return [
        summary_table(parts, latency, splitting),
        speed_up_table([*parts["latency"], *parts["throughput"]]),
        heuristics_table(latency),
        splitting_table(splitting, starts=(True,)),
        wirings_table(parts["wirings"]),
        orderings_table(parts["orderings"]),
    ]


def summary_table(
    parts: Mapping[str, Sequence[Row]], latency: Sequence[Row], splitting: Sequence[Row]
) -> str:
    """The paper's figures and ours, each with the command that prints ours."""
    ratios = {part: _speed_ups(parts[part]) for part in ("latency", "throughput", "wirings")}
    faster = [*ratios["latency"], *ratios["wirings"]]
    worse = _above_split(latency, _LISTS)
    bench = "`python -m benchmarks.{}`"
    lines = [
        ["latency below the fastest GPU's, times", "more than 3",
         f"{min(faster):.2f} to {max(faster):.2f}", bench.format("diviml --only latency")],
        ["throughput above the fastest GPU's, times", "up to 2.9",
         f"{min(ratios['throughput']):.2f} to {max(ratios['throughput']):.2f}",
         bench.format("diviml --only throughput")],
        ["splitting faster than the exact program, times", "up to 395", _most(splitting, "milp"),
         bench.format("schedule --suite splitting")],
        ["other heuristics behind splitting", "30 to 60 %",
         f"{percent(max(0.0, min(worse)))} to {percent(max(worse))}, "
         f"{percent(geometric_mean([1 + w for w in worse]) - 1)} in the mean",
         bench.format("schedule --suite latency")],
    ]  # fmt: skip
    return table(["what", "the paper", "here", "command"], lines)


def _speed_ups(rows: Iterable[Row]) -> list[float]:
    return [row["single"] / row["value"] for row in rows if row["solver"] == "auto"]


def _most(rows: Iterable[Row], whole: str) -> str:
    """The largest factor among the cases that the whole graph's model closed."""
    seconds: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["against"] == whole and row["started"] and row.get("gap", 1.0) <= 1e-6:
            seconds.setdefault(row["case"], {})[row["solver"]] = row["seconds"]
    closed = [own[whole] / own["milp-split"] for own in seconds.values() if len(own) == 2]
    return f"up to {max(closed):,.0f}"


def _above_split(rows: Iterable[Row], heuristics: Sequence[str]) -> list[float]:
    """On the paper's platform, how far each answer of each heuristic is above splitting's."""
    found = []
    for case, mine in grouped(list(rows)).items():
        if case.endswith(_SERVER) and "milp-split" in mine:
            split = mine["milp-split"]["value"]
            found += [mine[name]["value"] / split - 1 for name in heuristics if name in mine]
    return found


def speed_up_table(rows: Sequence[Row]) -> str:
    """Networks on the paper's platform: beside the fastest GPU, and beside list schedules."""
    lines = []
    for (case, batch, kind), mine in _cases(rows).items():
        auto = mine["auto"]
        listed = [mine[name]["value"] for name in _LISTS if name in mine]
        lines.append([
            case, kind, batch, f"{1e3 * auto['single']:.3f}", f"{1e3 * auto['value']:.3f}",
            f"{auto['single'] / auto['value']:.2f}", f"{min(listed) / auto['value']:.2f}",
            percent(auto["gap"]),
        ])  # fmt: skip
    heads = ["network", "what", "elements", "one device, ms", "auto, ms", "times",
             "best list schedule / auto", "gap"]  # fmt: skip
    return table(heads, lines)


def _cases(rows: Iterable[Row]) -> dict[tuple[str, int, str], dict[str, Row]]:
    found: dict[tuple[str, int, str], dict[str, Row]] = {}
    for row in rows:
        if "value" in row:
            key = row["case"], row["batch"], row["kind"]
            found.setdefault(key, {})[row["solver"]] = row
    return found


def heuristics_table(rows: Sequence[Row]) -> str:
    """Each heuristic above splitting on the paper's platform: mean, worst, shares of the cases."""
    lines = []
    for name in HEURISTICS:
        above = _above_split(rows, (name,))
        mean = geometric_mean([1 + share for share in above]) - 1
        shares = [f"{sum(a >= least for a in above)}" for least in (0.01, 0.3)]
        # Adding 0 makes -0.0 plain.
        lines.append(
            [name, f"{round(100 * mean, 1) + 0.0:.1f} %", percent(max(above)), *shares, len(above)]
        )
    heads = ["heuristic, above splitting", "mean", "worst", "by 1 % or more", "by 30 % or more",
             "cases"]  # fmt: skip
    return table(heads, lines)


def wirings_table(rows: Sequence[Row]) -> str:
    """Random wirings: `auto` within a minute, beside one device and list schedules."""
    lines = []
    for (case, _, _), mine in _cases(rows).items():
        auto = mine["auto"]
        listed = {name: mine[name]["value"] / auto["value"] for name in _LISTS if name in mine}
        lines.append([
            case, auto["tasks"], f"{1e3 * auto['value']:.3f}", percent(auto["gap"]),
            f"{auto['seconds']:.0f}", f"{auto['cpu_seconds']:.0f}",
            f"{auto['single'] / auto['value']:.2f}",
            *(f"{listed.get(name, math.nan):.2f}" for name in _LISTS),
        ])  # fmt: skip
    heads = ["wiring", "tasks", "auto, ms", "gap", "s", "of processor", "one device / auto",
             *_LISTS]  # fmt: skip
    return table(heads, lines)


def orderings_table(rows: Sequence[Row]) -> str:
    """One model of the whole graph by each ordering, beside the plan that counts."""
    counted = {row["kind"]: row for row in rows if row["solver"] == "count-dp"}
    kinds = ("latency", "throughput")
    lines = [
        ["counted, none is named", "", *_cells([counted.get(kind) for kind in kinds], counted)]
    ]
    named: dict[tuple[bool, str], dict[str, Row]] = {}
    for row in rows:
        if "ordering" in row:
            named.setdefault((row["started"], row["ordering"]), {})[row["kind"]] = row
    for (started, ordering), mine in named.items():
        cells = _cells([mine.get(kind) for kind in kinds], counted)
        lines.append([_ORDERED[ordering], "HEFT's plan" if started else "no plan", *cells])
    each = ("/ counted", "gap", "s")
    heads = ["equal servers ordered by", "from", "latency, s", *each, "period, s", *each]
    return table(heads, lines)


def _cells(rows: Sequence[Row | None], counted: Mapping[str, Row]) -> list[str]:
    cells = []
    for row in rows:
        if row is None:
            cells += ["", "", "", ""]
            continue
        if "value" not in row:
            cells += ["none found", "", "", f"{row['seconds']:.0f}"]
            continue
        best = counted[row["kind"]]["value"]
        cells += [f"{row['value']:.4g}", f"{row['value'] / best:.3f}", percent(row["gap"]),
                  f"{row['seconds']:.0f}"]  # fmt: skip
    return cells
