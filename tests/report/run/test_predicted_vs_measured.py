"""Where the time went: rows, factors and the blame, of made-up runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.report.run.predicted_vs_measured import compare_with_plan, differences_table

MS = 1e-3


@dataclass(frozen=True)
class Step:
    name: str
    device: str
    start: float
    end: float
    kind: str = "conv2d"
    tasks: tuple[str, ...] = ()
    elements: tuple[int, ...] = ()
    waited: float = 0.0
    run_by: str = ""


# big: a (0-4), d (8-9); little: b (5-8), after the copy of a (4-5).
SCHEDULE = Schedule(
    problem="",
    solver="heft",
    kind="latency",
    executions=(
        Execution("a", "big", (0,), 0.0, 4 * MS),
        Execution("b", "little", (0,), 5 * MS, 8 * MS),
        Execution("d", "big", (0,), 8 * MS, 9 * MS),
    ),
    copies=(Copy("a", (0,), "big", "little", 4 * MS, 5 * MS),),
    value=9 * MS,
    lower_bound=9 * MS,
)


def trace(a: float = 4, copy: float = 1, b: float = 3, d: float = 1) -> list[Step]:
    """The run of that plan, when the steps take so many ms."""
    ends = (a, a + copy, a + copy + b, a + copy + b + d)
    return [
        Step("a", "big", 0.0, ends[0] * MS, "conv2d", ("a",), (0,)),
        Step("a: big > little", "big>little", ends[0] * MS, ends[1] * MS, "copy"),
        Step("b", "little", ends[1] * MS, ends[2] * MS, "pool", ("b",), (0,), ends[1] * MS),
        Step("d", "big", ends[2] * MS, ends[3] * MS, "add", ("d",), (0,), (copy + b) * MS),
        Step("skipped", "big", math.nan, math.nan),
    ]


def test_a_run_as_planned_has_no_differences() -> None:
    found = compare_with_plan(trace(), SCHEDULE)
    rows = {(row.kind, row.name): row for row in found.rows}
    assert set(rows) == {
        ("segment", "a"),
        ("segment", "b"),
        ("segment", "d"),
        ("copy", "a: big > little"),
        ("wait", "before b"),
        ("wait", "before d"),
    }
    assert all(abs(row.excess) < 1e-12 for row in found.rows)
    assert rows["wait", "before d"].planned == pytest.approx(4 * MS)
    assert rows["wait", "before b"].planned_start == 0.0
    assert found.measured == pytest.approx(found.planned) and found.factors == {}


def test_a_slow_segment_is_blamed_and_not_the_wait_for_it() -> None:
    found = compare_with_plan(trace(b=6), SCHEDULE)
    assert found.verdict == (
        "Planned 9.00 ms, measured 12.0 ms (1.33 times the plan). Largest difference: segment 'b' "
        "on little, 6.00 ms instead of 3.00 ms: its kernels are slower than their costs."
    )


def test_interference_is_told_from_a_wrong_cost() -> None:
    alone = {("a", 0, "big"): 4 * MS, ("b", 0, "little"): 3 * MS, ("d", 0, "big"): 1 * MS}
    found = compare_with_plan(trace(b=6), SCHEDULE, alone)
    assert found.factors == {"big": pytest.approx(1.0), "little": pytest.approx(2.0)}
    assert "alone it takes 3.00 ms, so the other devices slow it down by a factor of 2.00 (the" in (
        found.verdict
    )
    wrong = compare_with_plan(trace(b=6), SCHEDULE, {**alone, ("b", 0, "little"): 6 * MS})
    assert wrong.verdict.endswith(
        "even alone it takes 6.00 ms, so the cost is too low: measure again."
    )


def test_a_slow_copy_and_a_late_thread() -> None:
    assert compare_with_plan(trace(copy=4), SCHEDULE).verdict.endswith(
        "copy 'a: big > little' on big>little, 4.00 ms instead of 1.00 ms: the link is slower than "
        "the platform says."
    )
    steps = trace()
    steps[3] = replace(steps[3], start=11 * MS, end=12 * MS, waited=7 * MS)
    verdict = compare_with_plan(steps, SCHEDULE).verdict
    assert "wait 'before d' on big, 7.00 ms instead of 4.00 ms: 'b' on little was" in verdict


def test_elements_of_a_batch_are_shares_of_an_execution() -> None:
    schedule = replace(
        SCHEDULE, executions=(Execution("a", "big", (0, 1), 0.0, 4 * MS),), copies=()
    )
    steps = [
        Step("a", "big", 0.0, 2 * MS, tasks=("a",), elements=(0,)),
        Step("a", "big", 2 * MS, 5 * MS, tasks=("a",), elements=(1,)),
    ]
    rows = compare_with_plan(steps, schedule).rows
    assert [row.planned_start for row in rows] == pytest.approx([0.0, 2 * MS])
    assert [row.excess for row in rows] == pytest.approx([0.0, 1 * MS])


def test_a_period_of_a_pipeline_compares_lengths_only() -> None:
    found = compare_with_plan(trace(b=5), replace(SCHEDULE, kind="throughput", value=5 * MS))
    segments = [row for row in found.rows if row.kind == "segment"]
    assert all(math.isnan(row.planned_start) for row in segments)
    assert found.measured == pytest.approx(5 * MS)
    assert "segment 'b'" in found.verdict


def test_json_has_no_nan_and_the_table_says_what_it_leaves_out() -> None:
    found = compare_with_plan(trace(b=6), SCHEDULE)
    document = found.as_dict()
    assert document["rows"][0]["alone"] is None and document["planned"] == 9 * MS
    text = differences_table(found, most=2)
    assert "+3.00 ms" in text and text.endswith("(4 more rows differ less: --json has all)")
