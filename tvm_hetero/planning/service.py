"""A service on a plan: requests come, are prefilled and decoded by continuous batching.

Slots
-----
A plan has G groups of B slots: batches in flight, and sequences in each. A slot has caches for
`context` tokens. Each group has one request to the devices under way at most, as our own batching
(`tvm_hetero.generation.batching`), whose rules are those here:

    fill      requests that wait enter free slots: first come first, the emptiest group first
    chunk     a slot that lacks more than an eighth of a chunk of its tokens gets the next chunk
    step      otherwise each slot that lacks a token takes one step; while others wait for theirs,
              at most B chunks are made in a row

Devices
-------
A step is a batch on its way through the plan with the slots that take part for elements; a chunk
goes the same way as its slot does (the devices that compute the slot's element), with the costs of
a chunk. What that takes is said by the problem's tables and the rules of the formats
(`tvm_hetero.planning.route`, `tvm_hetero.planning.clock`): costs are those of full caches, whatever
is in them. With `padded` a step takes as long as one of all slots, as kernels of fixed shapes do.

What comes out
--------------
Rates and shares are taken within a window, from the end of the warm-up to the end of arrivals.
Times of requests are those of all that arrived in it; the simulation goes on until they are done.
In a steady state the tokens a second come near B / T, where T is the plan's busiest device; at low
load a token takes as long as the plan's batch alone; and the mean number of requests in the system
is their rate times their mean time in it (J. Little, Operations Research 9, 1961,
doi:10.1287/opre.9.3.383).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm_hetero.errors import UsageError
from tvm_hetero.planning.clock import Clock
from tvm_hetero.planning.requests import ServiceRequest
from tvm_hetero.planning.route import Route
from tvm_hetero.problem.objective import Resource

# A rest of up to this part of a chunk goes by steps.
_REST = 8
# Tokens after which it is told how many there are.
_TOLD = 1024


@dataclass(frozen=True)
class Service:
    """What serves.

    Attributes
    ----------
    step : the route of a batch; chunks : for every slot of a group the route of a chunk; empty: no
        prefill, tokens go in by steps alone.
    chunk : tokens of a chunk; groups, batch : see the head of this file.
    padded : whether a step costs as much as one of all slots.
    """

    step: Route
    groups: int
    batch: int
    chunk: int = 1
    chunks: tuple[Route, ...] = ()
    padded: bool = False

    @property
    def rest(self) -> float:
        """Tokens that go by steps if no more are missing."""
        return max(1, self.chunk // _REST) if self.chunks else math.inf


@dataclass
class Served:
    """What became of a request: times in seconds, NaN until they come."""

    request: ServiceRequest
    admitted: float = math.nan
    first: float = math.nan
    last: float = math.nan
    made: int = 0
    missing: int = 0

    @property
    def to_first(self) -> float:
        """From arrival to the first token."""
        return self.first - self.request.arrival

    @property
    def each(self) -> float:
        """From token to token, in the mean; NaN of a single token."""
        return (self.last - self.first) / (self.made - 1) if self.made > 1 else math.nan

    @property
    def in_system(self) -> float:
        """From arrival to the last token."""
        return self.last - self.request.arrival


@dataclass
class ServiceOutcome:
    """What a simulation saw.

    Attributes
    ----------
    served : of all requests, in the order of arrival.
    window : from when to when rates were taken; end : of the last token.
    tokens : generated within the window; busy : share of the window, by resource.
    steps, chunks : sent within the window; active : slots in a step, in the mean.
    occupied : slots that held a request, in the mean over the window.
    waiting : requests without a slot at the end of the window.
    in_system : requests in the system, in the mean from 0 to `end`.
    """

    served: list[Served]
    window: tuple[float, float]
    end: float = 0.0
    tokens: int = 0
    busy: dict[Resource, float] = field(default_factory=dict)
    steps: int = 0
    chunks: int = 0
    active: float = 0.0
    occupied: float = 0.0
    waiting: int = 0
    in_system: float = 0.0

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.window[1] - self.window[0]

    @property
    def counted(self) -> list[Served]:
        """Requests that arrived within the window; all of them if none did."""
        begin, end = self.window
        inside = [each for each in self.served if begin <= each.request.arrival <= end]
        return inside or self.served


def play(
    service: Service,
    requests: Sequence[ServiceRequest],
    seconds: float,
    warmup: float = 0.0,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> ServiceOutcome:
    """Serve requests, and look at what happens from `warmup` to `seconds`.

    `tell` hears now and then how many tokens are made, of all that are asked for.

    Raises
    ------
    UsageError
        If there are no requests, or the warm-up is not within the seconds.
    """
    if not requests:
        raise UsageError("no request arrives; simulate more seconds, or a higher rate")
    if not 0 <= warmup < seconds < math.inf:
        raise UsageError(
            f"expected a warm-up of at least 0 and below the {seconds:g} s of the simulation, "
            f"got {warmup:g}"
        )
    return _Play(service, requests, (warmup, seconds), tell).run()


def steady_rate(service: Service, seconds: float, warmup: float) -> float:
    """Tokens a second of full slots whose requests never end, from `warmup` to `seconds`."""
    clock = Clock(service.step.resources)
    everyone = range(service.batch)
    made = 0

    def again() -> None:
        nonlocal made
        made += service.batch if clock.now > warmup else 0
        clock.send(service.step, everyone, again)

    for _ in range(service.groups):
        clock.send(service.step, everyone, again)
    clock.run(until=seconds)
    return made / (seconds - warmup)


@dataclass
class _ServiceGroup:
    slots: list[Served | None]
    under_way: bool = False
    chunks_in_a_row: int = 0

    @property
    def taken(self) -> int:
        return sum(each is not None for each in self.slots)


class _Level:
    """A number that changes over time, and its mean over a window."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.value, self.since, self.area = 0, 0.0, 0.0

    def change(self, now: float, by: int) -> None:
        """Note that the number changes."""
        self.area += self.value * max(0.0, min(now, self.end) - max(self.since, self.begin))
        self.value, self.since = self.value + by, now

    def mean(self, end: float) -> float:
        """Over the window, or to `end` if that is sooner."""
        self.change(end, 0)
        length = min(end, self.end) - self.begin
        return self.area / length if length > 0 else 0.0


class _Play:
    """One simulation."""

    def __init__(
        self,
        service: Service,
        requests: Sequence[ServiceRequest],
        window: tuple[float, float],
        tell: Callable[[int, int], None],
    ) -> None:
        self.service = service
        self.tell, self.made = tell, 0
        self.asked = sum(request.output for request in requests)
        resources = set(service.step.resources).union(*(r.resources for r in service.chunks))
        self.clock = Clock(resources, window)
        self.groups = [_ServiceGroup([None] * service.batch) for _ in range(service.groups)]
        self.queue: deque[Served] = deque()
        self.outcome = ServiceOutcome([Served(request) for request in requests], window)
        self.present, self.taken = _Level(0.0, math.inf), _Level(*window)
        self.actives = 0

    def run(self) -> ServiceOutcome:
        clock, outcome = self.clock, self.outcome
        clock.at(outcome.window[1], self._note_queue)
        for served in outcome.served:
            clock.at(served.request.arrival, lambda served=served: self._arrive(served))  # type: ignore[misc]
        clock.run()
        outcome.end = max(served.last for served in outcome.served)
        outcome.busy = {r: seconds / outcome.seconds for r, seconds in clock.busy.items()}
        outcome.active = self.actives / outcome.steps if outcome.steps else 0.0
        outcome.occupied = self.taken.mean(outcome.window[1])
        outcome.in_system = self.present.mean(outcome.end)
        return outcome

    def _note_queue(self) -> None:
        self.outcome.waiting = len(self.queue)

    def _arrive(self, served: Served) -> None:
        self.present.change(self.clock.now, 1)
        served.missing = served.request.prompt
        self.queue.append(served)
        self._go_on()

    def _go_on(self) -> None:
        """Fill free slots, and send what each group without a request under way can send."""
        while self.queue:
            group = min(self.groups, key=lambda group: group.taken)
            if group.taken == self.service.batch:
                break
            served = self.queue.popleft()
            served.admitted = self.clock.now
            group.slots[group.slots.index(None)] = served
            self.taken.change(self.clock.now, 1)
        for group in self.groups:
            if not group.under_way:
                self._send(group)

    def _send(self, group: _ServiceGroup) -> None:
        """A chunk or a step of a group, if there is anything to do."""
        service = self.service
        present = [(slot, each) for slot, each in enumerate(group.slots) if each is not None]
        lacking = [(slot, each) for slot, each in present if each.missing > service.rest]
        steppers = [(slot, each) for slot, each in present if each.missing <= service.rest]
        if lacking and (not steppers or group.chunks_in_a_row < service.batch):
            slot, served = min(lacking, key=lambda row: (row[1].admitted, row[0]))
            group.chunks_in_a_row += 1
            self._count(chunk=True, active=1)
            self._set_out(group, service.chunks[slot], [0], [(served, service.chunk)])
        elif steppers:
            group.chunks_in_a_row = 0
            self._count(chunk=False, active=len(steppers))
            slots = range(service.batch) if service.padded else [slot for slot, _ in steppers]
            self._set_out(group, service.step, slots, [(served, 1) for _, served in steppers])

    def _count(self, *, chunk: bool, active: int) -> None:
        begin, end = self.outcome.window
        if begin <= self.clock.now <= end:
            self.outcome.chunks += chunk
            self.outcome.steps += not chunk
            self.actives += 0 if chunk else active

    def _set_out(
        self,
        group: _ServiceGroup,
        route: Route,
        elements: Sequence[int],
        members: list[tuple[Served, int]],
    ) -> None:
        group.under_way = True
        self.clock.send(route, elements, lambda: self._answer(group, members))

    def _answer(self, group: _ServiceGroup, members: list[tuple[Served, int]]) -> None:
        """Tokens have entered; who lacks none has a new one, and leaves if it was the last."""
        group.under_way = False
        for served, entered in members:
            served.missing -= min(entered, served.missing)
            if served.missing == 0:
                self._token(group, served)
        self._go_on()

    def _token(self, group: _ServiceGroup, served: Served) -> None:
        now = self.clock.now
        served.made += 1
        self.made += 1
        if self.made % _TOLD == 0:
            self.tell(self.made, self.asked)
        served.missing = 1
        served.last = now
        if served.made == 1:
            served.first = now
        begin, end = self.outcome.window
        self.outcome.tokens += begin <= now <= end
        if served.made == served.request.output:
            group.slots[group.slots.index(served)] = None
            self.taken.change(now, -1)
            self.present.change(now, -1)
