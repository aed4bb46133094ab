"""What Accordion learns of a stream: which queries are lost, and what a place-second is worth.

Every query counts as one, however much it takes, and takes what one of its kind does by what is
known now (`load_window`). A heavy one that is accepted may keep several
lighter ones out, of which that costs more. Of the last `_WINDOW` arrivals, for a query of w
place-seconds:

    lost     queries lighter than w that were refused for want of places, at least two
    taken    place-seconds of queries at least as heavy that were not
    price    caution * min(lost / (taken + w), 1 / the mean work of the lost):  how many of
             them a place-second less for heavy ones would have let in
    caution  rises with the share of arrivals that were lost, to `_CAUTION` at most: few losses
             may be chance
    worth    a query is worth its places if  w * price <= 1

A high query is compared with high ones alone, a low one with all. Where nothing light is refused,
the price is 0 and every query is worth its places.

Time in which nothing runs and nothing waits counts as arrivals that were not lost, a quarter
(`_IDLE`) of those that the pool could have served in it: each makes the oldest one forgotten, so
that an overload that has ended refuses nobody, however few come after it. All of them would make a
pause between two bursts the end of it (benchmarks/accordion.py).

`spare` places are kept from widening, for queries that come and cannot wait. It begins with half
of the pool; one more after a query was refused that would have had a place, had others not been
widened; one less after `_CALM` arrivals without, but never none.
"""

from __future__ import annotations

import math

from tvm_hetero.serve.scheduling.policies.load_window import ALIKE, Load, LoadWindow
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority

_WINDOW = 256
_CAUTION = 2.0
_RISE = 16.0
_CALM = 256
_IDLE = 0.25


class Pressure:
    """See the head of this file, for a pool of so many places."""

    def __init__(self, places: int, profile: ServiceProfile | None = None) -> None:
        self._places = places
        self._most = places - 1
        self.spare = min(self._most, max(1, round(places / 2)))
        self._calm = 0
        self._idle = 0.0  # seconds of an idle pool that have made nobody forgotten yet
        self._seen = LoadWindow(profile)

    def arrive(self, load: Load, priority: Priority, *, due: bool) -> None:
        """A query has come; `due`: it has a deadline."""
        if len(self._seen) == _WINDOW:
            self._seen.forget_oldest()
        self._seen.append(load, priority, due=due)
        self._stay_calm()

    def idle(self, seconds: float) -> None:
        """Nothing ran and nothing waited for so long."""
        self._idle += _IDLE * seconds
        while self._seen and self._idle * self._places >= self.mean_work:
            self._idle -= self.mean_work / self._places
            self._seen.forget_oldest()
            self._stay_calm()
        if not self._seen:
            self._idle = 0.0

    def _stay_calm(self) -> None:
        self._calm += 1
        if self._calm >= _CALM:
            self._calm = 0
            self.spare = max(min(1, self._most), self.spare - 1)

    def lose(self, *, avoidable: bool) -> None:
        """The query that came last was refused for want of places.

        Parameters
        ----------
        avoidable : whether others have been widened.
        """
        self._seen.lose_newest()
        if avoidable:
            self._calm = 0
            self.spare = min(self._most, self.spare + 1)

    @property
    def has_deadlines(self) -> bool:
        """Whether any of those seen has a deadline."""
        return self._seen.due > 0

    @property
    def mean_lost(self) -> float:
        """Place-seconds of a lost query, in the mean; infinite if not two were lost."""
        return self._seen.mean_lost if self._seen.lost > 1 else math.inf

    @property
    def mean_work(self) -> float:
        """Place-seconds of a query, in the mean."""
        return self._seen.mean

    def price(self, work: float, priority: Priority) -> float:
        """What a place-second is worth to lighter queries, in queries."""
        if self._seen.lost < 2:
            return 0.0
        rivals = lost = 0
        taken = lost_work = 0.0
        for row, each, count in self._seen.rows():
            is_lighter = each * ALIKE < work
            if row.priority <= priority:
                rivals += count
                if row.lost and is_lighter:
                    lost, lost_work = lost + count, lost_work + count * each
            if not row.lost and not is_lighter:
                taken += count * each
        if lost < 2:
            return 0.0
        caution = min(_CAUTION, _RISE * lost / rivals)
        return caution * min(lost / (taken + work), lost / lost_work)
