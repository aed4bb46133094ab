"""The benchmark of early exits runs, and what it measures is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.early_exit import main


def test_its_small_mode_writes_what_it_measured(tmp_path: Path) -> None:
    output = tmp_path / "rows.json"
    assert main(["--small", "--output", str(output)]) == 0
    (row,) = json.loads(output.read_text())["rows"]
    assert row["difference"] < 1e-4
    assert min(row["predicted"], row["early"], row["late"], row["ort_late"]) > 0
    assert row["probability"] == 0.9
    assert row["mean"] == pytest.approx(0.9 * row["early"] + 0.1 * row["late"], rel=2e-3)
