"""The benchmark of live adaptation, in its small mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import adapted
from benchmarks.execution.adapted_rows import merged, uneasy
from benchmarks.execution.disturbed_stream import read_with_children
from benchmarks.result_rows import read_rows
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
    assert all(row.others >= 0 for row in rows)
    assert (rows[0].trials, rows[0].switches) == (0, 0)
    document = json.loads((tmp_path / "adapted.json").read_text(encoding="utf-8"))
    assert [row["policy"] for row in document["rows"]] == ["static", "resolve"]
    assert all(row["date"] and row["commit"] for row in document["rows"])
    assert "resolve" in capsys.readouterr().out


def test_seconds_that_are_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        adapted.main(["--seconds", "0,2"])
    assert "expected seconds from 0 to 60, got 0,2" in capsys.readouterr().err


CASE = {"model": "m", "platform": "equal", "kind": "busy", "core": 0, "seconds": 2.0}


def row_of(policy: str = "static", quiet: float = 100.0, best: float = 80.0, **case: object):
    return {**CASE, "policy": policy, "quiet": quiet, "best": best, **case}


def test_a_row_that_is_measured_anew_takes_the_place_of_the_old_one() -> None:
    kept = [row_of(), row_of("odin")]
    found = merged(kept, [row_of(quiet=105.0, best=90.0)])
    assert found == [row_of(quiet=105.0, best=90.0), row_of("odin")]


def test_where_nobody_looked_for_the_best_the_one_before_stays() -> None:
    assert merged([row_of()], [row_of(quiet=105.0, best=0.0)]) == [row_of(quiet=105.0)]


def test_a_stream_that_was_slow_before_anything_disturbed_it_is_uneasy() -> None:
    slow = row_of(quiet=56.0, core=1)
    others = [row_of(), row_of(seconds=10.0), row_of("odin", quiet=60.0)]
    assert uneasy([*others, slow]) == [slow]


def test_no_row_that_is_published_is_uneasy() -> None:
    assert uneasy(read_rows(adapted.RESULTS / "adapted.json")) == []


def test_a_program_of_ours_that_has_ended_is_none_of_others() -> None:
    before = read_with_children()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", burn], check=True)
    assert read_with_children().own - before.own > 0.2
