"""The dispatch benchmark runs, and what it writes is what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import dispatch


def test_a_small_run_leaves_the_committed_results_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = dispatch.RESULTS.read_bytes()
    dispatch.main(["--small"])
    assert "microseconds a segment" in capsys.readouterr().out
    assert dispatch.RESULTS.read_bytes() == before


def test_small_dispatch_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch.main(["--small", "--output", str(tmp_path / "dispatch.json")])
    document = json.loads((tmp_path / "dispatch.json").read_text())
    measured = {(row["runner"], row["segment"], row["workers"]) for row in document["rows"]}
    ours = {("executor", kind, workers) for kind in ("noop", "vm") for workers in (1, 2)}
    stream = {("stream", kind, workers) for _, kind, workers in ours}
    python = {("python threads", kind, workers) for _, kind, workers in ours}
    assert measured == ours | stream | python | {("tvm vm", "noop", 1)}
    assert all(0 < row["best"] <= row["median"] for row in document["rows"])
    assert "microseconds a segment" in capsys.readouterr().out
