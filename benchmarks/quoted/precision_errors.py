"""The table of docs/precision.md of what ``auto`` promised and kept."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Row, table

_PRECISIONS = ("bfloat16", "auto")


def precision_errors_table(rows: Sequence[Row]) -> str:
    """By network: tasks in bfloat16, and how often and how far errors went."""
    lines = []
    for row in rows:
        narrow = [str(row["narrow"][key]) for key in _PRECISIONS]
        above = [f"{row['exceeded'][key]} of {row['fresh']}" for key in _PRECISIONS]
        worst = [f"{row['errors'][key]:.1e}" for key in _PRECISIONS]
        others = "-" if not row["strange"] else (
            f"{row['strange_exceeded']['bfloat16']}, {row['strange_exceeded']['auto']} of "
            f"{row['strange']}"
        )  # fmt: skip
        lines.append([row["model"], ", ".join(narrow), *above, *worst, others])
    heads = ["tasks, bfloat16 and auto", "bfloat16 above 1e-2", "auto above 1e-2"]
    heads += ["worst of bfloat16", "worst of auto", "above on other kinds"]
    return table(["errors", *heads], lines)
