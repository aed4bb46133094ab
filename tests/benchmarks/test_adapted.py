"""The benchmark of live adaptation, in its small mode."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks import adapted
from tvm_hetero.online.comparison import live_best


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_adapted_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_best, "_SECONDS", 0.03)  # of two busy cores, for each that is tried
    rows = adapted.main(["--small", "--output", str(tmp_path / "adapted.json")])
    assert [row.policy for row in rows] == ["static", "resolve"]
    assert all(min(row.quiet, row.disturbed, row.after, row.best) > 0 for row in rows)
    assert all(0 < row.p50 <= row.p99 for row in rows)
    assert (rows[0].trials, rows[0].switches) == (0, 0)
    document = json.loads((tmp_path / "adapted.json").read_text(encoding="utf-8"))
    assert [row["policy"] for row in document["rows"]] == ["static", "resolve"]
    assert "resolve" in capsys.readouterr().out


def test_seconds_that_are_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        adapted.main(["--seconds", "0,2"])
    assert "expected seconds from 0 to 60, got 0,2" in capsys.readouterr().err
