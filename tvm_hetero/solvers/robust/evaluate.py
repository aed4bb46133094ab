"""What one plan is worth in every sample of its costs, all samples at once.

The plan's division, placement and order stay; only its times follow the costs (what a runtime does
that has been given queues to work off). With `timing`'s arcs (data flow, resources in their order,
memory in its order) the start of activity a in sample s is

    start[a, s] = max over b that a waits for of end[b, s],    end[a, s] = start[a, s] + c[a, s]

the recurrence of `timing.retime` with a row of samples instead of a number: one pass over the plan
serves all of them. Memory and order are kept in each sample; a latency limit may be exceeded in
some, and those are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.robust.samples import Samples
from tvm_hetero.solvers.timing.decomposed_schedule import Replay, replay
from tvm_hetero.solvers.timing.timing import activity_order, memory_arcs
from tvm_hetero.views.array_types import FloatArray

# Numbers that are held at once.
_ROOM = 20_000_000
# A latency limit that a schedule keeps but for the rounding of sums is kept.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RobustValues:
    """The value of the objective in every sample, and in how many the latency limit is broken."""

    values: tuple[float, ...]
    late: int = 0

    @property
    def mean(self) -> float:
        """Mean over the samples."""
        return math.fsum(self.values) / len(self.values)

    @property
    def worst(self) -> float:
        """Largest of the samples."""
        return max(self.values)


def values_of(problem: Problem, schedule: Schedule, samples: Samples) -> RobustValues:
    """Time a valid schedule of `problem` again in every sample."""
    timer = _Timer(problem, replay(problem, schedule))
    step = max(1, _ROOM // len(timer.plan))
    values: list[float] = []
    late = 0
    for first in range(0, samples.count, step):
        numbers = range(first, min(first + step, samples.count))
        found, over = timer.values(samples, numbers)
        values += found.tolist()
        late += over
    return RobustValues(tuple(values), late)


class _Timer:
    """One plan, ready to be timed."""

    def __init__(self, problem: Problem, again: Replay) -> None:
        self.problem = problem
        self.plan = again.plan
        self.instance = again.instance
        self.nominal = np.array([self.plan.seconds(a) for a in range(len(self.plan))])
        self.throughput = problem.objective.kind == "throughput"
        self.order: list[int] = []
        self.waits: list[list[int]] = []
        if not self.throughput:
            self.order = activity_order(self.plan, again.keys)
            self.waits = _waits(again, self.order)

    def values(self, samples: Samples, numbers: range) -> tuple[FloatArray, int]:
        """Values of some samples, and how many of these break the latency limit."""
        seconds = self.seconds(samples, numbers)
        if self.throughput:
            loads = self.loads(seconds)
            return np.max(np.array([loads[r] for r in sorted(loads)]), axis=0), 0
        end = self.makespans(seconds)
        limit = self.problem.objective.latency_limit
        late = 0 if limit is None else int(np.sum(end > limit * (1 + _ROUNDING)))
        return self.price(end, seconds), late

    def seconds(self, samples: Samples, numbers: range) -> FloatArray:
        """Duration of every activity (row) in every sample (column), s."""
        n = len(self.instance)
        result = np.repeat(self.nominal[:, None], len(numbers), axis=1)
        tasks, devices = np.array(self.instance.task_of), np.array(self.plan.placement)
        for column, number in enumerate(numbers):
            result[:n, column] *= samples.factors(self.problem, number)[tasks, devices]
        return result

    def makespans(self, seconds: FloatArray) -> FloatArray:
        """When the last execution ends, by sample, s."""
        ends = seconds.copy()
        for activity in self.order:
            waits = self.waits[activity]
            if waits:
                ends[activity] += ends[waits].max(axis=0)
        result: FloatArray = ends[: len(self.instance)].max(axis=0)
        return result

    def loads(self, seconds: FloatArray) -> dict[int, FloatArray]:
        """Busy time of every resource that is occupied at all, by sample, s."""
        found: dict[int, FloatArray] = {}
        for activity in range(len(self.plan)):
            for resource in self.plan.resources(activity):
                if resource not in found:
                    found[resource] = np.zeros(seconds.shape[1])
                found[resource] += seconds[activity]
        return found

    def price(self, end: FloatArray, seconds: FloatArray) -> FloatArray:
        """The objective of a batch that ends at `end`, by sample (rule 7)."""
        kind = self.problem.objective.kind
        if kind == "latency":
            return end
        busy = self.loads(seconds)
        used = set(self.plan.placement).union(*(hop for _, hop in self.plan.hops))
        total = np.zeros_like(end)
        for d in sorted(used):
            device = self.problem.platform.devices[d]
            if kind == "cost":
                total += (device.price or 0.0) / 3600 * end
                continue
            load = busy.get(d, np.zeros_like(end))
            total += (device.watts or 0.0) * load
            total += device.idle_watts * np.maximum(0.0, end - load)
        return total + self.extra(seconds) if kind == "energy" else total

    def extra(self, seconds: FloatArray) -> FloatArray:
        """Joules above the devices' watts, by sample: in proportion to what executions take."""
        result = np.zeros(seconds.shape[1])
        rows = zip(self.instance.tasks, self.instance.elements, self.plan.placement, strict=True)
        for v, (task, elements, d) in enumerate(rows):
            own = self.problem.extra_joules(task, self.instance.names[d], len(elements))
            if own and self.nominal[v]:
                result += own * seconds[v] / self.nominal[v]
            else:
                result += own
        return result


def _waits(again: Replay, order: list[int]) -> list[list[int]]:
    """For every activity, those that must have ended before it starts."""
    plan = again.plan
    memory = memory_arcs(plan, again.keys, order)
    last: dict[int, int] = {}
    waits: list[list[int]] = [[] for _ in order]
    for activity in order:
        found = dict.fromkeys(plan.before[activity])
        found.update(dict.fromkeys(sorted(memory.get(activity, ()))))
        for resource in plan.resources(activity):
            if resource in last:
                found[last[resource]] = None
            last[resource] = activity
        waits[activity] = list(found)
    return waits
