"""The benchmark of switches runs, and counts gaps and periods rightly."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import switch


def test_a_small_run_switches_a_tiny_model(capsys: pytest.CaptureFixture[str]) -> None:
    before = switch.RESULTS.read_bytes() if switch.RESULTS.exists() else None
    rows = switch.main(["--small"])
    assert [(row.before, row.after) for row in rows] == [(0.5, 0.3), (0.3, 0.6)]
    printed = capsys.readouterr().out
    for row in rows:
        assert row.gap > 0 and row.taken > 0 and row.seen > -1 and row.steady > -1
        larger = max(row.period_before, row.period_after)
        assert row.lateness == pytest.approx((row.gap - larger) / larger)
        assert switch.line_of(row) in printed
    assert before == (switch.RESULTS.read_bytes() if switch.RESULTS.exists() else None)


def test_the_largest_gap_is_between_neighbours() -> None:
    assert switch.largest_gap([0.0, 1.0, 1.5, 4.0, 4.5]) == 2.5


def test_a_period_is_the_busiest_worker_s_median() -> None:
    class Step:
        def __init__(self, worker: int) -> None:
            self.worker = worker

    class Requests:
        plan = type("Plan", (), {"steps": [Step(0), Step(1), Step(0)]})
        starts = np.zeros((3, 3))
        ends = np.array([[1.0, 2.5, 1.0], [1.0, 2.5, 1.0], [9.0, np.nan, 9.0]])

    assert switch.period(Requests()) == 2.5  # type: ignore[arg-type]
