"""Queries without deadline, of which nothing is promised, and so nothing is reserved.

A reservation for each that waits has to be found anew whenever places come free earlier than was
thought: at each event as many steps as queries wait. Where a deadline depends on them they are
worth it. Where nobody who waits has one, the next query is sought when places are free, and no one
behind it is looked at; the first that comes with a deadline finds all reservations made
(`UndatedShares._reserve_all`), in the same order and by the same rule.

    start      while places are free, in order: high before low, each by its arrival; who wants
               more places than are free has its reservation among those behind it, so that
               they do not keep it from its turn
    otherwise  (places are left, or somebody could give some) as with deadlines
    refuse     one with a deadline before which those in front of it hold all places: those behind
               that are not looked at, so that it takes as many steps as fit before the deadline
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm_hetero.serve.scheduling.calendar import Reservation
from tvm_hetero.serve.scheduling.policies.malleable import MalleableShares
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions, WaitingQuery
from tvm_hetero.serve.scheduling.policies.reservations import (
    calendar_of,
    expected_end,
    soonest,
)
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority, Query

_EPS = 1e-9
_NONE = Reservation(math.inf, math.inf, 0)  # holds no place at any time


class UndatedShares(MalleableShares):
    """Malleable shares that reserve nothing while no deadline waits; see the head of this file."""

    def __init__(
        self, profile: ServiceProfile, places: int, options: AccordionOptions | None = None
    ) -> None:
        super().__init__(profile, places, options)
        self._dated = 0  # of those that wait, how many have a deadline
        self._is_reserved = True  # whether all that wait have reservations that count

    def _accept(self, query: Query, reservation: Reservation, *, is_hope: bool = False) -> None:
        super()._accept(query, reservation, is_hope=is_hope)
        self._dated += query.deadline < math.inf

    def _forget(self, number: int) -> None:
        if number in self._waiting:
            self._dated -= self._waiting[number].query.deadline < math.inf
        super()._forget(number)

    def _accept_undated(self, query: Query) -> None:
        """Let one without deadline wait beside others without."""
        self._accept(query, _NONE)
        self._is_reserved = False

    def _plan(self, now: float) -> None:
        if self._waiting and not self._dated:
            self._widen_promised(now)
            self._start_in_order(now)
            if self._waiting and not self.pool.free and not self._may_give():
                self._seen_at, self._freed, self._is_reserved = now, False, False
                return
            self._reserve_all(now)
        super()._plan(now)

    def _may_give(self) -> bool:
        """Whether a running query could give places to a high one that waits (`_hurry`)."""
        return self.options.shrink and any(
            each.share > 1 and each.query.priority is Priority.LOW for each in self.running.values()
        )

    def _start_in_order(self, now: float) -> None:
        if not self.pool.free:
            return
        for each, spot in self._spots(now):
            if spot.start <= now + _EPS and self.pool.free >= spot.share:
                self._forget(each.query.number)
                self._start(each.query, spot.share, now)
            if not self.pool.free:
                return

    def _reserve_all(self, now: float) -> None:
        """Make reservations for all that wait, if there are none that count."""
        if not self._is_reserved:
            for each, spot in self._spots(now):
                each.reservation = spot
            self._freed, self._is_reserved = False, True

    def _is_crowded(self, query: Query, now: float) -> bool:
        """Whether those without deadline that come before a query leave it no place before its own.

        Only if that is certain. Then it has no place beside what would be reserved for all of them,
        and none in any other order: they would be in front there, too.
        """
        if self._dated or self._is_reserved or not self._waiting:
            return False
        if any(each.share > 1 for each in self.running.values()):
            return False  # which could give places
        turn = WaitingQuery(query, _NONE, self._aged_at(query)).order(now)
        calendar = calendar_of(self.pool.count, self.running.values(), now)
        for each in sorted(self._waiting.values(), key=lambda each: each.order(now)):
            if calendar.earliest(1, 0.0, now) >= query.deadline:
                return True
            shares = self._shares(each.query)
            is_guarded = self._guard(each.query, self._load(each.query, shares)) > 0
            if is_guarded or each.order(now) > turn:
                return False
            spot = soonest(shares, calendar, now)
            calendar.take(spot.start, spot.end, spot.share)
        return calendar.earliest(1, 0.0, now) >= query.deadline

    def _turn_of_last(self, now: float) -> float:
        """When who comes last would begin, if all places were busy until then: an estimate."""
        left = sum(
            each.share * max(0.0, expected_end(each.course, now) - now)
            for each in self.running.values()
        )
        return now + (left + sum(each.work for each in self._waiting.values())) / self.pool.count

    def _spots(self, now: float) -> Iterator[tuple[WaitingQuery, Reservation]]:
        """In order, when each could begin beside all that run and those before it."""
        calendar = calendar_of(self.pool.count, self.running.values(), now)
        for each in sorted(self._waiting.values(), key=lambda each: each.order(now)):
            shares = self._shares(each.query)
            guard = self._guard(each.query, self._load(each.query, shares))
            spot = soonest(shares, calendar, now, guard)
            calendar.take(spot.start, spot.end, spot.share)
            yield each, spot
