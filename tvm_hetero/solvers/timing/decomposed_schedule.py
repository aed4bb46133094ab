"""A schedule taken apart again: its division, placement and order, ready to be timed again.

What `timing.to_schedule` writes, `read_plan` reads back, for every search that begins from a
schedule. `replay` serves whoever asks what a given plan would do if something were different:
shorter tasks (`report.schedule.explain`), perturbed costs (`robust`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.timing.timing import TimedPlan, make_plan, retime
from tvm_hetero.views.instance import Division, Instance


@dataclass(frozen=True)
class Replay:
    """A schedule as instance, plan and the (start, end) of every activity of the plan, s."""

    instance: Instance
    plan: TimedPlan
    keys: list[tuple[float, float]]

    def starts(self, duration: Callable[[int], float] | None = None) -> list[float]:
        """Earliest starts in the same order; `duration` of an activity instead of its own, s."""
        return retime(self.plan, self.keys, duration)

    def makespan(self, duration: Callable[[int], float] | None = None) -> float:
        """When the last execution ends, with every activity as early as its order allows, s."""
        length = duration or self.plan.seconds
        starts = self.starts(duration)
        return max(starts[v] + length(v) for v in range(len(self.instance)))


def division_of(schedule: Schedule) -> Division:
    """How a schedule divides the batch of every task; parts by their first element."""
    division: dict[str, list[tuple[int, ...]]] = {}
    for execution in schedule.executions:
        division.setdefault(execution.task, []).append(execution.elements)
    return {task: sorted(parts) for task, parts in division.items()}


def replay(problem: Problem, schedule: Schedule, *, perturbed: Problem | None = None) -> Replay:
    """Read a valid schedule of `problem` back.

    Parameters
    ----------
    perturbed : the same problem with other costs, by which the replay is then timed.
    """
    instance = Instance(perturbed or problem, division_of(schedule))
    found = read_plan(instance, schedule)
    assert found is not None, "the division is the schedule's own"
    return Replay(instance, *found)


def read_plan(
    instance: Instance, schedule: Schedule
) -> tuple[TimedPlan, list[tuple[float, float]]] | None:
    """The plan of a valid schedule, and the (start, end) of its activities, s.

    None if the schedule divides the batch otherwise than the instance.
    """
    device = instance.problem.platform.index
    # Parts of a task have no element in common.
    number = {(instance.tasks[v], min(own)): v for v, own in enumerate(instance.elements)}
    if len(schedule.executions) != len(instance):
        return None
    placement = [0] * len(instance)
    keys = [(0.0, 0.0)] * len(instance)
    for e in schedule.executions:
        v = number.get((e.task, min(e.elements)))
        if v is None or sorted(e.elements) != sorted(instance.elements[v]):
            return None
        placement[v], keys[v] = device[e.device], (e.start, e.end)
    times = {
        (c.tensor, min(c.elements), device[c.src], device[c.dst]): (c.start, c.end)
        for c in schedule.copies
    }
    plan = make_plan(instance, placement)
    for t, (a, b) in plan.hops:
        flow = instance.tensors[t]
        keys.append(times[flow.name, min(instance.elements[flow.maker]), a, b])
    return plan, keys
