"""One query for several that wait: how a batch takes the place of its members.

What is reserved for all others stays; the batch has the earliest deadline of those for which it
stands, and of one that comes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from tvm_hetero.serve.scheduling.calendar import Reservation
from tvm_hetero.serve.scheduling.policies.pressure import QueryLoad
from tvm_hetero.serve.scheduling.policies.reservations import place
from tvm_hetero.serve.scheduling.policies.undated import UndatedShares
from tvm_hetero.serve.scheduling.query import Query, ShareDecision


class BatchingShares(UndatedShares):
    """Malleable shares whose queries may become one while they wait."""

    can_batch = True

    def exchange(
        self, numbers: Collection[int], query: Query, now: float
    ) -> list[ShareDecision] | None:
        """As `Scheduler.exchange`: what is reserved for others stays so."""
        found = self._exchanged(numbers, query, now)
        if found is None:
            return None
        whole, spot = found
        is_hope = self._is_hope(numbers)
        freed = sum(self._load(self._waiting[number].query).work for number in numbers)
        more = QueryLoad(None, max(0.0, self._load(whole).work - freed))
        self.pressure.arrive(more, query.priority, due=whole.deadline < math.inf)
        for number in numbers:
            self._forget(number)
        self._accept(whole, spot, is_hope=is_hope)
        self._freed = True
        return self._decide(now)

    def can_exchange(self, numbers: Collection[int], query: Query, now: float) -> bool:
        """As `Scheduler.can_exchange`."""
        return self._exchanged(numbers, query, now) is not None

    def _exchanged(
        self, numbers: Collection[int], query: Query, now: float
    ) -> tuple[Query, Reservation] | None:
        """The query with the earliest deadline of all for which it stands, and its reservation."""
        if not self._waiting.keys() >= set(numbers):
            return None
        self._reserve_all(now)
        calendar = self._calendar(now)
        for number in numbers:
            spot = self._waiting[number].reservation
            calendar.take(spot.start, spot.end, -spot.share)
        first = min(self._waiting[number].query.deadline for number in numbers)
        wanted = [min(first, query.deadline)]
        if self.options.best_effort:  # the one that comes may be late, those that wait may not
            wanted.append(first)
        for deadline in wanted:
            whole = replace(query, deadline=max(deadline, math.nextafter(query.arrival, math.inf)))
            shares, is_hope = self._shares(whole), self._is_hope(numbers)
            found = place(whole, shares, calendar, now, is_hope=is_hope)
            if found is not None and found.end < math.inf:
                return whole, found
        return None

    def _is_hope(self, numbers: Collection[int]) -> bool:
        """Whether one of those that wait has no margin: whoever joins it has none either."""
        return any(self._waiting[number].is_hope for number in numbers)
