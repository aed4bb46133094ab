"""A throughput placement written out as one period of its steady state.

In steady state a period needs no precedence: what a task reads was made some periods before.
So executions and hops only have to be laid side by side on everything that they occupy: hops
first, longest first, each into the earliest gap that all its ends have in common. With at most
two devices that lack a copy engine this always fits within the largest load, which is the value.

With three it may not: hops a -> b, b -> c and c -> a of one second exclude each other and take
three, though each device has a load of two. The period is the largest load by definition (rule 7),
so then the executions go first, back to back, and hops that stick out are moved back inside.

Of teams, the executions on most cores go first: where teams are nested or apart, all cores of one
are then free at the same time, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.score import value_of
from tvm_hetero.solvers.timing.timeline import Timeline, earliest
from tvm_hetero.solvers.timing.timing import TimedPlan, make_plan, to_schedule
from tvm_hetero.views.instance import Instance


def write_period(
    instance: Instance, placement: Sequence[int]
) -> tuple[tuple[Execution, ...], tuple[Copy, ...]]:
    """Executions and copies of one period (see the head of this file)."""
    plan = make_plan(instance, placement)
    executions, copies = to_schedule(plan, _pack(plan, hops_first=True))
    period = value_of(instance.problem, executions, copies)
    if max(e.end for e in executions) > period * (1 + 1e-12):
        executions, copies = to_schedule(plan, _pack(plan, hops_first=False))
    return executions, tuple(_moved_back(copy, period) for copy in copies)


def placement_of(instance: Instance, schedule: Schedule | None) -> list[int] | None:
    """The device of every part; None of no schedule, and of one that divides the batch."""
    if schedule is None or len(schedule.executions) != len(instance):
        return None
    index, device = instance.problem.graph.index, instance.problem.platform.index
    placement = [0] * len(instance)
    for e in schedule.executions:
        placement[index[e.task]] = device[e.device]
    return placement


def _pack(plan: TimedPlan, *, hops_first: bool) -> list[float]:
    """Start times without precedence, s."""
    n = len(plan.instance)
    hopped = {r for activity in range(n, len(plan)) for r in plan.resources(activity)}
    ends = [0.0] * len(plan.instance.names)
    lines: dict[int, Timeline] = {}
    starts = [0.0] * len(plan)
    cores = plan.instance.cores
    alone = [row == (d,) and d not in hopped for d, row in enumerate(cores)]

    def turn(a: int) -> tuple[bool, int, float, int]:
        width = len(cores[plan.placement[a]]) if a < n else 0
        return (a < n) == hops_first, -width, -plan.seconds(a), a

    for activity in sorted(range(len(plan)), key=turn):
        if activity < n and alone[plan.placement[activity]]:
            # No gaps: one behind the other, and what takes no time at 0.
            device, seconds = plan.placement[activity], plan.seconds(activity)
            starts[activity] = ends[device] if seconds > 0 else 0.0
            ends[device] += seconds
            continue
        mine = [lines.setdefault(r, Timeline()) for r in plan.resources(activity)]
        seconds = plan.seconds(activity)
        starts[activity] = earliest(mine, 0.0, seconds)
        for line in mine:
            line.join(starts[activity], starts[activity] + seconds)
    return starts


def _moved_back(copy: Copy, period: float) -> Copy:
    """The copy inside [0, period]; from 0 on if it is longer (it then occupies nothing)."""
    late = min(copy.start, copy.end - period)
    return replace(copy, start=copy.start - late, end=copy.end - late) if late > 0 else copy
