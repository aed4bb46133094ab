"""From a MILP's solution to a schedule with exact times.

Only decisions are taken from a solver: which candidates take place, where, with which elements,
and what comes before what. They are written as arcs between the activities of `timing.make_plan`

    data flow           start(b) >= end(a)     always, by the plan
    before[a, b] = 1    start(b) >= end(a)     where both occupy something
    gone[A, i] = 1      start(i) >= end of all that uses A
    first[a, b] = 1     start(b) >= start(a)

and the earliest starts that keep all arcs are their longest paths, in exact seconds
(`earliest_starts`). Should tolerances have let a circle through, the solver's own times give the
order instead. So no tolerance reaches a schedule; a memory limit that is missed by so little that
a solver cannot see it is found by looking (`fits`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.solvers.milp.disjunctions import Orders
from tvm_hetero.solvers.milp.memory import MemoryRows
from tvm_hetero.solvers.milp.placement import Placement
from tvm_hetero.solvers.milp.timing import Key, TimingConstraints
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.solvers.timing.timing import (
    TimedPlan,
    has_empty_lives,
    make_plan,
    retime,
    to_schedule,
)
from tvm_hetero.views.instance import Instance

Timed = tuple[tuple[Execution, ...], tuple[Copy, ...]]
Arc = tuple[int, int, bool]


def read_schedule(orders: Orders, memory: MemoryRows, values: list[float]) -> Timed | None:
    """The schedule that a solution decides on; None if it overflows a memory after all."""
    timing, placement = orders.timing, orders.placement
    instance, places, candidate = _parts(placement, values)
    plan = make_plan(instance, places)
    number = _numbers(placement, plan, candidate)
    arcs: list[Arc] = [(a, b, True) for b, row in enumerate(plan.before) for a in row]
    pairs = [(a, b, True) for a, b in _ordered(orders, values)]
    for a, b, whole in pairs + memory.arcs(values):
        if a in number and b in number:
            arcs.append((number[a], number[b], whole))
    starts = earliest_starts(plan, arcs)
    if starts is None:
        starts = _believed(timing, plan, number, values)
    keys = [(s, s + plan.seconds(i)) for i, s in enumerate(starts)]
    if not has_empty_lives(plan, keys):
        starts = retime(plan, keys)
    timed = to_schedule(plan, starts)
    return timed if fits(instance.problem, *timed) else None


def read_period(placement: Placement, values: list[float]) -> Timed | None:
    """The period that a solution decides on; None if it overflows a memory after all."""
    instance, places, _ = _parts(placement, values)
    timed = write_period(instance, places)
    return timed if fits(instance.problem, *timed) else None


def fits(problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]) -> bool:
    """Whether no device needs more memory than it has."""
    peaks = memory_peaks(problem, executions, copies)
    limits = {device.name: device.memory for device in problem.platform.devices}
    return all((limits[name] or 0) >= peak or limits[name] is None for name, peak in peaks.items())


def earliest_starts(plan: TimedPlan, arcs: Sequence[Arc]) -> list[float] | None:
    """The least starts that keep all arcs, s; None if the arcs form a circle that takes time."""
    starts = [0.0] * len(plan)
    seconds = [plan.seconds(a) for a in range(len(plan))]
    # A longest path has fewer arcs than there are activities; circles without length are fine.
    for _ in range(len(plan) + 1):
        changed = False
        for a, b, whole in arcs:
            ready = starts[a] + seconds[a] if whole else starts[a]
            if ready > starts[b]:
                starts[b], changed = ready, True
        if not changed:
            return starts
    return None


def _parts(placement: Placement, values: list[float]) -> tuple[Instance, list[int], list[int]]:
    """The instance whose parts are the chosen executions, their devices, their candidates."""
    rows = placement.candidates.rows
    chosen: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
    for (e, mode), z in placement.z.items():
        if z.value(values) > 0.5:
            mine = [n for n in rows[e].elements if placement.has[e, n].value(values) > 0.5]
            chosen[rows[e].task, tuple(mine)] = (mode.device, e)
    instance = placement.instance
    if placement.candidates.kind == "whole":
        by_task = {v: row for (v, _), row in chosen.items()}
        tasks = range(len(instance))
        return instance, [by_task[v][0] for v in tasks], [by_task[v][1] for v in tasks]
    division: dict[str, list[tuple[int, ...]]] = {}
    for v, elements in sorted(chosen):
        division.setdefault(instance.tasks[v], []).append(elements)
    parts = Instance(instance.problem, {task: tuple(row) for task, row in division.items()})
    picked = [chosen[parts.task_of[p], tuple(parts.elements[p])] for p in range(len(parts))]
    return parts, [d for d, _ in picked], [e for _, e in picked]


def _numbers(placement: Placement, plan: TimedPlan, candidate: list[int]) -> dict[Key, int]:
    """The plan's number of every activity of the model that takes place."""
    number: dict[Key, int] = {(e,): p for p, e in enumerate(candidate)}
    names = {flow.name: t for t, flow in enumerate(placement.instance.tensors)}
    for i, (t, hop) in enumerate(plan.hops, start=len(candidate)):
        flow = plan.instance.tensors[t]
        number[candidate[flow.maker], names[flow.name], hop] = i
    return number


def _ordered(orders: Orders, values: list[float]) -> list[tuple[Key, Key]]:
    """The pairs that `before` orders and that are in each other's way."""
    found = []
    for (a, b), literal in orders.before.items():
        if literal.value(values) > 0.5:
            mine, other = (orders.timing.activities[key].occupies for key in (a, b))
            shared = sorted(mine.keys() & other.keys())
            if any(mine[r].value(values) > 0.5 and other[r].value(values) > 0.5 for r in shared):
                found.append((a, b))
    return found


def _believed(
    timing: TimingConstraints, plan: TimedPlan, number: dict[Key, int], values: list[float]
) -> list[float]:
    """The solver's own starts, s; hops without variables follow their maker."""
    starts = [0.0] * len(plan)
    for key, activity in timing.activities.items():
        if key in number:
            starts[number[key]] = activity.start.value(values) * timing.unit
    for i, (t, _) in enumerate(plan.hops, start=len(plan.instance)):
        maker = plan.instance.tensors[t].maker
        starts[i] = max(starts[i], starts[maker] + plan.seconds(maker))
    return starts
