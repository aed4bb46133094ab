"""What each device alone takes at least: which of them is worth a schedule, and which is not.

A device alone does its tasks one after the other, each for the whole batch at once or element by
element. With n elements in a batch and c(k) what k of them take at once, no schedule of
`best_single` takes less than

    sum over tasks of  min(c(n), n * c(1))

nor costs less than the device costs, busy for as long; tasks with an energy of their own count with
the least of both ways, too. It is what is taken where memory does not
bind and nothing is copied. A device is out if it lacks a task that takes time, or its memory does
not hold the weights. Time in proportion to tasks times devices, schedules of all take far longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import charge, list_engaged


def least_values(problem: Problem, devices: Sequence[str]) -> list[float]:
    """The least value of the objective on each of some devices alone; inf of those that are out."""
    known: dict[int, float] = {}  # the same cost object on many devices
    free: dict[str, bool] = {}
    found = []
    for device in devices:
        seconds = _least_seconds(problem, device, known, free)
        if seconds == math.inf or problem.objective.kind in ("latency", "throughput"):
            found.append(seconds)
        else:
            busy = dict.fromkeys(list_engaged(problem.platform, device), seconds)
            found.append(_least_spent(problem, device, charge(problem, seconds, busy)))
    return found


def _least_spent(problem: Problem, device: str, plain: float) -> float:
    """At least what a device alone spends; `plain` is that of its watts or price alone."""
    if problem.objective.kind != "energy" or not problem.has_energies:
        return plain
    watts, batch = problem.platform.device(device).watts, problem.batch
    costs = [row[device] for row in problem.costs.values() if device in row]
    return math.fsum(min(c.joules(batch, watts), batch * c.joules(1, watts)) for c in costs)


def _least_seconds(
    problem: Problem, device: str, known: dict[int, float], free: dict[str, bool]
) -> float:
    """Seconds that a device is busy with all work; inf if it is out.

    Filled in: least seconds by the `id` of a cost (`known`), which tasks take no time (`free`).
    """
    seconds, weights, batch = 0.0, 0, problem.batch
    for task in problem.tasks:
        row = problem.costs[task.id]
        cost = row.get(device)
        if cost is not None:
            if id(cost) not in known:
                known[id(cost)] = min(cost.seconds(batch), batch * cost.seconds(1))
            seconds += known[id(cost)]
            weights += task.weight_bytes
            continue
        if task.id not in free:
            free[task.id] = all(map(takes_no_time, row.values()))
        if not free[task.id]:
            return math.inf
    limit = problem.platform.device(device).memory
    return seconds if limit is None or weights <= limit else math.inf


def takes_no_time(cost: Cost) -> bool:
    """Whether it is no work: a model's inputs and outputs."""
    return all(seconds == 0 for _, seconds in cost.points)
