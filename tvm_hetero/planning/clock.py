"""A clock that carries batches along their routes: a discrete-event simulation.

What happens next is the earliest entry of a heap; entries of one moment go in the order in which
they were made, so that a simulation is the same on every machine. A leg that is ready stands in the
queue of each of its resources. Whenever something has ended, each resource that it freed takes the
first of its queue whose resources are all free. Queues are in the order in which batches set out
(what is furthest behind first), within a batch in the order of its route. Nothing is interrupted.

A decoder's machine is rated by a million legs, so what a leg takes and needs is looked up once for
all batches with the same elements on the same route (`_Passage`), and resources are numbers here.

Why not SimPy, which is well kept: its resources are taken one by one, and a hop between two devices
without copy engines needs both at the same moment; that and the order of queues would have to be
built on top of it, and they are most of what is here.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tvm_hetero.planning.route import Route
from tvm_hetero.problem.objective import Resource


@dataclass(frozen=True, eq=False)
class _Passage:
    """A route with some elements on it: what each leg takes, s, and what it needs.

    A leg without elements takes and needs nothing. `first` are those that wait for no other.
    """

    route: Route
    seconds: tuple[float, ...]
    needs: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]


class _Batch:
    """A batch on its way: its number, and what its legs wait for."""

    __slots__ = ("done", "left", "number", "waits", "way")

    def __init__(self, number: int, way: _Passage, done: Callable[[], None]) -> None:
        self.number, self.way, self.done = number, way, done
        self.waits = list(way.route.waits)
        self.left = len(self.waits)

    def __lt__(self, other: _Batch) -> bool:
        return self.number < other.number


_Waiting = tuple[int, int, _Batch]
# When, in which order of those of one moment, and either what is called or whose leg ends.
_Event = tuple[float, int, Callable[[], None] | None, _Batch | None, int]


class Clock:
    """Time, resources and batches under way.

    Attributes
    ----------
    now : s since the beginning.
    """

    def __init__(
        self, resources: Iterable[Resource], window: tuple[float, float] = (0.0, float("inf"))
    ) -> None:
        self._names = sorted(resources, key=str)
        self.now = 0.0
        self.window = window
        self._busy = [0.0] * len(self._names)
        self._free = [True] * len(self._names)
        self._queues: list[list[_Waiting]] = [[] for _ in self._names]
        self._events: list[_Event] = []
        self._made, self._batches = 0, 0
        self._ways: dict[tuple[int, frozenset[int]], _Passage] = {}

    @property
    def busy(self) -> dict[Resource, float]:
        """Seconds of every resource within `window`."""
        return dict(zip(self._names, self._busy, strict=True))

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Have `action` called at a time that is not past."""
        self._made += 1
        heapq.heappush(self._events, (seconds, self._made, action, None, 0))

    def send(self, route: Route, elements: Collection[int], done: Callable[[], None]) -> None:
        """Send a batch with some elements of it along a route; `done` is called at its end."""
        way = self._way(route, frozenset(elements))
        self._batches += 1
        self._begin(_Batch(self._batches, way, done), way.first)

    def run(self, until: float = float("inf")) -> None:
        """Go on until nothing is left to happen, or it would happen after `until`."""
        events, pop = self._events, heapq.heappop
        while events and events[0][0] <= until:
            self.now, _, action, batch, leg = pop(events)
            if batch is not None:
                self._end(batch, leg)
            elif action is not None:
                action()

    def _way(self, route: Route, there: frozenset[int]) -> _Passage:
        """The way of such a batch, made once; it holds its route, whose address is the key."""
        key = (id(route), there)
        if key not in self._ways:
            number = {name: i for i, name in enumerate(self._names)}
            counts = [len(leg.elements & there) for leg in route.legs]
            self._ways[key] = _Passage(
                route,
                tuple(route.seconds(i, count) for i, count in enumerate(counts)),
                tuple(
                    tuple(number[each] for each in leg.resources) if count else ()
                    for leg, count in zip(route.legs, counts, strict=True)
                ),
                tuple(i for i, waits in enumerate(route.waits) if waits == 0),
            )
        return self._ways[key]

    def _begin(self, batch: _Batch, legs: Iterable[int]) -> None:
        """Put legs that are ready where they wait, and those behind what takes nothing."""
        touched: list[int] = []
        ready, way = list(legs), batch.way
        for leg in ready:
            needs = way.needs[leg]
            if needs:
                waiting = (batch.number, leg, batch)
                for resource in needs:
                    insort(self._queues[resource], waiting)
                touched += needs
            elif way.seconds[leg] > 0:
                self._end_later(batch, leg)
            else:
                ready += self._passed(batch, leg)
        if touched:
            self._dispatch(touched)

    def _passed(self, batch: _Batch, leg: int) -> list[int]:
        """Note that a leg is behind; those that waited for it alone."""
        batch.left -= 1
        if batch.left == 0:
            self.at(self.now, batch.done)
        ready, waits = [], batch.waits
        for follower in batch.way.route.followers[leg]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)
        return ready

    def _dispatch(self, resources: Sequence[int]) -> None:
        """Let each free resource take the first in its queue that can begin."""
        free = self._free
        for resource in resources:
            # One that comes again has taken something, or finds what it found before.
            if not free[resource]:
                continue
            for waiting in self._queues[resource]:
                _, leg, batch = waiting
                needs = batch.way.needs[leg]
                if len(needs) == 1 or all(free[other] for other in needs):
                    self._take(batch, leg, waiting, needs)
                    break

    def _take(self, batch: _Batch, leg: int, waiting: _Waiting, needs: tuple[int, ...]) -> None:
        now = self.now
        begin, end = self.window
        within = max(0.0, min(now + batch.way.seconds[leg], end) - max(now, begin))
        for resource in needs:
            queue = self._queues[resource]
            del queue[bisect_left(queue, waiting)]
            self._free[resource] = False
            self._busy[resource] += within
        self._end_later(batch, leg)

    def _end_later(self, batch: _Batch, leg: int) -> None:
        self._made += 1
        moment = self.now + batch.way.seconds[leg]
        heapq.heappush(self._events, (moment, self._made, None, batch, leg))

    def _end(self, batch: _Batch, leg: int) -> None:
        freed = batch.way.needs[leg]
        for resource in freed:
            self._free[resource] = True
        ready = self._passed(batch, leg)
        if ready:
            self._begin(batch, ready)
        if freed:
            self._dispatch(freed)
