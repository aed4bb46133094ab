"""The benchmark of what watching costs, in its small mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import watching
from benchmarks.execution.cases import TINY


def test_watching_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = watching.main(["--small", "--output", str(tmp_path / "watching.json")])
    assert (row.model, row.steps >= 2) == (TINY, True)
    assert row.cost == pytest.approx(row.watched / row.unwatched - 1) and row.unwatched > 0
    assert row.plan > 0
    assert f"a plan in {1e3 * row.plan:.0f} ms" in capsys.readouterr().out
    (written,) = json.loads((tmp_path / "watching.json").read_text(encoding="utf-8"))["rows"]
    assert written["model"] == TINY
