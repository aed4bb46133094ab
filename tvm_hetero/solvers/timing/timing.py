"""From a placement and an order to times: the longest path through everything that must wait.

Notation: the activities of a placement are the n executions (numbers 0..n-1, one a part) and,
after them, the hops that the placement needs. An activity starts as soon as

- what it reads is there: the maker has ended, the hop before on the route has ended (rules 3, 5);
- each resource that it occupies is free of the activities ordered before it (rules 2, 4);
- the memory that it takes has been given back, wherever the order said so (rule 6).

Only the *order* of the given keys is used, never their values, so an order that was found with
rounded durations is timed again with exact ones: the result is valid whatever the rounding.
Memory stays valid because two tensors that did not share a device's memory at one time in the
given order are kept apart by an arc, so no moment sees more tensors together than before
(`has_empty_lives` tells of the one exception).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.views.instance import Hop, Instance


@dataclass(frozen=True)
class TimedPlan:
    """The activities of one placement.

    Attributes
    ----------
    hops : (tensor, hop) of activity n + i.
    before : the activities that each one waits for, as the data flow.
    users : for every (tensor, device): what brings the tensor there, and what uses it there.
    """

    instance: Instance
    placement: tuple[int, ...]
    hops: tuple[tuple[int, Hop], ...]
    before: tuple[tuple[int, ...], ...]
    users: dict[tuple[int, int], tuple[list[int], list[int]]]

    def __len__(self) -> int:
        return len(self.before)

    def seconds(self, activity: int) -> float:
        """Exact duration, s."""
        n = len(self.instance)
        if activity < n:
            return self.instance.seconds[activity][self.placement[activity]]
        tensor, hop = self.hops[activity - n]
        return self.instance.hop_seconds(hop, self.instance.tensors[tensor].nbytes)

    def resources(self, activity: int) -> tuple[int, ...]:
        """What the activity occupies, for its whole length."""
        n = len(self.instance)
        if activity < n:
            return self.instance.cores[self.placement[activity]]
        return self.instance.resources(self.hops[activity - n][1])


def make_plan(instance: Instance, placement: Sequence[int]) -> TimedPlan:
    """List the activities of a placement and what each of them waits for."""
    n = len(instance)
    hops: list[tuple[int, Hop]] = []
    before: list[list[int]] = [[] for _ in range(n)]
    users: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for t, flow in enumerate(instance.tensors):
        home = placement[flow.maker]
        users[t, home] = ([flow.maker], [flow.maker])
        number = {hop: n + len(hops) + i for i, hop in enumerate(instance.hops(t, placement))}
        for hop, activity in number.items():
            hops.append((t, hop))
            before.append([])
            users.setdefault((t, hop[1]), ([], []))[0].append(activity)
            users[t, hop[1]][1].append(activity)
        for hop, activity in number.items():
            users[t, hop[0]][1].append(activity)
        for reader in flow.readers:
            there = placement[reader]
            last = flow.maker
            for hop in instance.route(home, there, flow.nbytes) or ():
                before[number[hop]].append(last)
                last = number[hop]
            before[reader].append(last)
            users[t, there][1].append(reader)
    return TimedPlan(
        instance,
        tuple(placement),
        tuple(hops),
        tuple(tuple(dict.fromkeys(b)) for b in before),
        users,
    )


def activity_order(plan: TimedPlan, keys: Sequence[tuple[float, float]]) -> list[int]:
    """Every activity after those that it waits for; among the free ones the smallest key first.

    `keys` are (start, end) in any unit; ties fall to the topological order.
    """
    position = {v: i for i, v in enumerate(plan.instance.order)}
    rank = [position[a] for a in range(len(plan.instance))]
    rank += [position[plan.instance.tensors[t].maker] for t, _ in plan.hops]
    after: list[list[int]] = [[] for _ in keys]
    waiting = [len(b) for b in plan.before]
    for activity, row in enumerate(plan.before):
        for other in row:
            after[other].append(activity)
    heap = [(*keys[a], rank[a], a) for a, count in enumerate(waiting) if count == 0]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        activity = heapq.heappop(heap)[-1]
        order.append(activity)
        for other in after[activity]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(heap, (*keys[other], rank[other], other))
    return order


def retime(
    plan: TimedPlan,
    keys: Sequence[tuple[float, float]],
    duration: Callable[[int], float] | None = None,
) -> list[float]:
    """Earliest starts that keep the order of `keys` (see the head of this file).

    `duration` maps an activity to its length in any unit; exact seconds without it.
    """
    length = duration or plan.seconds
    order = activity_order(plan, keys)
    waits = memory_arcs(plan, keys, order)
    starts = [0.0] * len(plan)
    ends = [0.0] * len(plan)
    free: dict[int, float] = {}
    for activity in order:
        start: float = max((ends[b] for b in plan.before[activity]), default=0)
        start = max([start, *(ends[b] for b in waits.get(activity, ()))])
        start = max([start, *(free.get(r, 0) for r in plan.resources(activity))])
        starts[activity], ends[activity] = start, start + length(activity)
        for resource in plan.resources(activity):
            free[resource] = ends[activity]
    return starts


def memory_arcs(
    plan: TimedPlan, keys: Sequence[tuple[float, float]], order: Sequence[int]
) -> dict[int, set[int]]:
    """For an activity that takes memory, those that must have ended because they give some back.

    Of several that follow one another on a resource, the last is enough.
    """
    instance, binds = plan.instance, plan.instance.memory_binds
    position = [0] * len(order)
    for i, activity in enumerate(order):
        position[activity] = i
    users: dict[int, list[list[int]]] = {}
    opened: dict[int, list[int]] = {}
    for (_, d), (openers, closers) in sorted(_in_memories(plan).items()):
        if binds[d]:
            users.setdefault(d, []).append(closers)
            # Of several ways into a memory that teams see, each may come to be the first.
            shared = len(openers) > 1 and instance.memories_shared
            first = [min(openers, key=position.__getitem__)]
            opened.setdefault(d, []).extend(openers if shared else first)
    for v, place in enumerate(plan.placement):
        d = instance.memory_of[place]
        # Bytes that no task reads are taken when their maker starts, and never given back.
        if instance.unread[v] > 0 and d in users:
            opened[d].append(v)
    waits: dict[int, set[int]] = {}
    for d, rows in users.items():
        lives = _Lives(plan, rows, keys, position)
        for opener in dict.fromkeys(opened[d]):
            found = lives.over(keys[opener][0], position[opener])
            if found:
                waits.setdefault(opener, set()).update(order[i] for i in found)
    return waits


def _in_memories(plan: TimedPlan) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """`TimedPlan.users` by (tensor, memory): what brings a tensor there, and what uses it there."""
    if not plan.instance.memories_shared:
        return plan.users
    found: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for (t, d), rows in plan.users.items():
        for row, own in zip(
            found.setdefault((t, plan.instance.memory_of[d]), ([], [])), rows, strict=True
        ):
            row += own
    return found


class _Lives:
    """Tensors in one memory: when each is gone, and after which activities.

    `last` holds for each of them, by resource, the latest place in the order of what uses it.
    """

    def __init__(
        self,
        plan: TimedPlan,
        closers: Sequence[Sequence[int]],
        keys: Sequence[tuple[float, float]],
        position: Sequence[int],
    ) -> None:
        self.gone = np.array([max(keys[c][1] for c in row) for row in closers])
        self.behind = np.array([max(position[c] for c in row) for row in closers])
        column: dict[int, int] = {}
        entries = []
        # Uses of what occupies nothing, in no other's way.
        self.loose: dict[int, list[int]] = {}
        for life, row in enumerate(closers):
            for c in row:
                occupied = plan.resources(c)
                if occupied:
                    place = column.setdefault(occupied[0], len(column))
                    entries.append((life, place, position[c]))
                else:
                    self.loose.setdefault(life, []).append(position[c])
        self.last = np.full((len(closers), len(column)), -1)
        for life, place, at in entries:
            self.last[life, place] = max(self.last[life, place], at)

    def over(self, start: float, at: int) -> set[int]:
        """Places in the order of what must have ended before `start`, place `at`."""
        # What takes no time may itself be the last to use a tensor: the others must have ended.
        gone = (self.gone <= start) & (self.behind <= at)
        if not gone.any():
            return set()
        found = {i for i in self.last[gone].max(axis=0).tolist() if i >= 0}
        for life in self.loose:
            if gone[life]:
                found.update(self.loose[life])
        return found - {at}


def has_empty_lives(plan: TimedPlan, keys: Sequence[tuple[float, float]]) -> bool:
    """Whether a tensor comes and goes at one moment where memory binds.

    It then needs no memory (lives are half open), but only as long as what brings it and what
    reads it stay at one moment, which no arc can say: `retime` may move them apart.
    """
    instance, binds = plan.instance, plan.instance.memory_binds
    end = max(keys[v][1] for v in range(len(instance)))
    at_the_end = any(
        binds[d] and instance.unread[v] > 0 and keys[v][0] >= end
        for v, d in enumerate(plan.placement)
    )
    return at_the_end or any(
        binds[d] and max(keys[c][1] for c in closers) <= min(keys[o][0] for o in openers)
        for (_, d), (openers, closers) in _in_memories(plan).items()
    )


def to_schedule(
    plan: TimedPlan, starts: Sequence[float]
) -> tuple[tuple[Execution, ...], tuple[Copy, ...]]:
    """The executions and copies of a timed plan, in order of start."""
    instance = plan.instance
    names, n = instance.names, len(instance)
    elements = instance.elements
    position = {v: i for i, v in enumerate(instance.order)}
    executions = [
        Execution(
            instance.tasks[v], names[plan.placement[v]], elements[v], starts[v], starts[v] + s
        )
        for v, s in ((v, plan.seconds(v)) for v in instance.order)
    ]
    copies = [
        Copy(flow.name, elements[flow.maker], names[a], names[b], starts[i], starts[i] + s)
        for i, flow, (a, b), s in (
            (n + i, instance.tensors[t], hop, plan.seconds(n + i))
            for i, (t, hop) in enumerate(plan.hops)
        )
    ]
    index, parts_of = instance.problem.graph.index, instance.parts_of
    executions.sort(
        key=lambda e: (e.start, e.end, position[parts_of[index[e.task]][0]], e.elements)
    )
    copies.sort(key=lambda c: (c.start, c.end, c.tensor, c.elements, c.src, c.dst))
    return tuple(executions), tuple(copies)
