"""A schedule taken apart again: its division, placement and order, ready to be timed again.

What `timing.to_schedule` writes, `replay` reads back. It serves whoever asks what a given plan
would do if something were different: shorter tasks (`report.schedule.explain`), perturbed costs
(`robust`).
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
    device = problem.platform.index
    instance = Instance(perturbed or problem, division_of(schedule))
    index = {
        (task, elements): v
        for v, (task, elements) in enumerate(zip(instance.tasks, instance.elements, strict=True))
    }
    placement = [0] * len(instance)
    keys = [(0.0, 0.0)] * len(instance)
    for e in schedule.executions:
        v = index[e.task, e.elements]
        placement[v], keys[v] = device[e.device], (e.start, e.end)
    times = {
        (c.tensor, c.elements, device[c.src], device[c.dst]): (c.start, c.end)
        for c in schedule.copies
    }
    plan = make_plan(instance, placement)
    for t, (a, b) in plan.hops:
        flow = instance.tensors[t]
        keys.append(times[flow.name, instance.elements[flow.maker], a, b])
    return Replay(instance, plan, keys)
