"""The benchmark of int8: what its lines and its table say of a row."""

from __future__ import annotations

from dataclasses import asdict

from benchmarks.int8 import Int8Row, summary
from benchmarks.quoted.int8 import int8_table


def test_what_is_said_of_rows_with_and_without_openvino() -> None:
    seconds = {"float32": 4e-3, "int8": 2e-3, "onnxruntime": 8e-3, "openvino": 1e-3}
    rows = [
        Int8Row("a", 3, 4, seconds, {"int8": 0.01, "onnxruntime": 0.01, "openvino": 0.02}),
        Int8Row("b", 3, 4, {k: seconds[k] for k in ("float32", "int8", "onnxruntime")}),
    ]
    assert summary(rows).endswith("float32 0.50, ONNX Runtime 0.25, OpenVINO 2.00")
    table = int8_table([asdict(row) for row in rows])
    assert "| a | 4.00 | 2.00 | 1.00 | 8.00 | 3 | 1.0e-02 | 2.0e-02 |" in table
    assert "| b | 4.00 | 2.00 | - | 8.00 | 3 | - | - |" in table
