"""The dispatch benchmark runs, and what it writes is what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import dispatch

SEGMENTS = {"segment, foreign", "segment, 1 kernel"}
PARTS = {
    ("kernel call", "executor"),
    ("start of a step", "executor"),
    ("edge across devices", "executor"),
    *(
        (what, by)
        for what in ("submit to result, 1 kernel", "wake-up from idleness")
        for by in ("executor (C++ functions)", "Executor.submit", "Executor.run")
    ),
}


def test_a_small_run_writes_what_it_prints_where_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committed = dispatch.RESULTS.read_bytes() if dispatch.RESULTS.exists() else None
    figures = dispatch.main(["--small", "--output", str(tmp_path / "dispatch.json")])
    document = json.loads((tmp_path / "dispatch.json").read_text(encoding="utf-8"))
    assert len(document["rows"]) == len(figures)
    ours = {(what, by, workers) for what in SEGMENTS for by in ("executor", "stream")
            for workers in (1, 2)}  # fmt: skip
    peers = {(what, "TVM's VM", 1) for what in SEGMENTS}
    peers |= {("segment, foreign", "Python threads", workers) for workers in (1, 2)}
    chains = {(f.what, f.runner, f.workers) for f in figures if f.what in SEGMENTS}
    assert chains == ours | peers
    assert {(f.what, f.runner) for f in figures if f.what not in SEGMENTS} == PARTS
    for figure in figures:
        assert figure.best <= figure.median <= figure.p99
        if figure.what in SEGMENTS or figure.what.startswith("submit"):
            assert figure.best > 0
    printed = capsys.readouterr().out
    assert "edge across devices" in printed and "< 2: " in printed
    now = dispatch.RESULTS.read_bytes() if dispatch.RESULTS.exists() else None
    assert now == committed
