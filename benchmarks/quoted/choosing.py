"""The table of docs/choosing.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.parts import Row, by, percent, table


def rule_table(rows: Sequence[Row]) -> str:
    """How far below each rule our price is, in the mean over the questions that it answers.

    Their number stands in brackets."""
    answered = [row for row in rows if "price" in row]
    lines = []
    for load, own in by(answered, "load").items():
        gap = max(r["gap"] for r in own)
        longest = max(r["cpu_seconds"] for r in own)
        name = f"{load}, {len(own)} questions"
        lines.append([name, *_below_rules(own, "price"), percent(gap), f"{longest:.0f}"])
    heads = [f"below {name}" for name in answered[0]["rules"]]
    return table(["price, less", *heads, "largest gap", "longest, s of CPU"], lines)


def room_table(rows: Sequence[Row]) -> str:
    """How far below each rule ours is, and anyone could be, were machines divided at will.

    Of questions with that bound.
    """
    known = [row for row in rows if "divided" in row]
    lines = []
    for row in known:
        cells = [
            f"{_less(row['price'], price)} of {_less(row['divided'], price)}" if price else "-"
            for price in row["rules"].values()
        ]
        below = _less(row["divided"], row["price"])
        lines.append([f"{row['load']} {row['seed']}", *cells, below])
    heads = [f"below {name}" for name in known[0]["rules"]]
    return table(["ours of at most", *heads, "machines divided, below ours"], lines)


def _less(price: float, other: float) -> str:
    return f"{100 * (1 - price / other):.1f} %"


def _below_rules(rows: Sequence[Row], key: str) -> list[str]:
    """By each rule, how far a price of the rows is below the rule's, in the mean, and of how many.

    A price above a rule's (ours had to take a margin) is shown as what it is.
    """
    cells = []
    for name in rows[0]["rules"]:
        known = [row for row in rows if row["rules"][name] is not None]
        less = [1 - row[key] / row["rules"][name] for row in known]
        mean = f"{100 * statistics.fmean(less):.1f} %" if less else "-"
        cells.append(f"{mean} ({len(known)})")
    return cells


def day_table(rows: Sequence[Row]) -> str:
    """What a day costs by each policy, and how much less sharing by the hour is."""
    lines = []
    for row in rows:
        own = row["policies"]
        prices = [each.get("price") for each in own.values()]
        ours = own["shared, by the hour"]
        less = [
            f"{100 * (1 - ours['price'] / price):.0f} %" if price else "-" for price in prices[:3]
        ]
        lines.append([
            f"{row['day']} {row['seed']}", *(f"{p:.2f}" if p else "-" for p in prices),
            *less, percent(ours["gap"]), str(ours["together"]),
        ])  # fmt: skip
    heads = ["a model each, peak", "a model each, hourly", "shared, peak", "shared, hourly"]
    below = ["below each, peak", "below each, hourly", "below shared, peak"]
    return table(["price of a day", *heads, *below, "gap", "live together"], lines)
