"""The tables of docs/precision.md of networks in three precisions."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Row, table

_TIMES = ("float32", "bfloat16", "auto", "openvino", "openvino f32")


def precision_table(rows: Sequence[Row], where: str = "one core") -> str:
    """Milliseconds by precision and program, how many tasks are narrow, and the error of auto."""
    lines = []
    for row in rows:
        times = [_milliseconds(row["seconds"].get(key)) for key in _TIMES]
        narrow = f"{row['narrow']['auto']} of {row['tasks']}"
        lines.append([row["model"], *times, narrow, f"{row['errors']['auto']:.1e}"])
    heads = ["float32", "bfloat16", "auto", "OpenVINO", "OpenVINO, float32"]
    return table([f"ms on {where}", *heads, "tasks of auto", "error of auto"], lines)


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"
