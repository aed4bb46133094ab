"""The tables of docs/choosing-compared.md about decoders: prices of a million tokens."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.choosing.published import price_of_node
from benchmarks.layer_flows.cases import facts
from benchmarks.parts import Row, percent, table

_HOUR, _MILLION = 3600.0, 1e6


def million(price: float | None, tokens: float) -> str:
    """Dollars for a million tokens, of a price an hour and tokens a second."""
    return "-" if price is None else f"{price / _HOUR / tokens * _MILLION:.2f}"


def price_table(rows: Sequence[Row]) -> str:
    """Each question: ours, Mélange's program on the same rates, the best single kind, published."""
    lines = []
    for row in rows:
        tokens = row["rate"] * row["output"]
        single = {name: price for name, price in row["single"].items() if price is not None}
        best = min(single, key=lambda name: single[name])
        known = dict(row["published"])
        theirs = known.pop("Mélange", None)
        lines.append([
            f"{row['model']}, {1000 * row['limit']:g} ms, {row['rate']:g} /s",
            ", ".join(f"{n} of {name}" for name, n in row["machines"].items()),
            *(million(row[key], tokens) for key in
              ("price", "bound", "melange", "melange_played")),
            f"{million(single[best], tokens)} ({best})",
            million(theirs, tokens),
            million(min(known.values(), default=None), tokens),
        ])  # fmt: skip
    return table(
        ["$ a million tokens", "our machines", "ours", "bound", "Mélange's program", "played",
         "best single kind", "published: Mélange", "its best single kind"],
        lines,
    )  # fmt: skip


def helix_table(rows: Sequence[Row]) -> str:
    """Helix's clusters: the price of its layout, of ours, and what no layout is below."""
    lines = []
    for row in rows:
        if not row["value"]:
            continue
        kinds = facts()["clusters"][row["cluster"]]["kinds"]
        price = sum(price_of_node(kind) for kind in kinds)
        theirs = row["said"] or row["judged"]
        lines.append([
            f"{row['cluster']}, {row['model']}", f"{price:.2f}",
            million(price, theirs) if theirs else "-",
            million(price, row["value"]), million(price, row["bound"]),
            percent(1 - theirs / row["value"]) if theirs else "-",
        ])  # fmt: skip
    return table(
        ["$ a million tokens on Helix's clusters", "$ an hour", "Helix's layout", "ours",
         "no layout below", "ours less"],
        lines,
    )  # fmt: skip
