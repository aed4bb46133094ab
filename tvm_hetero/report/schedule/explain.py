"""Why a schedule takes as long as it does: what waits for what, and what would help.

The critical path and idle time by cause come from `idle_time`. What helps is found by trying:
the same placement and order, timed again with one task of the path (all tasks of a device, all
copies) a tenth shorter (`solvers.timing.decomposed_schedule.replay`), and what the value loses.

A throughput schedule has a period instead of a path: its value is the load of the busiest device
or link, so the path is what that one does, and what helps is what it does longest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import (
    Resource,
    charge,
    list_engaged,
    list_occupied,
    loads,
    objective_value,
)
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.idle_time import (
    BUSY,
    CAUSES,
    DONE,
    Activity,
    Idle,
    IdleStep,
    Waits,
    step_of,
)
from tvm_hetero.solvers.timing.decomposed_schedule import Replay, replay

# By how much a task is made shorter to see what that gives.
FASTER = 0.1
# Tasks of the critical path that are tried, the longest first.
_TRIED = 40


@dataclass(frozen=True)
class Help:
    """`what`, a tenth faster, makes the value smaller by `saved`."""

    what: str
    saved: float


@dataclass(frozen=True)
class Explanation:
    """All of the above for one schedule; the path from its first step to its last."""

    path: tuple[IdleStep, ...]
    idle: tuple[Idle, ...]
    helps: tuple[Help, ...]


def explain(problem: Problem, schedule: Schedule) -> Explanation:
    """Explain a valid schedule of `problem`."""
    if problem.objective.kind == "throughput":
        return _explain_period(problem, schedule)
    waits = Waits(problem, schedule)
    path = waits.critical_path()
    idle = tuple(waits.idle(name) for name in problem.platform.names)
    helps = _helps(problem, schedule, path)
    return Explanation(path, idle, helps)


def _helps(problem: Problem, schedule: Schedule, path: Sequence[IdleStep]) -> tuple[Help, ...]:
    """What the value loses if a task of the path, a device or all copies are a tenth faster."""
    again = replay(problem, schedule)
    base = _value(problem, schedule, again, set(), ())
    on_path = sorted({s.name: s for s in path if not s.copy}.values(), key=_longest)
    trials: list[tuple[str, set[str], tuple[str, ...]]] = [
        (f"task {step.name}", {step.name}, ()) for step in on_path[:_TRIED]
    ]
    used = sorted({e.device for e in schedule.executions})
    trials += [(f"all tasks on {device}", set(), (device,)) for device in used]
    if schedule.copies:
        trials.append(("all copies", set(), ("",)))
    helps = [
        Help(what, max(0.0, base - _value(problem, schedule, again, tasks, devices)))
        for what, tasks, devices in trials
    ]
    return tuple(sorted(helps, key=lambda h: (-h.saved, h.what)))


def _longest(step: IdleStep) -> tuple[float, str]:
    return (step.start - step.end, step.name)


def _value(
    problem: Problem, schedule: Schedule, again: Replay, tasks: set[str], devices: tuple[str, ...]
) -> float:
    """The value with some tasks, devices or ("") all copies a tenth faster."""
    instance, plan = again.instance, again.plan
    n = len(instance)

    def factor(activity: int) -> float:
        if activity >= n:
            return 1 - FASTER if "" in devices else 1.0
        place = instance.names[plan.placement[activity]]
        return 1 - FASTER if instance.tasks[activity] in tasks or place in devices else 1.0

    end = again.makespan(lambda a: plan.seconds(a) * factor(a))
    if problem.objective.kind == "latency":
        return end
    rows = zip(instance.tasks, instance.elements, plan.placement, strict=True)
    extra = math.fsum(
        problem.extra_joules(task, instance.names[d], len(elements)) * factor(v)
        for v, (task, elements, d) in enumerate(rows)
        if problem.objective.kind == "energy"
    )
    if instance.teams:
        return _team_price(problem, again, end, factor) + extra
    busy: dict[str, list[float]] = {name: [] for name in instance.names}
    used: set[str] = set()
    for activity in range(len(plan)):
        for place in _places(again, activity):
            used.add(place)
        for resource in plan.resources(activity):
            if resource < len(instance.names):
                busy[instance.names[resource]].append(plan.seconds(activity) * factor(activity))
    price = _price(problem, end, {name: math.fsum(busy[name]) for name in sorted(used)})
    return price + extra


def _team_price(
    problem: Problem, again: Replay, end: float, factor: Callable[[int], float]
) -> float:
    """Energy or cost where cores are shared: idling and prices are counted by core."""
    plan, n = again.plan, len(again.instance)
    busy: dict[Resource, float] = {}
    for activity in range(len(plan)):
        ends = _places(again, activity)
        engaged = [what for name in ends for what in list_engaged(problem.platform, name)]
        if activity >= n:
            link = problem.platform.link(*ends)
            engaged = list_occupied(problem, link) if link is not None else []
        for what in dict.fromkeys([*ends, *engaged]):
            busy.setdefault(what, 0.0)
        for what in dict.fromkeys(engaged):
            busy[what] += plan.seconds(activity) * factor(activity)
    return charge(problem, end, busy)


def _places(again: Replay, activity: int) -> tuple[str, ...]:
    """The devices that an activity makes use of."""
    names, n = again.instance.names, len(again.instance)
    if activity < n:
        return (names[again.plan.placement[activity]],)
    return tuple(names[d] for d in again.plan.hops[activity - n][1])


def _price(problem: Problem, end: float, busy: dict[str, float]) -> float:
    """Energy or cost of devices in use for so long (rule 7)."""
    total: list[float] = []
    for name, seconds in busy.items():
        device = problem.platform.device(name)
        if problem.objective.kind == "cost":
            total.append((device.price or 0.0) / 3600 * end)
        else:
            total.append((device.watts or 0.0) * seconds + device.idle_watts * (end - seconds))
    return math.fsum(total)


def _explain_period(problem: Problem, schedule: Schedule) -> Explanation:
    """A period: what the busiest device or link does, and how the others spend the time."""
    value = objective_value(problem, schedule.executions, schedule.copies)
    load = loads(problem, schedule.executions, schedule.copies)
    busiest = max(load, key=lambda r: (load[r], str(r)), default="")
    second = max((s for r, s in load.items() if r != busiest), default=0.0)
    steps: list[IdleStep] = []
    idle = []
    for name in problem.platform.names:
        mine = [e for e in schedule.executions if e.device == name]
        computes = math.fsum(e.end - e.start for e in mine)
        copies = load.get(name, 0.0) - computes
        causes = dict.fromkeys(CAUSES, 0.0) | {DONE: max(0.0, value - load.get(name, 0.0))}
        idle.append(Idle(name, computes, max(0.0, copies), causes))
    everything: list[Activity] = [*schedule.executions, *schedule.copies]
    waits = Waits(problem, schedule)
    steps += [step_of(a, BUSY) for a in everything if busiest in waits.occupies(a)]
    saved: dict[str, float] = {}
    for step in steps:
        what = ("copy of " if step.copy else "task ") + step.name
        saved[what] = saved.get(what, 0.0) + FASTER * (step.end - step.start)
    helps = [Help(what, min(seconds, value - second)) for what, seconds in saved.items()]
    steps.sort(key=lambda s: (s.start, s.end, s.name))
    helps.sort(key=lambda h: (-h.saved, h.what))
    return Explanation(tuple(steps), tuple(idle), tuple(helps))
