"""Shares that grow and shrink while queries run: what Accordion does at every event.

    start      reservations that are due, and those that can begin now after all
    hurry      the first high one that waits is given places by low ones that have slack
    widen      idle places that nobody has reserved go to who has least slack, as long as that
               makes it quicker; `spare` stay free for the next query to begin on, unless who
               runs may be late without

Who is let in, and with which reservation, is `accordion`'s. All that is done here fits the calendar
beside what is reserved, so no promise is broken by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from tvm_hetero.serve.scheduling.calendar import PlaceCalendar, Reservation
from tvm_hetero.serve.scheduling.course import NewShare, Pace
from tvm_hetero.serve.scheduling.policies.reservations import expected_end, place, soonest
from tvm_hetero.serve.scheduling.policies.squeeze import MadeRoom, RoomSearch
from tvm_hetero.serve.scheduling.policies.waiting_queries import WaitingQueries
from tvm_hetero.serve.scheduling.query import Priority, Query, WaitUntil
from tvm_hetero.serve.scheduling.scheduler import RunningQuery

_EPS = 1e-9
# A query whose slack is less than so many margins (`ModelTimes.margin`) may well be late.
_SURE = 3.0


class MalleableShares(WaitingQueries):
    """Queries that wait with reservations, and shares that change; see the head of this file."""

    # ------------------------------------------------------------------ at every event

    def _plan(self, now: float) -> None:
        self._seen_at = now
        if not self._waiting and not any(map(self._may_widen, self.running.values())):
            return  # nobody to be started, and nobody whose share can still be changed
        self._widen_promised(now)
        calendar = self._calendar(now)
        self._start_due(calendar, now)
        if self.options.shrink:
            self._hurry(calendar, now)
        if self.options.widen:
            self._widen_idle(now)
        until = list(self._next_times(now))
        if until:
            self._decisions.append(WaitUntil(min(until)))

    def _next_times(self, now: float) -> Iterator[float]:
        """When those that wait have to be looked at again though nothing ends: who counts as high
        from then on; and whose turn comes, if there are places free (else an end tells of it)."""
        for each in self._waiting.values():
            if not each.is_high(now):
                yield each.aged_at
            if self.pool.free and each.reservation.start > now + _EPS:
                yield each.reservation.start

    def _may_widen(self, running: RunningQuery) -> bool:
        """Whether a larger share could still be of use: of most small queries none is."""
        query = running.query
        useful = self.profile.times(query.model).useful_shares(query.items)[-1].places
        can_change = query.items > 1 or running.course.entered(self._seen_at) == 0
        return can_change and (running.widening is not None or running.share < useful)

    def _widen_promised(self, now: float) -> None:
        """Give who began on fewer places the others, once they are empty."""
        emptying = any(each.given_up for each in self.running.values())
        for running in self.running.values():
            if running.widening is None:
                continue
            time, _, share = running.widening
            if running.course.entered(now) >= running.query.items:
                running.widening = None
            elif self.pool.free >= share - running.share and (time <= now + _EPS or not emptying):
                running.widening = None
                self._resize(running, share, now)

    def _start_due(self, calendar: PlaceCalendar, now: float) -> None:
        """Start what is due; if places came free, look for an earlier time for all that wait."""
        freed, self._freed = self._freed, False
        for each in sorted(self._waiting.values(), key=lambda each: each.order(now)):
            if not freed and each.reservation.start > now + _EPS:
                continue
            query, held, shares = each.query, each.reservation, self._shares(each.query)
            calendar.take(held.start, held.end, -held.share)
            guard = self._guard(query, self._load(query, shares))
            spot = place(query, shares, calendar, now, guard, is_hope=each.is_hope)
            if spot is None:  # times were not as predicted
                spot = soonest(shares, calendar, now)
            calendar.take(spot.start, spot.end, spot.share)
            each.reservation = spot
            if spot.start <= now + _EPS and self.pool.free >= spot.share:
                self._forget(query.number)
                self._start(query, spot.share, now)
        if self._waiting and not self.running:
            self._start_first(now)

    def _start_first(self, now: float) -> None:
        """Start whose turn is next, though it has not come: nothing runs whose end would tell.

        All places are free until then, so that nobody else is kept from its own; and reservations
        of queries that take longer by now than when they were made may be in each other's way:
        each would begin behind the other, for ever.
        """
        first = min(self._waiting.values(), key=lambda each: (each.reservation, each.order(now)))
        self._forget(first.query.number)
        self._start(first.query, first.reservation.share, now)

    def _hurry(self, calendar: PlaceCalendar, now: float) -> None:
        """Let low ones give places to the first high one that waits, if nobody is at it yet."""
        high = [each for each in self._waiting.values() if each.is_high(now)]
        if not high or any(each.given_up for each in self.running.values()):
            return
        first = min(high, key=lambda each: each.order(now))
        held = first.reservation
        calendar.take(held.start, held.end, -held.share)
        room = self._room(first.query, calendar, now, low_only=True)
        if room is not None and room.begin < held.start - _EPS:
            self._forget(first.query.number)
            self._use(first.query, room, now)

    def _widen_idle(self, now: float) -> None:
        """Give idle places to who has least slack, as long as nobody has reserved them.

        Who may be late, as measured times differ, gets spare ones, too: a share that is just
        enough for what is predicted is too small for what comes of it one time in ten.
        """
        idle, spare = self.pool.free, self._spare()
        if idle <= 0 or not self.running:
            return
        calendar = self._calendar(now)
        able = [each for each in self.running.values() if each.settled and each.share < self.most]
        for running in sorted(able, key=lambda each: (each.slack, each.query.number)):
            more = idle if self._is_unsure(running) else idle - spare
            if more <= 0:
                continue
            share = self._wider(running, min(self.most, running.share + more), calendar, now)
            if share > running.share:
                idle -= share - running.share
                calendar.take(now, expected_end(running.course, now), -running.share)
                self._resize(running, share, now)
                calendar.take(now, running.course.finish, share)

    def _pace_of(self, query: Query, share: int) -> Pace:
        """Typical: others wait for its end, and margins of a chain of ends do not add up."""
        return self.profile.times(query.model).typical(query.items, share)

    def _is_unsure(self, running: RunningQuery) -> bool:
        """Whether it may well be late, as far as measured times differ."""
        return running.slack < _SURE * self._margin(running.query, running.share)

    def _margin(self, query: Query, share: int) -> float:
        return self.profile.times(query.model).margin(query.items, share)

    def _wider(self, running: RunningQuery, most: int, calendar: PlaceCalendar, now: float) -> int:
        """The share with which it ends soonest; a larger one has to be worth it."""
        best, finish = running.share, running.course.finish
        if running.course.entered(now) >= running.query.items:
            return best
        allowed = self._wider_shares(running, most, now)
        for share in allowed:
            end = self.resized(running, share, now).course.finish
            worth = end < finish - self.options.gain * (finish - now)
            if worth and calendar.least(now, end) >= share - running.share:
                best, finish = share, end
        return best

    def _wider_shares(self, running: RunningQuery, most: int, now: float) -> Iterable[int]:
        """Larger shares that it may have: the last item gives nothing back before it ends."""
        query, every = running.query, range(running.share + 1, most + 1)
        if query.deadline < math.inf or running.course.entered(now) < query.items - 1:
            return every
        return [each.places for each in self._shares(query) if each.places in every]

    # ------------------------------------------------------------------ room that others make

    def _room(
        self, query: Query, calendar: PlaceCalendar, now: float, *, low_only: bool
    ) -> MadeRoom | None:
        donors = [
            each
            for each in self.running.values()
            if each.settled and each.share > 1
            if not low_only or each.query.priority is Priority.LOW
        ]
        donors.sort(key=lambda each: (-each.query.priority, -each.slack, each.query.number))

        def resized(running: RunningQuery, share: int) -> NewShare:
            return self.resized(running, share, now)

        times, free = self.profile.times(query.model), self.pool.free
        return RoomSearch(
            query, times, self.most, free, calendar, donors, resized, self._margin, now
        ).find()

    def _use(self, query: Query, room: MadeRoom, now: float) -> None:
        """Take what others give, and start at once if that was meant, or if it is free already:
        who has not begun gives it up at once, and no event would tell of it."""
        for gift in room.gifts:
            self._resize(gift.giver, gift.share, now)
        is_free = room.start <= now + _EPS and self.pool.free >= room.share
        at_once = room.share if is_free else room.at_once
        if not at_once:
            self._accept(query, Reservation(room.start, room.end, room.share))
            return
        running = self._start(query, at_once, now)
        if room.share > at_once:
            running.widening = Reservation(room.start, room.end, room.share)
