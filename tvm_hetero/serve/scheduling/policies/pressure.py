"""What Accordion learns of a stream: which queries are lost, and what a place-second is worth.

Every query counts as one, however much it takes. A heavy one that is accepted may keep several
lighter ones out, of which that costs more. From the last `_WINDOW` arrivals:

    lost(w)    queries lighter than w that were refused for want of places, a second
    price(w)   min(lost(w), 1 / their mean work): what a place-second more would have saved, at most
    worth      a query of w place-seconds is worth its places if  w * price(w) <= 1

When no light query is refused, the price is 0 and every query is worth its places.

`spare` places are kept for queries that come and cannot wait: from widening, and from queries that
can. One more after a query was refused while others had been widened or could have waited; one
less after `_CALM` arrivals without.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_WINDOW = 256
_CALM = 64


@dataclass
class _SeenQuery:
    """An arrival: when, with how many place-seconds, and whether it was refused for its weight."""

    time: float
    work: float
    lost: bool = False


class Pressure:
    """See the head of this file; `most` bounds `spare`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.spare = 0
        self._calm = 0
        self._seen: deque[_SeenQuery] = deque(maxlen=_WINDOW)

    def arrive(self, work: float, now: float) -> None:
        """A query has come."""
        self._seen.append(_SeenQuery(now, work))
        self._calm += 1
        if self._calm >= _CALM:
            self._calm = 0
            self.spare = max(0, self.spare - 1)

    def lose(self, *, avoidable: bool) -> None:
        """The query that came last was refused for want of places.

        Parameters
        ----------
        avoidable : whether places that others had beyond their need would have been enough.
        """
        self._seen[-1].lost = True
        if avoidable:
            self._calm = 0
            self.spare = min(self.most, self.spare + 1)

    def price(self, work: float) -> float:
        """What a place-second is worth to lighter queries, in queries."""
        lighter = [each.work for each in self._seen if each.lost and each.work < work]
        span = self._seen[-1].time - self._seen[0].time if self._seen else 0.0
        if not lighter or span <= 0:
            return 0.0
        return min(len(lighter) / span, len(lighter) / sum(lighter))

    def is_worth(self, work: float) -> bool:
        """Whether a query is worth its places."""
        return work * self.price(work) <= 1.0
