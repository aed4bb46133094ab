"""How many places are free when: a step function from now on, from what is held and reserved.

This is the profile of conservative backfilling (A. W. Mu'alem, D. G. Feitelson, IEEE TPDS 12
(2001), doi:10.1109/71.932708): whoever is promised a time has it in the calendar, and whoever comes
later takes what is left.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import NamedTuple

# Times that differ by less are one: sums in another order must not leave slivers between holds.
EPS = 1e-9


class Reservation(NamedTuple):
    """So many places from `start` to `end`."""

    start: float
    end: float
    share: int


class PlaceCalendar:
    """`count` places, all free from `now` on."""

    def __init__(self, count: int, now: float) -> None:
        self._times = [now]
        self._free = [count]

    def copy(self) -> PlaceCalendar:
        """One that changes on its own."""
        found = PlaceCalendar(0, 0.0)
        found._times, found._free = self._times.copy(), self._free.copy()
        return found

    def take(self, begin: float, end: float, count: int) -> None:
        """Hold so many places from `begin` to `end` (a negative count gives them back)."""
        begin = max(begin, self._times[0])
        if begin >= end - EPS or count == 0:
            return
        first, last = self._cut(begin), None
        if end < math.inf:
            last = self._cut(end)
        for i in range(first, len(self._free) if last is None else last):
            self._free[i] -= count

    def _cut(self, time: float) -> int:
        """The number of the span that begins at a time, which is made if there is none."""
        i = bisect_left(self._times, time - EPS)
        if i == len(self._times) or self._times[i] > time + EPS:
            self._times.insert(i, time)
            self._free.insert(i, self._free[i - 1])
        return i

    def least(self, begin: float, end: float) -> int:
        """The fewest places that are free at any time of a span."""
        first = max(0, bisect_right(self._times, begin + EPS) - 1)
        last = max(first + 1, bisect_left(self._times, end - EPS))
        return min(self._free[first:last])

    @property
    def overbooked(self) -> bool:
        """Whether more is held than there is, at some time."""
        return min(self._free) < 0

    def earliest(self, count: int, seconds: float, after: float) -> float:
        """The first time from which on so many places are free for so long; maybe infinite."""
        times, free = self._times, self._free
        begin = max(after, times[0])
        for i in range(max(0, bisect_right(times, begin + EPS) - 1), len(times)):
            if free[i] < count:
                begin = times[i + 1] if i + 1 < len(times) else math.inf
            elif i + 1 == len(times) or times[i + 1] >= begin + seconds - EPS:
                break
        return begin
