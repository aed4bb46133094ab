"""The second table of docs/precision.md: networks in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.parts import Row, table

_TIMES = ("float32", "int8", "openvino", "onnxruntime")


def int8_table(rows: Sequence[Row]) -> str:
    """Milliseconds by program on one QDQ file, ours in float32 beside them, and the errors."""
    lines = []
    for row in rows:
        seconds, errors = row["seconds"], row["errors"]
        times = [f"{1e3 * seconds[key]:.2f}" if key in seconds else "-" for key in _TIMES]
        off = [f"{errors[key]:.1e}" if key in errors else "-" for key in ("int8", "openvino")]
        lines.append([row["model"], *times, str(row["nodes"]), *off])
    heads = ["float32", "int8", "OpenVINO, int8", "ONNX Runtime, int8"]
    return table(["ms on one core, bytes", *heads, "nodes", "error", "OpenVINO's"], lines)
