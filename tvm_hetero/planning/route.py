"""The way of one batch through a plan: what waits for what, and what keeps whom busy.

A plan's executions and copies become *legs*. A leg begins when those `after` which it comes have
ended and all of its resources are free:

    data      an execution comes after those that make what it reads there, or after the last hop
              of what is brought; a hop after its producer or the hop before it
    order     on a device (or exclusive link) the legs of one batch keep the order of the plan, as a
              worker takes the steps of its list
    resources an execution its device; a hop its ends without copy engine and its exclusive link;
              inputs and outputs that take no time (`Problem.terminals`) nothing

So a batch that is alone takes as long as the plan says, or less where the plan waits for nothing.
Legs in a row on one device, where no one else waits in between, are one leg (`_joined`): a device
then takes them in one go, as an executor does, and a simulation has fewer events.

Of a batch some elements may be missing. A leg takes what the problem's tables say for as many of
its elements as are there; with none it takes no time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import Resource, list_engaged, list_occupied
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.problem.simulate import Timed, simulate


@dataclass(frozen=True)
class Leg:
    """Executions in a row on one device, or one hop.

    Attributes
    ----------
    runs : (task, device) of each execution; hop : None or (tensor, from, to).
    elements : of the batch, that it computes or carries.
    after : positions of the legs that it waits for.
    """

    elements: frozenset[int]
    resources: tuple[Resource, ...]
    runs: tuple[tuple[str, str], ...] = ()
    hop: tuple[str, str, str] | None = None
    after: tuple[int, ...] = ()


@dataclass
class Route:
    """The legs of one batch, in an order in which each stands behind those that it waits for."""

    problem: Problem
    legs: tuple[Leg, ...]
    _known: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        followers: list[list[int]] = [[] for _ in self.legs]
        for i, leg in enumerate(self.legs):
            for j in leg.after:
                followers[j].append(i)
        self.followers = tuple(tuple(row) for row in followers)
        self.waits = tuple(len(leg.after) for leg in self.legs)

    @property
    def resources(self) -> frozenset[Resource]:
        """All that some leg keeps busy."""
        return frozenset(resource for leg in self.legs for resource in leg.resources)

    def seconds(self, leg: int, count: int) -> float:
        """What a leg takes for so many of its elements."""
        key = (leg, count)
        if key not in self._known:
            self._known[key] = self._seconds(self.legs[leg], count)
        return self._known[key]

    def _seconds(self, leg: Leg, count: int) -> float:
        if count == 0:
            return 0.0
        if leg.hop is None:
            return math.fsum(self.problem.seconds(t, d, count) for t, d in leg.runs)
        tensor, src, dst = leg.hop
        link = self.problem.platform.link(src, dst)
        assert link is not None, "copies go over links"
        return link.seconds(self.problem.graph.tensors[tensor].bytes * count)


def route_of(problem: Problem, schedule: Schedule) -> Route:
    """The way of one batch through a schedule."""
    if problem.objective.kind == "latency":
        return make_route(problem, Timed(schedule.executions, schedule.copies))
    steps = [(e.task, e.device, e.elements) for e in schedule.executions]
    return make_route(problem, in_order(problem, steps))


def in_order(problem: Problem, steps: Iterable[tuple[str, str, Sequence[int]]]) -> Timed:
    """The times of one batch that is alone, its steps in topological order."""
    rank = {task: i for i, task in enumerate(problem.graph.topological_order)}
    order = sorted(steps, key=lambda step: (rank[step[0]], tuple(step[2])))
    return simulate(problem.with_objective(Objective("latency", problem.batch)), order)


def make_route(problem: Problem, timed: Timed) -> Route:
    """The legs of timed executions and copies of one batch (see the head of this file)."""
    activities: list[Execution | Copy] = [*timed.executions, *timed.copies]
    after = _data(problem, timed)
    order = _order(activities, after)
    place = {i: p for p, i in enumerate(order)}
    legs = [_leg(problem, activities[i]) for i in order]
    waits = [{place[j] for j in after[i]} for i in order]
    last: dict[Resource, int] = {}
    for p, leg in enumerate(legs):
        # What ran before on the same device has ended when the one right before has.
        waits[p] -= {q for q in waits[p] if set(legs[q].resources) & set(leg.resources)}
        for resource in leg.resources:
            if resource in last:
                waits[p].add(last[resource])
            last[resource] = p
    ordered = [replace(leg, after=tuple(sorted(waits[p]))) for p, leg in enumerate(legs)]
    return Route(problem, tuple(_joined(ordered)))


def _order(activities: Sequence[Execution | Copy], after: Sequence[set[int]]) -> list[int]:
    """By start, of equal ones by end, but each behind those that it waits for."""
    followers: list[list[int]] = [[] for _ in activities]
    for i, before in enumerate(after):
        for j in before:
            followers[j].append(i)
    waits = [len(before) for before in after]
    key = [(activity.start, activity.end, i) for i, activity in enumerate(activities)]
    ready = [key[i] for i, count in enumerate(waits) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        i = heapq.heappop(ready)[-1]
        order.append(i)
        for follower in followers[i]:
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, key[follower])
    return order


def _leg(problem: Problem, activity: Execution | Copy) -> Leg:
    elements = frozenset(activity.elements)
    if isinstance(activity, Copy):
        link = problem.platform.link(activity.src, activity.dst)
        assert link is not None, "copies go over links"
        hop = (activity.tensor, activity.src, activity.dst)
        return Leg(elements, tuple(list_occupied(problem, link)), hop=hop)
    free = activity.task in problem.terminals
    run = (activity.task, activity.device)
    engaged = list_engaged(problem.platform, activity.device)
    return Leg(elements, () if free else tuple(engaged), runs=(run,))


def _data(problem: Problem, timed: Timed) -> list[set[int]]:
    """For every execution, then every copy, the positions of those that it waits for data from."""
    graph, count = problem.graph, len(timed.executions)
    maker = {(e.task, n): i for i, e in enumerate(timed.executions) for n in e.elements}
    arrivals: dict[tuple[str, int, str], int] = {}
    for j, copy in enumerate(timed.copies):
        producer = maker[graph.tensors[copy.tensor].src, copy.elements[0]]
        arrivals.setdefault((copy.tensor, producer, copy.dst), count + j)

    def source(tensor: str, producer: int, device: str) -> int:
        """What brings a tensor to a device: the execution itself, or the hop that ends there."""
        if timed.executions[producer].device == device:
            return producer
        return arrivals[tensor, producer, device]

    after: list[set[int]] = [
        {
            source(tensor.name, maker[tensor.src, n], e.device)
            for tensor in graph.inputs[e.task]
            for n in e.elements
        }
        for e in timed.executions
    ]
    for copy in timed.copies:
        producer = maker[graph.tensors[copy.tensor].src, copy.elements[0]]
        after.append({source(copy.tensor, producer, copy.src)})
    return after


def _joined(legs: Sequence[Leg]) -> list[Leg]:
    """Executions in a row, of the same elements on one device, as one leg."""
    followers: list[list[int]] = [[] for _ in legs]
    for i, leg in enumerate(legs):
        for j in leg.after:
            followers[j].append(i)
    result: list[Leg] = []
    number: dict[int, int] = {}
    for i, leg in enumerate(legs):
        before = leg.after[0] if len(leg.after) == 1 else None
        if before is not None and followers[before] == [i] and _in_one_go(legs[before], leg):
            n = number[i] = number[before]
            result[n] = replace(result[n], runs=result[n].runs + leg.runs)
            continue
        number[i] = len(result)
        result.append(replace(leg, after=tuple(sorted({number[j] for j in leg.after}))))
    return result


def _in_one_go(one: Leg, other: Leg) -> bool:
    same = one.resources == other.resources and one.elements == other.elements
    return same and one.hop is None and other.hop is None and bool(one.resources)
