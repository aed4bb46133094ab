"""The tables of docs/choosing-compared.md and docs/sharing.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.parts import Row, by, percent, table


def choice_tables(rows: Sequence[Row]) -> list[str]:
    """All tables: of prices, then of energy where there are such rows."""
    energy = energy_rows(rows)
    tables = [rule_table(price_rows(rows)), room_table(price_rows(rows))]
    return [*tables, energy_table(energy), room_table(energy, "watts, ours")] if energy else tables


def price_rows(rows: Sequence[Row]) -> list[Row]:
    """Answers of the least price."""
    return [row for row in rows if "price" in row and row.get("goal", "price") == "price"]


def energy_rows(rows: Sequence[Row]) -> list[Row]:
    """Answers of the least energy."""
    return [row for row in rows if "price" in row and row.get("goal") == "energy"]


def rule_table(rows: Sequence[Row]) -> str:
    """How far below each rule our price is, in the mean over the questions that it answers.

    Their number stands in brackets."""
    lines = []
    for load, own in by(rows, "load").items():
        name = f"{load}, {len(own)} questions"
        lines.append([name, *_below_rules(own, "price", "rules"), *_gap_and_time(own)])
    heads = [f"below {name}" for name in rows[0]["rules"]]
    return table(["price, less", *heads, "largest gap", "longest, s of CPU"], lines)


def energy_table(rows: Sequence[Row]) -> str:
    """How far below each rule our watts are: counted, played, and beside the rules by price."""
    lines = []
    for load, own in by(rows, "load").items():
        for what, key, rules in (
            ("rules by watts", "value", "rules"),
            ("rules by watts, played", "watts", "rules_watts"),
            ("rules by price", "value", "priced"),
            ("rules by price, played", "watts", "priced_watts"),
        ):
            lines.append([f"{load}, {what}", *_below_rules(own, key, rules), *_gap_and_time(own)])
    heads = [f"below {name}" for name in rows[0]["rules"]]
    return table(["watts, less", *heads, "largest gap", "longest, s of CPU"], lines)


def _gap_and_time(rows: Sequence[Row]) -> list[str]:
    longest = max(row["cpu_seconds"] for row in rows)
    return [percent(max(row["gap"] for row in rows)), f"{longest:.0f}"]


def room_table(rows: Sequence[Row], what: str = "ours") -> str:
    """How far below each rule ours is, and anyone could be, were machines divided at will."""
    lines = []
    for row in rows:
        value = row.get("value", row["price"])
        cells = [
            f"{_less(value, other)} of {_less(row['divided'], other)}" if other else "-"
            for other in row["rules"].values()
        ]
        below = _less(row["divided"], value)
        lines.append([f"{row['load']} {row['seed']}", *cells, below])
    heads = [f"below {name}" for name in rows[0]["rules"]]
    return table([f"{what} of at most", *heads, "machines divided, below ours"], lines)


def _less(price: float, other: float) -> str:
    return f"{100 * (1 - price / other):.1f} %"


def _below_rules(rows: Sequence[Row], key: str, rules: str) -> list[str]:
    """By each rule, how far a figure is below the rule's, in the mean, and of how many.

    A figure above a rule's (ours had to take a margin) is shown as what it is.
    """
    cells = []
    for name in rows[0][rules]:
        known = [row for row in rows if row[rules][name] is not None]
        less = [1 - row[key] / row[rules][name] for row in known]
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
