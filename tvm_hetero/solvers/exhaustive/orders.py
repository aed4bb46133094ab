"""The least makespan of one placement, by branch and bound over the orders of its activities.

An activity is an execution or a hop (`timing.TimedPlan`). Every objective only gets better when an
activity is moved to the left with the others kept, so two kinds of schedule are enough:

- Where memory cannot run out, *active* ones: none can start earlier without delaying another.
  B. Giffler, G. L. Thompson (Operations Research 8(4), 1960, doi:10.1287/opre.8.4.487) list them
  all: of the activities that could go next, let a be one that would end first, at c. Next goes a,
  or one that shares a resource with a and could start before c. For if none of those came before
  a, then a could be moved left; and whatever starts before c waits for nothing that is still
  to be placed, since all of that ends at c or later. So this holds as well where an activity
  occupies several resources at once, as hops do. What occupies nothing goes as soon as it can.
                                                                             -> `_Active`
- Where memory binds, an activity may also wait for memory, which is given back when something
  ends: each starts at 0 or at the end of another, in the order of their starts.  -> `_Waiting`

Both cut off what cannot end before the best known makespan: an activity that could start at s
cannot be followed by less than its tail, nor a resource by less than the work that is left on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_hetero.solvers.timing.timing import TimedPlan

_LOOK_AT_CLOCK = 1024


@dataclass
class OrderWork:
    """Steps that a search may still take; the clock is only a net."""

    left: int
    deadline: float

    def spend(self) -> bool:
        """Take one step; False if there is none."""
        self.left -= 1
        if self.left % _LOOK_AT_CLOCK == 0 and time.monotonic() > self.deadline:
            self.left = -1
        return self.left >= 0


def least_makespan(plan: TimedPlan, cutoff: float, work: OrderWork) -> list[float] | None:
    """Starts (s) of all activities that end first; None if not before `cutoff` (s).

    Where `work` runs out (`work.left` < 0), the best so far.
    """
    search = _Active(plan, cutoff, work) if everything_fits(plan) else _Waiting(plan, cutoff, work)
    search.visit()
    return search.found


def static_bytes(plan: TimedPlan) -> list[int]:
    """Weights on every device, each task's once."""
    instance = plan.instance
    held = {(instance.task_of[v], d): instance.weights[v] for v, d in enumerate(plan.placement)}
    total = [0] * len(instance.names)
    for (_, d), nbytes in held.items():
        total[d] += nbytes
    return total


def everything_fits(plan: TimedPlan) -> bool:
    """Whether every device holds all that is ever on it at once."""
    instance = plan.instance
    total = static_bytes(plan)
    for v, d in enumerate(plan.placement):
        total[d] += instance.unread[v]
    for t, d in plan.users:
        total[d] += instance.tensors[t].nbytes
    limits = zip(total, instance.capacity, strict=True)
    return all(limit is None or need <= limit for need, limit in limits)


def tails(plan: TimedPlan) -> list[float]:
    """Length of the longest chain of data that begins with each activity, s."""
    after = _readers(plan)
    found: dict[int, float] = {}
    waiting = [len(row) for row in after]
    ready = [a for a, count in enumerate(waiting) if count == 0]
    while ready:
        a = ready.pop()
        found[a] = plan.seconds(a) + max((found[b] for b in after[a]), default=0.0)
        for b in plan.before[a]:
            waiting[b] -= 1
            if waiting[b] == 0:
                ready.append(b)
    return [found[a] for a in range(len(plan))]


def loads(plan: TimedPlan) -> dict[int, float]:
    """Work on every resource, s; a device that only overlaps has 0."""
    parts: dict[int, list[float]] = {d: [] for d in plan.placement}
    for a in range(len(plan)):
        for resource in plan.resources(a):
            parts.setdefault(resource, []).append(plan.seconds(a))
    return {resource: math.fsum(row) for resource, row in parts.items()}


def _readers(plan: TimedPlan) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in range(len(plan))]
    for a, row in enumerate(plan.before):
        for b in row:
            after[b].append(a)
    return after


class _OrderSearch:
    """What both searches keep: starts, ends, and how long each resource is taken."""

    def __init__(self, plan: TimedPlan, cutoff: float, work: OrderWork) -> None:
        self.plan, self.best, self.work = plan, cutoff, work
        self.found: list[float] | None = None
        self.seconds = [plan.seconds(a) for a in range(len(plan))]
        self.resources = [plan.resources(a) for a in range(len(plan))]
        self.tails = tails(plan)
        self.left_on = loads(plan)
        self.starts: dict[int, float] = {}
        self.ends: dict[int, float] = {}
        self.free: dict[int, float] = {}

    def earliest(self, a: int) -> float:
        """When `a`, with all that it waits for placed, could start."""
        data = max((self.ends[b] for b in self.plan.before[a]), default=0.0)
        return max([data, *(self.free.get(r, 0.0) for r in self.resources[a])])

    def eligible(self) -> list[int]:
        """What is not placed, and waits for nothing that is not."""
        return [
            a
            for a in range(len(self.plan))
            if a not in self.ends and all(b in self.ends for b in self.plan.before[a])
        ]

    def put(self, a: int, start: float) -> dict[int, float]:
        """Place an activity; what `take` needs to undo it."""
        self.starts[a], self.ends[a] = start, start + self.seconds[a]
        before = {r: self.free.get(r, 0.0) for r in self.resources[a]}
        for r in self.resources[a]:
            self.free[r] = self.ends[a]
            self.left_on[r] -= self.seconds[a]
        return before

    def take(self, a: int, before: dict[int, float]) -> None:
        """Undo the last `put`."""
        del self.starts[a], self.ends[a]
        self.free.update(before)
        for r in before:
            self.left_on[r] += self.seconds[a]

    def keep(self, end: float) -> None:
        """This is the best."""
        self.best = end
        self.found = [self.starts[a] for a in range(len(self.plan))]


class _Active(_OrderSearch):
    """Active schedules, where memory cannot run out."""

    def visit(self) -> None:
        """Look at all that can follow what is placed."""
        if not self.work.spend():
            return
        moved = self.put_free()
        self.branch()
        for a, before in reversed(moved):
            self.take(a, before)

    def put_free(self) -> list[tuple[int, dict[int, float]]]:
        """Place what occupies nothing, or what nothing else wants."""
        moved: list[tuple[int, dict[int, float]]] = []
        while True:
            ready = [a for a in self.eligible() if not self.resources[a]]
            if not ready:
                return moved
            moved += [(a, self.put(a, self.earliest(a))) for a in ready]

    def branch(self) -> None:
        """Place each of those that may go next."""
        ready = {a: self.earliest(a) for a in self.eligible()}
        if not ready:
            end = max(self.ends.values())
            if end < self.best:
                self.keep(end)
            return
        if self.hopeless(ready):
            return
        first = min(ready, key=lambda a: (ready[a] + self.seconds[a], ready[a], a))
        end = ready[first] + self.seconds[first]
        wanted = set(self.resources[first])
        rivals = [
            a
            for a, start in ready.items()
            if a == first or (start < end and not wanted.isdisjoint(self.resources[a]))
        ]
        for a in sorted(rivals, key=lambda a: (ready[a] - self.tails[a], a)):
            before = self.put(a, ready[a])
            self.visit()
            self.take(a, before)

    def hopeless(self, ready: dict[int, float]) -> bool:
        """No way to end before the best from here."""
        if any(start + self.tails[a] >= self.best for a, start in ready.items()):
            return True
        return any(self.free.get(r, 0.0) + s >= self.best for r, s in self.left_on.items())


class _Waiting(_OrderSearch):
    """Schedules in which activities wait for memory as well."""

    def __init__(self, plan: TimedPlan, cutoff: float, work: OrderWork) -> None:
        super().__init__(plan, cutoff, work)
        instance = plan.instance
        limits = zip(static_bytes(plan), instance.capacity, strict=True)
        self.room = {d: limit - held for d, (held, limit) in enumerate(limits) if limit is not None}
        self.lives = [
            (d, instance.tensors[t].nbytes, openers, closers)
            for (t, d), (openers, closers) in plan.users.items()
            if d in self.room
        ]
        self.unread = [
            (d, instance.unread[v], v)
            for v, d in enumerate(plan.placement)
            if d in self.room and instance.unread[v] > 0
        ]

    def visit(self, now: float = 0.0) -> None:
        """Look at all that can start at `now` or later, in the order of the starts."""
        if not self.work.spend():
            return
        ready = self.eligible()
        if not ready:
            end = max(self.ends.values())
            if end < self.best and self.fits(now, end):
                self.keep(end)
            return
        if self.hopeless(now, ready):
            return
        # What starts by `now` is placed once anything starts later, so its memory is known then.
        later = self.fits(now, math.inf)
        for a in ready:
            for start in self.moments(max(self.earliest(a), now)):
                if start > now and not later:
                    break
                before = self.put(a, start)
                self.visit(start)
                self.take(a, before)

    def moments(self, earliest: float) -> Iterator[float]:
        """From when on something may start: 0, and whenever something ends."""
        return iter(sorted(t for t in {0.0, *self.ends.values()} if t >= earliest))

    def hopeless(self, now: float, ready: Sequence[int]) -> bool:
        """No way to end before the best from here."""
        if any(now + self.tails[a] >= self.best for a in ready):
            return True
        return any(
            max(now, self.free.get(r, 0.0)) + s >= self.best
            for r, s in self.left_on.items()
            if s > 0
        )

    def fits(self, moment: float, end: float) -> bool:
        """Whether what is in the memories at `moment` fits; what is not placed ends later."""
        alive = dict.fromkeys(self.room, 0)
        for d, nbytes, openers, closers in self.lives:
            begun = min(self.starts.get(a, math.inf) for a in openers) <= moment
            if begun and max(self.ends.get(a, math.inf) for a in closers) > moment:
                alive[d] += nbytes
        for d, nbytes, v in self.unread:
            if self.starts.get(v, math.inf) <= moment < end:
                alive[d] += nbytes
        return all(nbytes <= self.room[d] for d, nbytes in alive.items())
