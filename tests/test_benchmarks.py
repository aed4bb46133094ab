"""The benchmarks' small modes run and give what their tables are made of."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks import kernels, models

README = Path(__file__).parent.parent / "README.md"


def test_the_readme_quotes_the_committed_results(capsys):
    rows = models.main(["--show"])
    table = capsys.readouterr().out.strip()
    assert len(rows) == 18
    assert table in README.read_text(encoding="utf-8")


def test_models_small():
    rows = models.main(["--small", "--time-limit", "5"])
    assert [row["objective"] for row in rows] == ["latency", "throughput"]
    for row in rows:
        assert row["tasks"] > row["kernels"] > 0
        assert row["difference"] < 1e-3
        assert 0 < row["bound_s"] <= row["predicted_s"] * (1 + 1e-9)
        assert row["predicted_s"] <= row["single_predicted_s"] * (1 + 1e-9)
        assert math.isfinite(row["partition_s"])
        assert row["partition_s"] > 0
    assert rows[0]["onnxruntime_1_s"] > 0


def test_kernels_small():
    results = kernels.main(["--small"])
    assert [result.model for result in results] == list(kernels.SMALL)
    for result in results:
        assert result.error < 1e-3
        assert math.isfinite(result.ratio)
        assert result.slowest
