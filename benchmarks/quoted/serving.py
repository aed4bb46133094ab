"""The tables of serving on real cores and of what a request costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.parts import Document, Row, percent, table

_POLICIES = (
    "accordion", "slo-conforming", "fastest", "bbs", "one-stage", "whole-machine",
    "fixed-partitions", "packrat",
)  # fmt: skip


def live_table(document: Document) -> str:
    """Violations of each policy by intensity and level, and over all cells."""
    rows: Sequence[Row] = document["rows"]
    cells = list(dict.fromkeys((row["intensity"], row["slo"]) for row in rows))
    lines = []
    for intensity, level in sorted(
        cells, key=lambda cell: list(document["intensities"]).index(cell[0])
    ):
        own = {
            row["policy"]: row
            for row in rows
            if (row["intensity"], row["slo"]) == (intensity, level)
        }
        lines.append(
            [f"{intensity}, {level}", *(percent(own[name]["violations"]) for name in _POLICIES)]
        )
    for text, key in (("all: late or refused", "violations"), ("all: refused", "refused")):
        means = [
            statistics.fmean(r[key] for r in rows if r["policy"] == name) for name in _POLICIES
        ]
        lines.append([text, *map(percent, means)])
    return table(["live, two cores", *_POLICIES], lines)


def cost_table(document: Document) -> str:
    """What a request costs each server."""
    lines = [
        [
            row["model"], row["server"], row["form"], _cpu_of(row),
            f"{row['added_p50_us']:,.0f}", f"{row['added_p99_us']:,.0f}",
            f"{row['requests_s']:,.0f}",
        ]
        for row in document["rows"]
    ]  # fmt: skip
    heads = ["model", "server", "form", "CPU us a request", "added p50, us", "added p99, us",
             "requests/s"]  # fmt: skip
    return table(heads, lines)


def _cpu_of(row: Row) -> str:
    """A difference of two measurements, which for a large model may be less than its error."""
    return f"{row['cpu_us']:,.0f}" if row["cpu_us"] > 0 else "less than the model's varies"


def adapt_table(rows: Sequence[Row]) -> str:
    """Elements/s of a server, one of whose unlike cores another program wants."""
    lines = [
        [
            f"{row['model']}, {row['core']}, {'`--adapt`' if row['adapt'] else 'without'}",
            *(f"{row[when]:.1f}" for when in ("quiet", "disturbed", "after")),
            str(row["switches"]),
        ]
        for row in rows
    ]  # fmt: skip
    heads = ["served, disturbed core, elements/s", "in quiet", "disturbed", "after", "switches"]
    return table(heads, lines)
