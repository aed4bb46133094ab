"""Who waits with which reservation, and what is known of each query before it has begun.

    load       as what it counts beside others: its kind, and the place-seconds that it takes
    patience   how long it may wait as a low one (its SLO; without one, a multiple of its latency)
    guard      places that are to stay free beside it
    shares     that it may have and that are worth it

What is done with it at each event is `malleable`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.serve.scheduling.calendar import PlaceCalendar, Reservation
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions, WaitingQuery
from tvm_hetero.serve.scheduling.policies.pressure import LoadKind, Pressure, QueryLoad
from tvm_hetero.serve.scheduling.policies.reservations import calendar_of
from tvm_hetero.serve.scheduling.policies.worthwhile import worthwhile_shares
from tvm_hetero.serve.scheduling.profile import ServiceProfile, UsefulShare
from tvm_hetero.serve.scheduling.query import Query
from tvm_hetero.serve.scheduling.scheduler import Scheduler

# For how many times its least latency a query without deadline waits as a low one.
_PATIENCE = 10.0


class WaitingQueries(Scheduler):
    """Queries that wait with reservations; see the head of this file."""

    def __init__(
        self, profile: ServiceProfile, places: int, options: AccordionOptions | None = None
    ) -> None:
        super().__init__(profile, places)
        self.options = options or AccordionOptions()
        self.most = min(self.options.most or places, places, profile.places)
        self.pressure = Pressure(places)
        self._waiting: dict[int, WaitingQuery] = {}
        self._seen_at = 0.0  # when the last event was

    @property
    def waiting(self) -> tuple[Query, ...]:
        """What was accepted and has not started."""
        return tuple(each.query for each in self._waiting.values())

    @property
    def reservations(self) -> dict[int, Reservation]:
        """What is reserved for each query that waits."""
        return {number: each.reservation for number, each in self._waiting.items()}

    def _forget(self, number: int) -> None:
        self._waiting.pop(number, None)

    def _accept(self, query: Query, reservation: Reservation, *, is_hope: bool = False) -> None:
        aged_at, work = self._aged_at(query), self._load(query).work
        self._waiting[query.number] = WaitingQuery(query, reservation, aged_at, is_hope, work)

    def _load(self, query: Query, shares: Sequence[UsefulShare] | None = None) -> QueryLoad:
        """As what a query counts: on its least share; without deadline on that with the fewest
        place-seconds, because a decoder has only one on which it runs at all. `shares` are its own,
        if they are known."""
        shares = self._shares(query) if shares is None else shares
        if query.deadline == math.inf:
            share = min(shares, key=lambda each: each.places * each.seconds).places
        else:
            enough = (each.places for each in shares if each.seconds + each.margin <= query.slo)
            share = next(enough, shares[0].places)
        kind = LoadKind(query.model, query.items, share)
        return QueryLoad(kind, self.profile.typical_work(*kind))

    def _patience(self, query: Query) -> float:
        """The SLO of a query; of one without deadline, for how long it waits as a low one."""
        if query.slo < math.inf:
            return query.slo
        return _PATIENCE * self.profile.latency(query.model, query.items, self.most)

    def _aged_at(self, query: Query) -> float:
        """When a low query counts as high."""
        return query.arrival + self.options.ageing * self._patience(query)

    def _spare(self) -> int:
        return self.pressure.spare if self.options.spare is None else self.options.spare

    def _guard(self, query: Query, load: QueryLoad) -> int:
        """Places that are to stay free beside a query that can wait: one, if it is a heavy one.

        One without deadline takes what there is as long as no lighter ones are lost for it.
        """
        if not self.options.guard:
            return 0
        pressure = self.pressure
        is_due = query.deadline < math.inf
        return int(pressure.is_heavy(load) if is_due else pressure.outweighs_lost(load))

    def _calendar(self, now: float) -> PlaceCalendar:
        """What is free beside all that runs and is reserved."""
        calendar = calendar_of(self.pool.count, self.running.values(), now)
        for each in self._waiting.values():
            spot = each.reservation
            calendar.take(spot.start, spot.end, spot.share)
        return calendar

    def _shares(self, query: Query) -> tuple[UsefulShare, ...]:
        """Shares that a query may have and that are worth it, and what it takes with each."""
        found = self.profile.times(query.model).useful_shares(query.items)
        if found[-1][0] > self.most:
            found = tuple(each for each in found if each[0] <= self.most)
        if query.deadline == math.inf:
            # A batch's own members are here while it is asked for (`exchange`), too; but they wait
            # because something else runs.
            own = (query.number in self.running) + (query.number in self._waiting)
            others = self.pressure.has_deadlines or len(self.running) + len(self._waiting) > own
            options = self.options
            found = worthwhile_shares(
                found, options.free_gain, options.free_efficiency if others else 0.0
            )
        return found
