from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import samples
from tvm_hetero.report.schedule.intervals import (
    Interval,
    busy_seconds,
    lane_order,
    measured_intervals,
    overlap_seconds,
    plan_intervals,
    span,
)


@dataclass(frozen=True)
class Step:
    name: str
    device: str
    start: float
    end: float
    kind: str = "call"
    run_by: str = ""


def test_plan_has_kinds_and_copies() -> None:
    problem = samples.problem()
    plan = plan_intervals(samples.schedule(problem), problem)
    assert [(i.lane, i.name, i.kind) for i in plan] == [
        ("big", "a", "conv2d"),
        ("big", "b", "relu"),
        ("little", "c", "max_pool2d"),
        ("big → little", "a", "copy"),
    ]
    assert plan[3].detail == "3.91 KiB"


def test_plan_without_problem_still_has_every_interval() -> None:
    plan = plan_intervals(samples.schedule())
    assert [i.kind for i in plan] == ["", "", "", "copy"]


def test_skipped_steps_are_left_out() -> None:
    trace = [Step("s0", "big", 0.0, 1.0), Step("s1", "big", math.nan, math.nan)]
    assert [i.name for i in measured_intervals(trace)] == ["s0"]


def test_lanes_are_given_ones_then_others_by_name() -> None:
    plan = plan_intervals(samples.schedule())
    assert lane_order(plan, ["little", "big"]) == ["little", "big", "big → little"]
    assert lane_order([], ["idle"]) == ["idle"]


def test_busy_and_overlap_of_the_sample() -> None:
    plan = plan_intervals(samples.schedule())
    assert span(plan) == 5e-3
    assert busy_seconds(plan, "big") == pytest.approx(5e-3)
    assert busy_seconds(plan, "little") == pytest.approx(3e-3)
    assert overlap_seconds(plan, ["big", "little"]) == pytest.approx(3e-3)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(0, 9)), max_size=12))
def test_busy_counts_each_moment_once(rows: list[tuple[int, int, int]]) -> None:
    intervals = [Interval(f"d{d}", "x", float(s), float(s + n)) for d, s, n in rows]
    for lane in ("d0", "d1"):
        moments = {m for i in intervals if i.lane == lane for m in range(int(i.start), int(i.end))}
        assert busy_seconds(intervals, lane) == len(moments)
