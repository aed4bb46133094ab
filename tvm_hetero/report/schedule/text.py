"""What a schedule, and a problem, say to a reader: tables, a summary, a page.

Everything here only reads; whether a schedule is valid is `tvm_hetero.check`'s to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.graph import TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Robustness, Schedule
from tvm_hetero.report.schedule.core_rows import by_cores, core_lanes, widths_text
from tvm_hetero.report.schedule.format_value import format_value as format_value
from tvm_hetero.report.schedule.format_value import value_name as value_name
from tvm_hetero.report.schedule.gantt import Mark
from tvm_hetero.report.schedule.html import Chart, Figure, HtmlTable, Page
from tvm_hetero.report.schedule.intervals import (
    COPY,
    Interval,
    busy_seconds,
    group_by_lane,
    lane_order,
    overlap_seconds,
    plan_intervals,
    span,
)
from tvm_hetero.report.schedule.text_gantt import text_gantt
from tvm_hetero.util.text_tables import count_noun, format_table
from tvm_hetero.util.units import format_bytes, format_seconds


def format_gap(gap: float) -> str:
    """A gap as per cent; a tiny one is not rounded to a proof (``below 0.1 %``)."""
    if gap == 0:
        return "0 %"
    return "below 0.1 %" if gap < 0.001 else f"{gap:.1%}".replace("%", " %")


def device_table(platform: Platform) -> str:
    """The devices of a platform: where, what for, how large."""
    rows = [_device_row(device) for device in platform.devices]
    return format_table(["device", "node", "target", "cores", "memory", "overlap"], rows)


def _device_row(device: Device) -> list[str]:
    target = dict(device.target or {})
    kind = str(target.pop("kind", "-"))
    model = next((str(target[key]) for key in ("mcpu", "arch", "model") if key in target), "")
    return [
        device.name,
        device.node,
        f"{kind} {model}".strip(),
        ",".join(map(str, device.cores)) or "-",
        "unlimited" if device.memory is None else format_bytes(device.memory),
        "yes" if device.overlap else "no",
    ]


def link_table(platform: Platform) -> str:
    """The explicit links and the fabrics of a platform."""
    rows = [
        [f"{k.src} → {k.dst}", _rate(k.bandwidth), format_seconds(k.latency)]
        for k in platform.links
    ]
    for fabric in platform.fabrics:
        name = "network" if fabric.node is None else f"within {fabric.node}"
        rows.append([name, _rate(fabric.bandwidth), format_seconds(fabric.latency)])
    return format_table(["link", "bandwidth", "latency"], rows)


def _rate(rate: float) -> str:
    return "unlimited" if math.isinf(rate) else f"{format_bytes(rate)}/s"


def problem_text(problem: Problem) -> str:
    """A problem in a few lines and tables: size, work by device, critical path."""
    graph = problem.graph
    moved = sum(tensor.bytes for tensor in graph.tensors.values())
    weights = sum(task.weight_bytes for task in graph.tasks)
    path, seconds = critical_path(problem)
    rows = []
    for device in problem.platform.names:
        able = [t.id for t in graph.tasks if device in problem.costs[t.id]]
        work = math.fsum(problem.seconds(task, device, problem.batch) for task in able)
        rows.append([device, len(able), format_seconds(work)])
    objective = problem.objective
    return "\n".join(
        [
            format_table(
                ["problem", problem.name],
                [
                    ["objective", f"{objective.kind}, batch {objective.batch}"],
                    ["tasks", f"{len(graph)}, joined by {count_noun(len(graph.edges), 'edge')}"],
                    ["tensors", f"{len(graph.tensors)} between tasks, {format_bytes(moved)}"],
                    ["weights", format_bytes(weights)],
                    [
                        "critical path",
                        f"{count_noun(len(path), 'task')}, {format_seconds(seconds)}",
                    ],
                ],
            ),
            "",
            format_table(["device", "tasks that it can run", "alone, all of them"], rows),
            "",
            "The critical path takes every task on its fastest device and copies for free.",
        ]
    )


def critical_path(problem: Problem) -> tuple[list[str], float]:
    """The longest path of tasks, each on its fastest device, without copies; and its seconds."""
    graph: TaskGraph = problem.graph
    fastest = {
        task.id: min(problem.seconds(task.id, d, problem.batch) for d in problem.costs[task.id])
        for task in graph.tasks
    }
    finish: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for task in graph.topological_order:
        latest = max(graph.predecessors[task], key=lambda p: finish[p], default=None)
        before[task] = latest
        finish[task] = fastest[task] + (finish[latest] if latest is not None else 0.0)
    end: str | None = max(graph.topological_order, key=lambda t: finish[t])
    seconds = finish[end] if end is not None else 0.0
    path = []
    while end is not None:
        path.append(end)
        end = before[end]
    return path[::-1], seconds


def schedule_text(schedule: Schedule, problem: Problem | None = None, width: int = 100) -> str:
    """A schedule as text: chart, load of every device, value, bound, gap, best single device."""
    plan = _rows(schedule, problem)
    lanes = plan_lanes(schedule, problem)
    teams = problem is not None and bool(problem.platform.cliques)
    return "\n".join(
        [
            text_gantt(plan, lanes, width),
            "",
            load_table(plan, lanes),
            "",
            *([widths_text(schedule, problem), ""] if problem is not None and teams else []),
            summary_text(schedule),
            _bottleneck(plan, lanes),
        ]
    )


def _rows(schedule: Schedule, problem: Problem | None) -> list[Interval]:
    """The intervals of a plan; those of teams on the rows of their cores."""
    plan = plan_intervals(schedule, problem)
    return plan if problem is None else by_cores(plan, problem.platform)


def plan_lanes(schedule: Schedule, problem: Problem | None) -> list[str]:
    """The rows of a plan's chart that are there in any case: its devices, or their cores."""
    if problem is not None:
        return core_lanes(problem.platform)
    return sorted({run.device for run in schedule.executions})


def load_table(intervals: Sequence[Interval], devices: Sequence[str]) -> str:
    """Executions or copies, busy time and share of the whole time of every lane."""
    total = span(intervals) or 1.0
    rows, lanes = [], group_by_lane(intervals)
    for lane in lane_order(intervals, devices):
        own = lanes.get(lane, [])
        busy, count = busy_seconds(own, lane), len(own)
        share = f"{busy / total:.0%}".replace("%", " %")
        does = (
            count_noun(count, "execution")
            if lane in devices
            else count_noun(count, "copy", "copies")
        )
        rows.append([lane, does, format_seconds(busy), share])
    return format_table(["lane", "does", "busy", "share"], rows)


def summary_text(schedule: Schedule) -> str:
    """Value, lower bound, gap and best single device, one a line."""
    kind = schedule.kind
    rows = [
        [f"predicted {value_name(kind)}", format_value(kind, schedule.value), schedule.solver],
        ["lower bound", format_value(kind, schedule.lower_bound), describe_proof(schedule)],
    ]
    single = schedule.best_single_device
    if single is None:
        rows.append(["best single device", "-", "no device can do it alone"])
    else:
        value = format_value(kind, single.value)
        rows.append(
            ["best single device", value, f"{single.device}: {compare_with_single(schedule)}"]
        )
    return format_table(["figure", "value", "from"], rows + robust_rows(schedule))


def robust_rows(schedule: Schedule) -> list[list[str]]:
    """Mean and worst value over costs that are off, if the schedule says them."""
    robust, kind = schedule.robust, schedule.kind
    if robust is None:
        return []
    source = f"costs off by up to {100 * robust.perturbation:g} %, {robust.samples} samples"
    if robust.late:
        source += f", {robust.late} beyond the latency limit"
    return [
        [f"mean {value_name(kind)}", format_value(kind, robust.mean), source],
        [f"worst {value_name(kind)}", format_value(kind, robust.worst), _loss(schedule, robust)],
    ]


def _loss(schedule: Schedule, robust: Robustness) -> str:
    if schedule.value <= 0:
        return "the plan takes nothing"
    return f"{100 * (robust.worst / schedule.value - 1):+.1f} % of what is predicted"


def describe_proof(schedule: Schedule) -> str:
    """What is known of a schedule's quality: ``proven optimal``, or its gap."""
    optimal = schedule.status == "optimal"
    return "proven optimal" if optimal else f"gap {format_gap(schedule.gap)}"


def compare_with_single(schedule: Schedule) -> str:
    """The schedule beside the best single device, in words."""
    single = schedule.best_single_device
    if single is None or schedule.value <= 0:
        return "nothing to compare with"
    ratio = single.value / schedule.value
    if ratio <= 1.0 + 1e-9:
        return "the plan is not better than this one device"
    return f"the plan is {ratio:.2f} times as good"


def name_bottleneck(schedule: Schedule, problem: Problem | None = None) -> str:
    """One sentence that names the busiest device or link."""
    return _bottleneck(_rows(schedule, problem), plan_lanes(schedule, problem))


def _bottleneck(plan: Sequence[Interval], devices: Sequence[str]) -> str:
    """The same of the intervals of a plan."""
    total = span(plan)
    if total <= 0:
        return "Nothing takes any time."
    grouped = group_by_lane(plan)
    busy = {lane: busy_seconds(grouped.get(lane, []), lane) for lane in lane_order(plan, devices)}
    busiest = max(busy, key=lambda lane: busy[lane])
    text = f"Bottleneck: {busiest}, busy for {busy[busiest] / total:.0%} of the time"
    both = overlap_seconds(plan, devices) / total
    return f"{text}; several devices work at once for {both:.0%}.".replace("%", " %")


def placement_rows(schedule: Schedule, problem: Problem | None = None) -> list[list[str]]:
    """For every task in order of start: task, kind, devices, predicted time."""
    rows: dict[str, list[str]] = {}
    times: dict[str, list[float]] = {}
    placement = schedule.placement
    for interval in sorted(plan_intervals(schedule, problem), key=lambda i: (i.start, i.end)):
        if interval.kind != COPY:
            times.setdefault(interval.name, []).append(interval.seconds)
            devices = ", ".join(placement[interval.name])
            rows.setdefault(interval.name, [interval.name, interval.kind, devices])
    return [[*row, format_seconds(math.fsum(times[task]))] for task, row in rows.items()]


PLACEMENT_HEADERS = ("task", "kind", "device", "predicted")


def plan_chart(schedule: Schedule, problem: Problem | None, note: str = "") -> Chart:
    """The plan as a chart, with its value and lower bound (objectives of time only)."""
    marks: list[Mark] = []
    if schedule.kind in {"latency", "throughput"}:
        bound, value = schedule.lower_bound, schedule.value
        marks.append(Mark(f"lower bound {format_seconds(bound)}", bound, "bound"))
        marks.append(Mark(f"predicted {format_seconds(value)}", value))
    return Chart("Plan", _rows(schedule, problem), marks, note)


def plan_figures(schedule: Schedule) -> list[Figure]:
    """The figures that a plan alone gives: value, bound, best single device."""
    kind = schedule.kind
    figures = [
        Figure(
            f"predicted {value_name(kind)}", format_value(kind, schedule.value), schedule.solver
        ),
        Figure("lower bound", format_value(kind, schedule.lower_bound), describe_proof(schedule)),
    ]
    single = schedule.best_single_device
    if single is not None:
        value = format_value(kind, single.value)
        figures.append(Figure("best single device", value, f"{single.device}, predicted"))
    return figures


def plan_page(schedule: Schedule, problem: Problem | None = None) -> Page:
    """A page about a schedule alone."""
    name = problem.name if problem is not None else "schedule"
    return Page(
        title=f"{name}: plan for {schedule.kind}",
        subtitle=name_bottleneck(schedule, problem),
        figures=plan_figures(schedule),
        charts=[plan_chart(schedule, problem)],
        tables=[HtmlTable("Placement", PLACEMENT_HEADERS, placement_rows(schedule, problem))],
        lanes=plan_lanes(schedule, problem),
    )
