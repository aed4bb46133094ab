"""A clock that carries batches along their routes: a discrete-event simulation.

What happens next is the earliest entry of a heap; entries of one moment go in the order in which
they were made, so that a simulation is the same on every machine. A leg that is ready stands in the
queue of each of its resources. Whenever something has ended, each resource that it freed takes the
first of its queue whose resources are all free. Queues are in the order in which batches set out
(what is furthest behind first), within a batch in the order of its route. Nothing is interrupted.

Why not SimPy, which is well kept: its resources are taken one by one, and a hop between two devices
without copy engines needs both at the same moment; that and the order of queues would have to be
built on top of it, and they are most of what is here.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from itertools import count

from tvm_hetero.planning.route import Route
from tvm_hetero.problem.objective import Resource


class _Batch:
    """A batch on its way: its number, how many elements each leg has, and what legs wait for."""

    def __init__(
        self, number: int, route: Route, elements: Collection[int], done: Callable[[], None]
    ) -> None:
        self.number, self.route, self.done = number, route, done
        there = frozenset(elements)
        self.counts = [len(leg.elements & there) for leg in route.legs]
        self.waits = list(route.waits)
        self.left = len(route.legs)

    def __lt__(self, other: _Batch) -> bool:
        return self.number < other.number


_Waiting = tuple[int, int, _Batch]


class Clock:
    """Time, resources and batches under way.

    Attributes
    ----------
    now : s since the beginning.
    busy : seconds of every resource within `window`.
    """

    def __init__(
        self, resources: Iterable[Resource], window: tuple[float, float] = (0.0, float("inf"))
    ) -> None:
        names = sorted(resources, key=str)
        self.now = 0.0
        self.window = window
        self.busy: dict[Resource, float] = dict.fromkeys(names, 0.0)
        self._free: dict[Resource, bool] = dict.fromkeys(names, True)
        self._queues: dict[Resource, list[_Waiting]] = {name: [] for name in names}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers, self._batches = count(), count()

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Have `action` called at a time that is not past."""
        heapq.heappush(self._events, (seconds, next(self._numbers), action))

    def send(self, route: Route, elements: Collection[int], done: Callable[[], None]) -> None:
        """Send a batch with some elements of it along a route; `done` is called at its end."""
        batch = _Batch(next(self._batches), route, elements, done)
        self._begin(batch, [i for i, waits in enumerate(batch.waits) if waits == 0])

    def run(self, until: float = float("inf")) -> None:
        """Go on until nothing is left to happen, or it would happen after `until`."""
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()

    def _begin(self, batch: _Batch, ready: list[int]) -> None:
        """Put legs that are ready where they wait, and those behind what takes nothing."""
        touched: list[Resource] = []
        while ready:
            leg = ready.pop(0)
            seconds = batch.route.seconds(leg, batch.counts[leg])
            resources = batch.route.legs[leg].resources
            if resources and batch.counts[leg]:
                for resource in resources:
                    insort(self._queues[resource], (batch.number, leg, batch))
                touched += resources
            elif seconds > 0:
                self._end_later(batch, leg, seconds)
            else:
                ready += self._passed(batch, leg)
        self._dispatch(touched)

    def _passed(self, batch: _Batch, leg: int) -> list[int]:
        """Note that a leg is behind; those that waited for it alone."""
        batch.left -= 1
        if batch.left == 0:
            self.at(self.now, batch.done)
        ready = []
        for follower in batch.route.followers[leg]:
            batch.waits[follower] -= 1
            if batch.waits[follower] == 0:
                ready.append(follower)
        return ready

    def _dispatch(self, resources: Iterable[Resource]) -> None:
        """Let each free resource take the first in its queue that can begin."""
        for resource in dict.fromkeys(resources):
            if not self._free[resource]:
                continue
            for waiting in self._queues[resource]:
                _, leg, batch = waiting
                needed = batch.route.legs[leg].resources
                if all(self._free[other] for other in needed):
                    self._take(batch, leg, waiting, needed)
                    break

    def _take(
        self, batch: _Batch, leg: int, waiting: _Waiting, needed: tuple[Resource, ...]
    ) -> None:
        seconds = batch.route.seconds(leg, batch.counts[leg])
        begin, end = self.window
        within = max(0.0, min(self.now + seconds, end) - max(self.now, begin))
        for resource in needed:
            queue = self._queues[resource]
            del queue[bisect_left(queue, waiting)]
            self._free[resource] = False
            self.busy[resource] += within
        self._end_later(batch, leg, seconds)

    def _end_later(self, batch: _Batch, leg: int, seconds: float) -> None:
        self.at(self.now + seconds, lambda: self._end(batch, leg))

    def _end(self, batch: _Batch, leg: int) -> None:
        freed = batch.route.legs[leg].resources
        for resource in freed:
            self._free[resource] = True
        self._begin(batch, self._passed(batch, leg))
        self._dispatch(freed)
