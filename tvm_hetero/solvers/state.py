"""What a list scheduler keeps while it works: when things are busy, and what is in memory when."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field


class Timeline:
    """Busy intervals of one device or link; they do not overlap and are kept sorted.

    An interval of length 0 counts: it may not lie inside another one, only at its ends.
    """

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.ends: list[float] = []

    def fit(self, ready: float, seconds: float) -> float:
        """The earliest time from `ready` on at which `seconds` fit between what is there."""
        i = bisect_right(self.ends, ready)
        start = ready
        while i < len(self.starts) and self.starts[i] < start + seconds:
            start = max(start, self.ends[i])
            i += 1
        return start

    def add(self, start: float, end: float) -> None:
        """Mark an interval busy."""
        i = bisect_right(self.ends, start)
        self.starts.insert(i, start)
        self.ends.insert(i, end)

    def remove(self, start: float, end: float) -> None:
        """Take back an interval."""
        i = bisect_left(self.ends, end)
        while self.starts[i] != start:
            i += 1
        del self.starts[i], self.ends[i]


def earliest(timelines: Sequence[Timeline], ready: float, seconds: float) -> float:
    """The earliest time from `ready` on at which all timelines have `seconds` free at once."""
    start = ready
    while True:
        later = start
        for timeline in timelines:
            later = timeline.fit(later, seconds)
        if later == start:
            return start
        start = later


@dataclass
class Life:
    """Bytes that lie in a memory from `start` to `end` (s, exclusive)."""

    start: float
    end: float
    nbytes: int


@dataclass
class Memory:
    """One device's memory.

    `lives` maps a name to its `Life`; `permanent` are the weights; `total` is the sum of
    everything that was ever put here: while that fits, no moment needs to be looked at.
    """

    limit: int | None
    permanent: int = 0
    total: int = 0
    lives: dict[tuple[int, bool], Life] = field(default_factory=dict)

    def peak(self) -> int:
        """The most bytes that are alive at one moment."""
        events = [(life.start, life.nbytes) for life in self.lives.values() if life.nbytes]
        events += [(life.end, -life.nbytes) for life in self.lives.values() if life.nbytes]
        # At equal times what ends goes before what begins.
        events.sort()
        now = most = 0
        for _, change in events:
            now += change
            most = max(most, now)
        return self.permanent + most

    def overflow(self) -> int:
        """By how many bytes the limit is exceeded at the worst moment; 0 if it is kept."""
        if self.limit is None or self.permanent + self.total <= self.limit:
            return 0
        return max(0, self.peak() - self.limit)

    def releases(self) -> list[float]:
        """The times at which something is given back, rising."""
        ends = {life.end for life in self.lives.values() if life.nbytes}
        return sorted(end for end in ends if end < math.inf)
