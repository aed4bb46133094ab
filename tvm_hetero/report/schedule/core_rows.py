"""Plans on teams of cores: a row for every core, and what widths the plan makes use of.

A device that shares cores is no row of a chart: its bars reach across the rows of its cores. All
other devices keep their rows. Below, *width* is the number of cores of such a device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tvm_hetero.errors import HeteroError
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.teams import NodeCore
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.format_value import format_value
from tvm_hetero.report.schedule.intervals import Interval
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists import greedy, heft, work_area
from tvm_hetero.util.text_tables import count_noun, format_table
from tvm_hetero.util.units import format_seconds


def core_lanes(platform: Platform) -> list[str]:
    """The rows of a chart: cores that are shared, then the devices that share none."""
    cores = sorted({core for row in platform.team_cores.values() for core in row})
    rest = [name for name in platform.names if name not in platform.team_cores]
    return [_lane(platform, core) for core in cores] + rest


def by_cores(intervals: Iterable[Interval], platform: Platform) -> list[Interval]:
    """The intervals of a plan, those of teams on the rows of their cores."""
    found = []
    for interval in intervals:
        lanes = [_lane(platform, core) for core in platform.team_cores.get(interval.lane, ())]
        if lanes:
            where = f"on {interval.lane}, {count_noun(len(lanes), 'core')}"
            detail = ", ".join(filter(None, [interval.detail, where]))
            interval = replace(interval, lane=lanes[0], also=tuple(lanes[1:]), detail=detail)
        found.append(interval)
    return found


def _lane(platform: Platform, core: NodeCore) -> str:
    nodes = {node for row in platform.team_cores.values() for node, _ in row}
    return f"core {core[1]}" if len(nodes) < 2 else f"{core[0]} core {core[1]}"


def widths_text(schedule: Schedule, problem: Problem) -> str:
    """How much of the work ran at which width, and what one width for all would have given."""
    platform = problem.platform
    seconds: dict[int, list[float]] = {}
    for e in schedule.executions:
        width = len(platform.team_cores.get(e.device, ()))
        seconds.setdefault(width, []).append(e.end - e.start)
    work = {width: width * math.fsum(row) for width, row in seconds.items()}
    whole = math.fsum(own for width, own in work.items() if width) or 1.0
    rows = []
    for width in widths_of(platform):
        own = seconds.get(width, [])
        share = f"{work.get(width, 0.0) / whole:.0%}".replace("%", " %")
        rows.append([width, len(own), format_seconds(math.fsum(own)), share,
                     _fixed(schedule, problem, width)])  # fmt: skip
    head = ["cores", "executions", "seconds", "of the core-seconds", "all on so many"]
    value = format_value(schedule.kind, schedule.value)
    note = f"(one width for all: the best of some lists of tasks; the plan takes {value})"
    return format_table(head, rows) + "\n" + note


def _fixed(schedule: Schedule, problem: Problem, width: int) -> str:
    value = fixed_width_value(problem, width)
    return "-" if value is None else format_value(schedule.kind, value)


def fixed_width_value(problem: Problem, width: int) -> float | None:
    """The best of some list schedules with every team as wide as that; None where none can be.

    Devices that share no core are used as they are.
    """
    cores = problem.platform.team_cores
    usable = {name for name in problem.platform.names if len(cores.get(name, ())) in (0, width)}
    costs = {
        task: {name: cost for name, cost in row.items() if name in usable}
        for task, row in problem.costs.items()
    }
    if not all(costs.values()):
        return None
    fixed, found = replace(problem, costs=costs), []
    for solver in (heft.solve, greedy.solve, work_area.solve):
        try:
            found.append(solver(fixed, Options()).value)
        except HeteroError:
            continue
    return min(found, default=None)


def widths_of(platform: Platform) -> Sequence[int]:
    """The widths that there are, rising."""
    return sorted({len(cores) for cores in platform.team_cores.values()})
