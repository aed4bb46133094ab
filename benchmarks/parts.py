"""What the pages of results share: tables, groups of rows, a line of goals, that of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Document = dict[str, Any]
Row = dict[str, Any]

GOAL_HEADS = ["goal", "wanted", "reached", "met"]


def by(rows: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    """Rows in groups, in the order in which the groups first appear."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def goal(text: str, wanted: str, reached: str, met: bool) -> list[str]:
    """A line under `GOAL_HEADS`."""
    return [text, wanted, reached, "yes" if met else "**no**"]


def machine(document: Document) -> str:
    """Where and with what a document's figures were measured."""
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    target = document["target"]
    return (
        f"{document['machine']}, {document['cores']} cores, load {document['load']:.1f}, target "
        f"`{target['mcpu'] if isinstance(target, dict) else target}`; {versions}."
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; the first column to the left, figures to the right."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    lines = [heads, rule, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in lines)


def percent(share: float) -> str:
    """A share as per cent; a tiny one is not called nothing."""
    if share <= 1e-6:
        return "0 %"
    return f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"


def seconds(value: float) -> str:
    """Seconds with two figures behind the point, or one from ten on."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
