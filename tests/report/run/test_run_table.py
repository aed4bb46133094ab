from __future__ import annotations

import math
from dataclasses import dataclass

from tests.report import samples
from tvm_hetero.report.run.run_table import (
    Comparison,
    Difference,
    run_page,
    segment_rows,
    statistics_table,
    verdict,
)
from tvm_hetero.report.schedule.html import report_html
from tvm_hetero.util.statistics import Statistics, summarize


@dataclass(frozen=True)
class Step:
    name: str
    device: str
    start: float
    end: float
    kind: str
    tasks: tuple[str, ...]
    run_by: str = ""

    @property
    def calls(self) -> tuple[tuple[str, int], ...]:
        return tuple((task, 1) for task in self.tasks)


TRACE = [
    Step("a, b", "big", 0.0, 6e-3, "conv2d", ("a", "b")),
    Step("c", "little", 2e-3, 5e-3, "max_pool2d", ("c",)),
    Step("a: big>little", "little.copy", 1e-3, 2e-3, "copy", ()),
    Step("skipped", "big", math.nan, math.nan, "", ("b",)),
]


def measured(**milliseconds: float) -> dict[str, Statistics]:
    return {name: summarize([ms * 1e-3]) for name, ms in milliseconds.items()}


def test_segments_beside_their_predictions() -> None:
    assert segment_rows(TRACE, samples.problem()) == [
        ["a … b", "2", "big", "5.00 ms", "6.00 ms", "1.20"],
        ["a: big>little", "-", "little.copy", "-", "1.00 ms", "-"],
        ["c", "1", "little", "3.00 ms", "3.00 ms", "1.00"],
    ]


def test_verdict_says_plainly_who_won() -> None:
    schedule = samples.schedule()
    won, tone = verdict(schedule, measured(partition=5, single=8))
    assert tone == "good" and "1.60 times as fast" in won and "big" in won
    lost, tone = verdict(schedule, measured(partition=9, single=8))
    assert tone == "bad" and "does NOT beat" in lost and "9.00 ms against 8.00 ms" in lost
    assert verdict(schedule, measured(partition=9))[1] == "plain"


def test_statistics_table_has_a_row_for_each() -> None:
    lines = statistics_table(measured(partition=5, single=8)).splitlines()
    assert lines[0].split() == ["latency", "of", "min", "median", "p90", "p99", "max", "runs"]
    assert [line.split()[0] for line in lines[2:]] == ["partition", "single"]


def test_page_has_plan_above_measured_and_every_figure() -> None:
    problem = samples.problem()
    times = measured(partition=6, single=8, onnxruntime=7)
    comparison = Comparison(times, Difference(1.5e-7, 1e-5))
    page = run_page(problem, samples.schedule(problem), TRACE, comparison, {"Solve": 0.5}, 3)
    assert [chart.title for chart in page.charts] == ["Plan", "Measured"]
    text = report_html(page)
    for piece in (
        "6.00 ms",
        "8.00 ms",
        "7.00 ms",
        "gap 20.0 %",
        "1.5e-07",
        "3 distinct kernels",
        "Solve",
        "500 ms",
        "1.33 times as fast",
    ):
        assert piece in text
