"""What the pages of results share: groups of rows, a line of goals, the line of the machine."""

from __future__ import annotations

from collections.abc import Iterable
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
