"""What the benchmark of a server that is adapted prints, and that it tells of clients that fail."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks import serve_adapt
from benchmarks.result_rows import write_rows


def test_switches_stand_beside_their_goal_and_what_was_told_below() -> None:
    row = serve_adapt.Row("net", 1, True, 10.0, 5.0, 9.5, 1, ("switch: why; now 0-1@a 2-3@b",))
    lines = serve_adapt.report([row]).splitlines()
    assert serve_adapt.GOAL in lines[2] and "| 10.0 | 5.0 | 9.5 | 1 |" in lines[2]
    assert lines[3] == "  switch: why; now 0-1@a 2-3@b"


def test_a_rate_is_told_between_ends_and_not_by_how_many_a_time_happens_to_hold() -> None:
    senders = serve_adapt.Senders(lambda: None)
    senders._ends = [0.9, 1.9, 2.9, 3.9]
    for begin, end in ((0.0, 4.0), (0.9, 3.9), (1.0, 4.5)):
        assert senders.rate(begin, end) == pytest.approx(serve_adapt._ITEMS)
    assert senders.rate(0.0, 1.0) == 0.0


def test_rows_of_other_questions_are_kept(tmp_path: Path) -> None:
    row = serve_adapt.Row("net", 1, True, 10.0, 5.0, 9.5, 1, ())
    before = [replace(row, core=0), replace(row, quiet=11.0)]
    write_rows(tmp_path / "r.json", {"what": ""}, map(asdict, before))
    merged = serve_adapt._merged(tmp_path / "r.json", [row])
    kept, made = merged
    assert kept == asdict(before[0]) | {"told": []}
    assert made == asdict(row) | {"commit": made["commit"], "date": made["date"]}


def test_a_client_that_fails_is_told() -> None:
    def ask() -> None:
        raise OSError("the server has hung up")

    with pytest.raises(OSError, match="hung up"), serve_adapt.Senders(ask):
        pass
