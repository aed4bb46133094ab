"""The table of docs/precision.md of what ``auto`` promised and kept."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Row, table

_PRECISIONS = ("bfloat16", "auto")


def precision_errors_table(rows: Sequence[Row]) -> str:
    """By network: kernels' time, narrow tasks, and how often and how far errors went."""
    lines = []
    for row in rows:
        kernels = [_milliseconds(row["kernels"].get(key)) for key in ("float32", *_PRECISIONS)]
        narrow = [str(row["narrow"][key]) for key in _PRECISIONS]
        above = [f"{row['exceeded'][key]} of {row['fresh']}" for key in _PRECISIONS]
        worst = [f"{row['errors'][key]:.1e}" for key in _PRECISIONS]
        others = "-" if not row["strange"] else (
            f"{row['strange_exceeded']['bfloat16']}, {row['strange_exceeded']['auto']} of "
            f"{row['strange']}"
        )  # fmt: skip
        lines.append([row["model"], *kernels, ", ".join(narrow), *above, *worst, others])
    heads = ["float32", "bfloat16", "auto", "tasks of both", "bfloat16 above", "auto above"]
    heads += ["worst of bfloat16", "worst of auto", "both above on other kinds"]
    return table(["ms of all kernels", *heads], lines)


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"
