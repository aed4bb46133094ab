"""Accordion: malleable shares by deadline, after the paper of that name (CF 2025).

What is fact in it and what our own: docs/accordion.md. At every event, in this order:

    admit      a new query gets a reservation that meets its deadline (`reservations.place`),      1
               or room that running ones with slack make for it (`squeeze.RoomSearch`): a high    2
               one is given places by low and high ones, a low one by low ones;
               or one in a new order of all that wait, high before low and each by its deadline,   3
               in which all still meet theirs; or one with which it typically is in time;          4
               else it is refused, with its predicted end
    start, hurry, widen      what waits and what runs (`malleable`)

A promise (an accepted query's predicted end by its deadline) is never broken by later decisions:
all that is done later fits the calendar beside it. What breaks promises are times that are not as
predicted. A low query that has waited `ageing` times its SLO counts as high; so does one without
deadline, whose SLO for this is a multiple of its least latency (`WaitingQueries._patience`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm_hetero.serve.scheduling.calendar import PlaceCalendar, Reservation
from tvm_hetero.serve.scheduling.policies.exchange import BatchingShares
from tvm_hetero.serve.scheduling.policies.options import WaitingQuery
from tvm_hetero.serve.scheduling.policies.pressure import QueryLoad
from tvm_hetero.serve.scheduling.policies.reservations import (
    calendar_of,
    place,
    soonest,
)
from tvm_hetero.serve.scheduling.policies.squeeze import MadeRoom
from tvm_hetero.serve.scheduling.query import Priority, Query, RefuseQuery

_EPS = 1e-9


class Accordion(BatchingShares):
    """Malleable shares by deadline; see the head of this file."""

    def _receive(self, query: Query, now: float) -> None:
        if not self.running and not self._waiting:
            self.pressure.idle(now - self._seen_at)
            self._receive_alone(query, now)
        elif query.deadline == math.inf and not self._dated:
            self._count(query, self._load(query))
            self._accept_undated(query)
        else:
            self._reserve_all(now)
            self._receive_beside(query, now)

    def _receive_alone(self, query: Query, now: float) -> None:
        """As `_receive_beside` comes to where all places are free: the answer needs no calendar."""
        shares = self._shares(query)
        load = self._load(query, shares)
        self._count(query, load)
        if self._outweighs(query, load):
            return
        if query.deadline == math.inf:
            self._start(query, min(shares, key=lambda each: each.seconds).places, now)
            return
        guard = self._guard(query, load)
        for free in dict.fromkeys((guard, 0)):
            for share, seconds, margin in shares:
                in_time = now + seconds + margin <= query.deadline + _EPS
                if in_time and share + free <= self.pool.count:
                    self._start(query, share, now)
                    return
        calendar = self._calendar(now)
        spot = self._hope(query, calendar, now)
        if spot is not None:
            self._start(query, spot.share, now)
        else:
            self._refuse_late(query, calendar, now)

    def _receive_beside(self, query: Query, now: float) -> None:
        calendar = self._calendar(now)
        shares = self._shares(query)
        load = self._load(query, shares)
        self._count(query, load)
        if self._outweighs(query, load):
            return
        found = place(query, shares, calendar, now, self._guard(query, load))
        waits = found is None or found.start > now + _EPS
        if waits and self.options.shrink and query.deadline < math.inf:
            room = self._room(query, calendar, now, low_only=query.priority is Priority.LOW)
            if room is not None and self._is_better(room, found, query):
                self._use(query, room, now)
                return
        if found is not None and not (query.deadline == math.inf and self._waiting):
            self._accept(query, found)
        elif not self._reorder(query, now):
            hoped = None if found is not None else self._hope(query, calendar, now)
            spot = found or hoped
            if spot is not None:
                self._accept(query, spot, is_hope=hoped is not None)
            else:
                self._refuse_late(query, calendar, now)

    def _count(self, query: Query, load: QueryLoad) -> None:
        self.pressure.arrive(load, query.priority, due=query.deadline < math.inf)

    def _hope(self, query: Query, calendar: PlaceCalendar, now: float) -> Reservation | None:
        """Where it is typically in time, though not nine times of ten; on all that it can have.

        A refusal is a violation for certain, a try is one half of the time, and what it takes of
        others is what a promise would take, too.
        """
        return place(query, self._shares(query)[::-1], calendar, now, is_hope=True)

    def _outweighs(self, query: Query, load: QueryLoad) -> bool:
        """Refuse a query that would keep out lighter ones of which that costs more.

        One without deadline keeps nobody out: it waits.
        """
        if not self.options.weigh or query.deadline == math.inf:
            return False
        price = self.pressure.price(load, query.priority)
        if load.work * price <= 1:
            return False
        reason = "it takes more place-seconds than lighter queries leave that are refused now"
        self._refuse(query, reason, 1 / price, load.work, self._patience(query))
        return True

    @staticmethod
    def _is_better(room: MadeRoom, found: Reservation | None, query: Query) -> bool:
        """A low query that can wait asks nobody; a high one waits for none that can give."""
        if found is None:
            return True
        return query.priority is Priority.HIGH and room.begin < found.start - _EPS

    def foresee(self, query: Query, now: float) -> RefuseQuery | None:
        """The refusal that `arrive` would come to for want of time; None: it would be taken.

        Nothing is changed: a door may ask before it has seen all of a query.
        """
        if query.deadline == math.inf or self.options.best_effort:
            return None
        if self._is_crowded(query, now):
            first = self._shares(query)[0]
            begin = max(self._turn_of_last(now), query.deadline)
            return self._late_refusal(query, begin + first.seconds + first.margin)
        self._reserve_all(now)
        calendar = self._calendar(now)
        if place(query, self._shares(query), calendar, now) is not None:
            return None
        low_only = query.priority is Priority.LOW
        if self.options.shrink and self._room(query, calendar, now, low_only=low_only) is not None:
            return None
        if self._reordered(query, now) is not None:
            return None
        if self._hope(query, calendar, now) is not None:
            return None
        return self._late_refusal(query, self._soonest_end(query, calendar, now))

    def _reorder(self, query: Query, now: float) -> bool:
        """Reserve anew for all that wait, and for the query, if all meet their deadlines."""
        found = self._reordered(query, now)
        if found is None:
            return False
        self._accept(query, found[query.number])
        for number, spot in found.items():
            self._waiting[number].reservation = spot
        return True

    def _reordered(self, query: Query, now: float) -> dict[int, Reservation] | None:
        """Reservations for all that wait and the query, high ones first; None if one is late."""
        new = WaitingQuery(query, Reservation(now, now, 0), self._aged_at(query))
        calendar = calendar_of(self.pool.count, self.running.values(), now)
        found: dict[int, Reservation] = {}
        everyone = [*self._waiting.values(), new]
        for each in sorted(everyone, key=lambda each: each.order(now)):
            shares = self._shares(each.query)
            spot = place(each.query, shares, calendar, now, is_hope=each.is_hope)
            if spot is None:
                return None
            calendar.take(spot.start, spot.end, spot.share)
            found[each.query.number] = spot
        return found

    def _refuse_late(self, query: Query, calendar: PlaceCalendar, now: float) -> None:
        """Say when it would have ended, and when to come back; or take it as best effort."""
        refusal = self._late_refusal(query, self._soonest_end(query, calendar, now))
        if self.options.best_effort:
            self._note_lost()
            free = replace(query, deadline=math.inf)
            spot = place(free, self._shares(query), calendar, now)
            assert spot is not None
            self._accept(free, spot)
            return
        self._decisions.append(refusal)
        self._note_refused(query, refusal)

    def turned_away(self, query: Query, refusal: RefuseQuery) -> None:
        """As after an arrival that was refused."""
        self._count(query, self._load(query))
        self._note_refused(query, refusal)

    def _note_refused(self, query: Query, refusal: RefuseQuery) -> None:
        """Learn: of the load, or of the times, if no place that others leave would have helped."""
        if refusal.retry_after is None:
            self.profile.times(query.model).doubt(query.items, query.slo)
        else:
            self._note_lost()

    def _note_lost(self) -> None:
        widened = any(each.share > each.needed for each in self.running.values())
        self.pressure.lose(avoidable=widened)

    def _soonest_end(self, query: Query, calendar: PlaceCalendar, now: float) -> float:
        """When it would end beside all others, with its margin."""
        spot = soonest(self._shares(query), calendar, now)
        return spot.end + self._margin(query, spot.share)

    def _late_refusal(self, query: Query, end: float) -> RefuseQuery:
        """`end`: when it would end; what is said if it never would in time is known without."""
        last, number = self._shares(query)[-1], query.number
        least = last.seconds + last.margin
        if least > query.slo:
            reason = "it takes longer than its deadline allows, even alone on all places"
            return RefuseQuery(number, reason, query.slo, least, None)
        reason = "it would end after its deadline, behind what was accepted before"
        return RefuseQuery(number, reason, query.slo, end - query.arrival, end - query.deadline)
