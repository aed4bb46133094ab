"""Plans on teams: a row for every core, bars across rows, and what widths were made use of."""

from __future__ import annotations

import re

from tests.solvers.examples import counted
from tests.solvers.test_teams import fork
from tvm_hetero.platform import Device, Platform
from tvm_hetero.report.schedule.core_rows import by_cores, core_lanes, fixed_width_value, widths_of
from tvm_hetero.report.schedule.gantt import gantt_svg
from tvm_hetero.report.schedule.intervals import Interval, busy_seconds, plan_intervals
from tvm_hetero.report.schedule.text import plan_chart, plan_lanes, schedule_text
from tvm_hetero.solvers import solve

PROBLEM = fork()
PLAN = solve(PROBLEM, "exhaustive", counted(time_limit=5.0))


def test_every_core_has_a_row_and_teams_have_none() -> None:
    assert core_lanes(PROBLEM.platform) == ["core 0", "core 1"]
    assert plan_lanes(PLAN, PROBLEM) == ["core 0", "core 1"]
    gpu = Device("gpu", overlap=True)
    assert core_lanes(Platform((*PROBLEM.platform.devices, gpu))) == ["core 0", "core 1", "gpu"]
    plain = Platform((Device("a", cores=(0,)), Device("b", cores=(1,))))
    assert core_lanes(plain) == ["a", "b"]


def test_cores_of_several_nodes_say_where_they_are() -> None:
    rows = [Device(f"{node}{i}", node=node, cores=cores)
            for node in ("x", "y") for i, cores in enumerate([(0,), (0, 1)])]  # fmt: skip
    assert core_lanes(Platform(tuple(rows))) == ["x core 0", "x core 1", "y core 0", "y core 1"]


def test_a_wide_execution_keeps_all_of_its_rows_busy() -> None:
    plan = by_cores(plan_intervals(PLAN, PROBLEM), PROBLEM.platform)
    stem = next(interval for interval in plan if interval.name == "stem")
    assert stem.lanes == ("core 0", "core 1") and "on t2, 2 cores" in stem.detail
    assert busy_seconds(plan, "core 0") == busy_seconds(plan, "core 1") == 8.0


def test_a_bar_reaches_across_the_rows_of_its_cores() -> None:
    chart = plan_chart(PLAN, PROBLEM)
    picture = gantt_svg(chart.intervals, lanes=plan_lanes(PLAN, PROBLEM))
    heights = re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="[\d.]+" height="(\d+)" rx', picture)
    assert heights.count("58") == 2 and set(heights) == {"24", "58"}


def test_cores_that_do_not_stand_together_have_a_bar_each() -> None:
    apart = [Interval("a", "t", 0.0, 1.0, also=("c",)), Interval("b", "u", 0.0, 1.0)]
    picture = gantt_svg(apart, lanes=["a", "b", "c"])
    assert len(re.findall(r'height="24" rx', picture)) == 3


def test_a_plan_says_how_wide_it_is_and_what_one_width_would_give() -> None:
    assert widths_of(PROBLEM.platform) == [1, 2]
    assert fixed_width_value(PROBLEM, 1) == 12.0 and fixed_width_value(PROBLEM, 2) == 12.0
    assert fixed_width_value(PROBLEM, 3) is None
    text = schedule_text(PLAN, PROBLEM)
    table = text[text.index("of the core-seconds") :].split("figure")[0].splitlines()
    assert [line.split()[:2] for line in table if "50 %" in line] == [["1", "2"], ["2", "2"]]
    assert "all on so many" in text and "the plan takes 8.00 s" in text
    assert [line.split("│")[0].strip() for line in text.splitlines()[:2]] == ["core 0", "core 1"]
