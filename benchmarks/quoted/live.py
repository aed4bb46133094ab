"""The tables of docs/live.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.parts import Document, Row, table

_POLICIES = ("static", "resolve", "odin")


def tables(adapted: Document, switched: Document, watched: Document, soaked: Document) -> list[str]:
    """All tables of the page, in its order."""
    return [
        disturbed_table(adapted["rows"]),
        mean_table(adapted["rows"]),
        cost_table(switched["rows"], watched["rows"]),
        soak_table(soaked),
    ]


def disturbed_table(rows: Sequence[Row]) -> str:
    """Requests/s of each policy while the longest disturbance lasts."""
    longest = max(row["seconds"] for row in rows)
    lines = []
    for key, cell in _cells(rows).items():
        platform, model, core, seconds = key
        if seconds < longest:
            continue
        static = cell["static"]
        rates = [f"{cell[policy]['disturbed']:.1f}" for policy in _POLICIES]
        counts = [str(cell[policy]["switches"]) for policy in _POLICIES[1:]]
        lines.append([f"{model}, {platform} cores, {core}", f"{static['quiet']:.1f}", *rates,
                      f"{static['best']:.1f}", *counts])  # fmt: skip
    heads = ["disturbed core, requests/s", "in quiet", *_POLICIES, "best found",
             "switches, resolve", "switches, odin"]  # fmt: skip
    return table(heads, lines)


def mean_table(rows: Sequence[Row]) -> str:
    """The policies over the static plan, geometric means over all rows of a platform."""
    lines = []
    for platform in sorted({row["platform"] for row in rows}):
        cells = [cell for key, cell in _cells(rows).items() if key[0] == platform]
        lines.append([f"{platform} cores, {len(cells)} disturbances", *(
            f"{statistics.geometric_mean(c[p][key] / c['static'][key] for c in cells):.2f}"
            for p in _POLICIES[1:] for key in ("disturbed", "quiet", "p99")
        )])  # fmt: skip
    heads = [f"{policy} / static, {what}" for policy in _POLICIES[1:]
             for what in ("disturbed", "quiet", "p99 of latency")]  # fmt: skip
    return table(["over all", *heads], lines)


def cost_table(switches: Sequence[Row], watched: Sequence[Row]) -> str:
    """What a switch, a plan and watching cost."""
    late, seen = ([row[what] for row in switches] for what in ("lateness", "seen"))
    lines = [
        ["a switch: how late the stream is, in periods, median of "
         f"{len(late)} (goal at most 1)", f"{statistics.median(late):.2f}"],
        ["the same, the worst", f"{max(late):.2f}"],
        ["the same, as a thread of Python sees it that shares the cores, median and worst",
         f"{statistics.median(seen):.2f}, {max(seen):.2f}"],
        *([f"watching every step of {row['model']} (goal below 1 %)", f"{100 * row['cost']:+.2f} %"]
          for row in watched),
        *([f"a plan of {row['model']}", f"{1e3 * row['plan']:.0f} ms"] for row in watched),
    ]  # fmt: skip
    return table(["what", "costs"], lines)


def soak_table(soaked: Document) -> str:
    """What came of switching again and again."""
    wrong = f"{soaked['lost']}, {soaked['wrong']}"
    lines = [[f"{soaked['switches']:,}", f"{soaked['submitted']:,}", wrong,
              f"{100 * soaked['growth']:+.1f} %"]]  # fmt: skip
    return table(["switches", "requests", "lost, wrong", "resident memory (goal 1 %)"], lines)


def _cells(rows: Sequence[Row]) -> dict[tuple[str, str, int, float], dict[str, Row]]:
    found: dict[tuple[str, str, int, float], dict[str, Row]] = {}
    for row in rows:
        key = row["platform"], row["model"], row["core"], row["seconds"]
        found.setdefault(key, {})[row["policy"]] = row
    return dict(sorted(found.items()))
