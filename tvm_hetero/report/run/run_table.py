"""Measured beside planned: what a run took, segment by segment, and the page that shows both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.gantt import Mark
from tvm_hetero.report.schedule.html import Chart, Figure, HtmlTable, Page, Tone
from tvm_hetero.report.schedule.intervals import Interval, Traced, measured_intervals, span
from tvm_hetero.report.schedule.text import (
    PLACEMENT_HEADERS,
    bottleneck,
    placement_rows,
    plan_chart,
    proof,
)
from tvm_hetero.util.statistics import Statistics
from tvm_hetero.util.text_tables import table
from tvm_hetero.util.units import format_seconds


class TracedTasks(Traced, Protocol):
    """A traced step that knows the tasks it ran."""

    @property
    def tasks(self) -> tuple[str, ...]: ...

    @property
    def calls(self) -> tuple[tuple[str, int], ...]: ...


@dataclass(frozen=True)
class Difference:
    """How far outputs are from the reference's, at worst.

    `relative` is the largest difference in any output, divided by the largest magnitude in that
    output of the reference. (Each of 1000 softmax outputs is about 1e-3, so an absolute
    difference of 1e-3 would be no agreement at all.)
    """

    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"{self.absolute:.2g} ({self.relative:.2g} of the largest output)"


@dataclass(frozen=True)
class Comparison:
    """What was measured (s), by what ran: ``partition``, ``single``, ``onnxruntime``.

    `difference` is that of the outputs, `tolerance` the relative one that is allowed; None where
    nothing was compared. `note` is what a reader of the times must know.
    """

    measured: Mapping[str, Statistics]
    difference: Difference | None = None
    tolerance: float = 1e-3
    note: str = ""


def statistics_table(rows: Mapping[str, Statistics], what: str = "latency of") -> str:
    """Minimum, median, p90, p99 and maximum of several series of seconds."""
    headers = [what, "min", "median", "p90", "p99", "max", "runs"]
    return table(headers, [_statistics_row(name, each) for name, each in rows.items()])


def _statistics_row(name: str, each: Statistics) -> list[object]:
    figures = (each.min, each.median, each.p90, each.p99, each.max)
    return [name, *map(format_seconds, figures), each.count]


def segment_rows(trace: Iterable[TracedTasks], problem: Problem) -> list[list[str]]:
    """For each step of a run: device, its tasks, predicted and measured time, their ratio."""
    rows = []
    for step in sorted(trace, key=lambda step: step.start):
        if not math.isfinite(step.end):
            continue
        seconds = step.end - step.start
        predicted = _predicted(step, problem)
        known = predicted is not None and predicted > 0
        ratio = f"{seconds / predicted:.2f}" if predicted is not None and known else "-"
        what = step.name if len(step.tasks) < 2 else f"{step.tasks[0]} … {step.tasks[-1]}"
        count = str(len(step.tasks)) if step.tasks else "-"
        guess = format_seconds(predicted) if predicted is not None else "-"
        rows.append([what, count, step.device, guess, format_seconds(seconds), ratio])
    return rows


def _predicted(step: TracedTasks, problem: Problem) -> float | None:
    """Seconds that the cost model says for the calls of a step; None if it has none."""
    costs = [(problem.costs.get(task, {}).get(step.device), n) for task, n in step.calls]
    known = [cost.seconds(n) for cost, n in costs if cost is not None]
    return math.fsum(known) if step.calls and len(known) == len(costs) else None


SEGMENT_HEADERS = ("segment", "tasks", "device", "predicted", "measured", "measured / predicted")


def verdict(schedule: Schedule, measured: Mapping[str, Statistics]) -> tuple[str, Tone]:
    """What the measurement says of the partition, plainly, whichever way it went."""
    if "partition" not in measured or "single" not in measured:
        return "There was nothing to measure the partition against.", "plain"
    ours, alone = measured["partition"].median, measured["single"].median
    predicted = schedule.best_single_device
    device = predicted.device if predicted is not None else "one device"
    medians = f"{format_seconds(ours)} against {format_seconds(alone)}, medians"
    alone_on = f"the best single device ({device})"
    if ours < alone:
        ratio = f"{alone / ours:.2f} times as fast as {alone_on}"
        return f"The partition runs {ratio}: {medians}.", "good"
    return f"The partition does NOT beat {alone_on} when measured: {medians}.", "bad"


def run_page(
    problem: Problem,
    schedule: Schedule,
    trace: Sequence[TracedTasks],
    comparison: Comparison,
    seconds: Mapping[str, float],
    kernels: int | None = None,
) -> Page:
    """The page about a measured run: figures, the plan's chart above the measured one, tables."""
    text, tone = verdict(schedule, comparison.measured)
    measured = measured_intervals(trace)
    devices = ", ".join(problem.platform.names)
    figures = [
        Figure("tasks", str(len(problem.tasks)), f"{kernels} distinct kernels" if kernels else ""),
        Figure("devices", str(len(problem.platform.names)), devices),
        *_figures(schedule, comparison),
    ]
    tables = [
        HtmlTable("Latency", *_statistics(comparison.measured), note=comparison.note),
        HtmlTable("Steps", ["step", "time"], [[k, format_seconds(v)] for k, v in seconds.items()]),
        HtmlTable("Segments of the measured run", SEGMENT_HEADERS, segment_rows(trace, problem)),
        HtmlTable("Placement", PLACEMENT_HEADERS, placement_rows(schedule, problem)),
    ]
    return Page(
        title=f"{problem.name} on {devices}",
        subtitle=bottleneck(schedule, problem),
        verdict=text,
        tone=tone,
        figures=figures,
        charts=[
            plan_chart(schedule, problem, f"Placed and ordered by {schedule.solver}."),
            _measured_chart(measured),
        ],
        tables=tables,
        lanes=problem.platform.names,
    )


def _measured_chart(measured: Sequence[Interval]) -> Chart:
    marks = [Mark(f"fastest {format_seconds(span(measured))}", span(measured))]
    note = (
        "The fastest of some runs, on the same time scale; a bar is a segment (tasks that one "
        "device runs in a row), coloured by its longest task."
    )
    return Chart("Measured", measured, marks, note)


def _statistics(measured: Mapping[str, Statistics]) -> tuple[list[str], list[list[object]]]:
    headers = ["what ran", "min", "median", "p90", "p99", "max", "runs"]
    return headers, [_statistics_row(name, each) for name, each in measured.items()]


def _figures(schedule: Schedule, comparison: Comparison) -> list[Figure]:
    """Predicted and measured latency, bound, best single device, ONNX Runtime, difference."""
    measured, single = comparison.measured, schedule.best_single_device
    figures = []
    if "partition" in measured:
        value = format_seconds(measured["partition"].median)
        figures.append(Figure("latency, measured", value, "median of the partition"))
    figures.append(Figure("latency, predicted", format_seconds(schedule.value), schedule.solver))
    bound = format_seconds(schedule.lower_bound)
    figures.append(Figure("lower bound", bound, proof(schedule)))
    if "single" in measured:
        value = format_seconds(measured["single"].median)
        figures.append(Figure("best single device, measured", value, "median"))
    if single is not None:
        value = format_seconds(single.value)
        figures.append(Figure("best single device, predicted", value, single.device))
    if "onnxruntime" in measured:
        value = format_seconds(measured["onnxruntime"].median)
        figures.append(Figure("ONNX Runtime", value, "median, all cores of the platform"))
    if comparison.difference is not None:
        relative = f"{comparison.difference.relative:.2g}"
        note = f"{relative} of the largest output; {comparison.tolerance:.0e} is allowed"
        value = f"{comparison.difference.absolute:.2g}"
        figures.append(Figure("difference from ONNX Runtime", value, note))
    return figures
