"""The tables of docs/chiplets.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.parts import Row, by, percent, table

_POLICIES = ("static", "lls", "odin-2", "odin-10", "resolve")
_SEARCHES = ("shisha", "pipe-search", "hill-climbing", "resolve")


def tables(rows: Sequence[Row]) -> list[str]:
    """All tables of the page, in its order."""
    parts = by(rows, "measure")
    (grid,) = (own for name, own in parts.items() if name.endswith("-grid"))
    (lasting,) = (own for name, own in parts.items() if name.endswith("-lasting"))
    return [plan_table(parts["plan"]), search_table(parts["search"]), stream_table(grid, lasting)]


def plan_table(rows: Sequence[Row]) -> str:
    """Plans beside the best single place."""
    lines = [
        [f"{row['network']} on {row['preset']}", row["kind"], f"{1e3 * row['value']:.4g}",
         percent(row["gap"]), f"{row['single'] / row['value']:.2f}",
         f"{row['fast']} + {row['slow']}"]
        for row in rows
    ]  # fmt: skip
    return table(["network", "what", "ms", "gap", "best single / it", "fast + slow used"], lines)


def search_table(rows: Sequence[Row]) -> str:
    """What each search settles on, of the best, and its trials."""
    lines = [
        [f"{row['network']} on {row['preset']}", f"{row['best']:.4g}",
         *(f"{percent(row[name])} ({row[f'{name}_trials']})" for name in _SEARCHES)]
        for row in rows
    ]  # fmt: skip
    return table(["search by hints", "best, images/s", *_SEARCHES], lines)


def stream_table(grid: Sequence[Row], lasting: Sequence[Row]) -> str:
    """Disturbed streams: of the best that each request could have had, and settled on at last."""
    lines = []
    for network, own in by(grid, "network").items():
        flowing = {row["policy"]: row for row in own if row["mode"] == "flowing"}
        lines.append([f"{network}, every 100 requests",
                      *(percent(flowing[name]["of_best"]) for name in _POLICIES)])  # fmt: skip
        stays = [row for row in lasting if row["network"] == network]
        means = (statistics.fmean(row[name] for row in stays) for name in _POLICIES)
        lines.append([f"{network}, lasting, mean of {len(stays)}", *map(percent, means)])
    return table(["disturbed, of the best", *_POLICIES], lines)
