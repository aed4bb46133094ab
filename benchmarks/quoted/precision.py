"""The tables of docs/precision.md of networks in three precisions."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Row, table

_TIMES = ("float32", "bfloat16", "auto", "openvino", "openvino f32")
_HEADS = ("float32", "bfloat16", "auto", "OpenVINO", "OpenVINO, float32", "tasks of auto")


def precision_table(rows: Sequence[Row]) -> str:
    """Milliseconds by precision and program, and how many tasks are narrow."""
    lines = [_times_of(row) for row in rows]
    return table(["ms on one core", *_HEADS], lines)


def amx_table(rows: Sequence[Row]) -> str:
    """The same with tile registers, and the error of auto on four inputs that no one had seen."""
    lines = [[*_times_of(row), f"{row['errors']['auto']:.1e}"] for row in rows]
    return table(["ms on one core with AMX", *_HEADS, "error of auto"], lines)


def _times_of(row: Row) -> list[str]:
    times = [_milliseconds(row["seconds"].get(key)) for key in _TIMES]
    return [row["model"], *times, f"{row['narrow']['auto']} of {row['tasks']}"]


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"
