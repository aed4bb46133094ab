"""The course of a query: when its items enter the pipeline and when they end, as predicted.

A query of n items runs on k places in the shape that its profile knows: the first item takes
`fill`, the others follow at the distance `period`:

    entry(j) = entry + (j - first) * period         end(j) = base + (j - first) * period

`first` is the first item under the present share, `base` its end. A new share (at `now`, with fill'
and period') leaves those that have entered as they are; items behind them go the new way:

    wider      at once, since a place that was idle can be the first stage:
               entry' = now
    narrower   with the next item, j:  entry' = entry(j); what is given up are the first stages,
               which are empty after as many periods:    release = entry(j) + (k - k') * period
    both       base' = max(entry' + fill', end(j - 1) + period') + switch

When all have entered, nothing changes but that places at the front become free: the i-th one at
last entry + i * period. So the end of a pipeline is no loss to whoever waits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

_EPS = 1e-9


class Pace(NamedTuple):
    """Seconds of the first item, and between the ends of two."""

    fill: float
    period: float

    def seconds(self, items: int) -> float:
        """What so many items take."""
        return self.fill + (items - 1) * self.period


class NewShare(NamedTuple):
    """A course under a new share, and when places that it gives up are free."""

    course: Course
    release: float


@dataclass(frozen=True)
class Course:
    """See the head of this file. `items` in all, `share` is the number of places."""

    items: int
    share: int
    first: int
    entry: float
    base: float
    period: float

    @classmethod
    def begin(cls, items: int, share: int, pace: Pace, now: float) -> Course:
        """All items enter one after the other from now on."""
        return cls(items, share, 0, now, now + pace.fill, pace.period)

    @property
    def finish(self) -> float:
        """When the last item ends."""
        return self.end_of(self.items - 1)

    @property
    def last_entry(self) -> float:
        """When the last item enters."""
        return self.entry + (self.items - 1 - self.first) * self.period

    def end_of(self, item: int) -> float:
        """When an item ends; of those before `first` an upper bound."""
        return self.base + (item - self.first) * self.period

    def entered(self, now: float) -> int:
        """How many items have entered before now: the next one can go another way."""
        if now <= self.entry + _EPS:
            return self.first
        passed = math.ceil((now - self.entry) / self.period - _EPS)
        return min(self.items, self.first + passed)

    def resized(self, now: float, share: int, pace: Pace, switch: float) -> NewShare:
        """The course with another share from now on, at a cost of `switch` seconds."""
        item = self.entered(now)
        given_up = max(0, self.share - share)
        if item >= self.items:
            return NewShare(
                replace(self, share=share), max(now, self.last_entry + given_up * self.period)
            )
        entry = max(now, self.entry + (item - self.first) * self.period) if given_up else now
        base = entry + pace.fill
        if item > 0:
            base = max(base, self.end_of(item - 1) + pace.period) + switch
        course = Course(self.items, share, item, entry, base, pace.period)
        return NewShare(course, entry + given_up * self.period if item > 0 else now)

    def shifted(self, item: int, ended: float) -> Course:
        """What is known when an item has ended: all that follows is as late as it was."""
        late = ended - self.end_of(item)
        if item < self.first or late == 0:
            return self
        return replace(self, entry=self.entry + late, base=self.base + late)
