"""When things are busy: what a list scheduler keeps of devices and links while it works."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from operator import sub

# Intervals that one run of a timeline holds at most.
_RUN = 128


class Timeline:
    """Busy intervals of one device or link; they do not overlap and are kept sorted.

    An interval of length 0 counts: it may not lie inside another one, only at its ends.

    The intervals lie in runs that know their widest gap, so that a search steps over what is too
    full: with 30,000 tasks on a device, looking at every interval took a list scheduler most of
    its time.
    """

    def __init__(self) -> None:
        self._runs: list[_BusyRun] = []
        self._lasts: list[float] = []

    @property
    def starts(self) -> list[float]:
        """When the intervals begin, rising."""
        return [start for run in self._runs for start in run.starts]

    @property
    def ends(self) -> list[float]:
        """When the intervals end, rising."""
        return [end for run in self._runs for end in run.ends]

    def fit(self, ready: float, seconds: float) -> float:
        """The earliest time from `ready` on at which `seconds` fit between what is there."""
        start = ready
        for run in islice(self._runs, bisect_right(self._lasts, ready), None):
            starts, ends = run.starts, run.ends
            if starts[0] >= start + seconds:
                break
            if run.too_full(seconds):
                start = max(start, ends[-1])
                continue
            i = bisect_right(ends, start)
            while i < len(starts) and starts[i] < start + seconds:
                start = max(start, ends[i])
                i += 1
            if i < len(starts):
                break
        return start

    def add(self, start: float, end: float) -> None:
        """Mark an interval busy."""
        if not self._runs:
            self._runs.append(_BusyRun([], []))
            self._lasts.append(end)
        r = min(bisect_right(self._lasts, start), len(self._runs) - 1)
        run = self._runs[r]
        run.insert(start, end)
        self._lasts[r] = run.ends[-1]
        if len(run.starts) > _RUN:
            self._runs.insert(r + 1, run.split())
            self._lasts[r : r + 1] = [run.ends[-1], self._lasts[r]]

    def join(self, start: float, end: float) -> None:
        """Mark an interval busy for good, as one with those in its run that it touches.

        Where things lie side by side few intervals are left: 100,000 in a row were found room for
        in a minute one by one, in a second joined.
        """
        r = bisect_right(self._lasts, start)
        if r > 0 and self._lasts[r - 1] == start:
            self._lasts[r - 1] = self._runs[r - 1].ends[-1] = end
        elif r < len(self._runs) and self._runs[r].touch(start, end):
            self._lasts[r] = self._runs[r].ends[-1]
        else:
            self.add(start, end)

    def remove(self, start: float, end: float) -> None:
        """Take back an interval."""
        r = bisect_left(self._lasts, end)
        while not self._runs[r].remove(start, end):
            r += 1
        if self._runs[r].starts:
            self._lasts[r] = self._runs[r].ends[-1]
        else:
            del self._runs[r], self._lasts[r]


@dataclass
class _BusyRun:
    """Successive intervals of a timeline; `widest` is None while it must be worked out again."""

    starts: list[float]
    ends: list[float]
    widest: float | None = None

    def too_full(self, seconds: float) -> bool:
        """Whether no gap between its intervals holds so long a time; False if unsure."""
        if self.widest is None:
            gaps = map(sub, islice(self.starts, 1, None), self.ends)
            # A sum of floats may fit where their difference is a few units in the last place short.
            self.widest = max(gaps, default=0.0) + 2**-50 * self.ends[-1]
        return self.widest < seconds

    def insert(self, start: float, end: float) -> None:
        """Put an interval in its place."""
        i = bisect_right(self.ends, start)
        self.starts.insert(i, start)
        self.ends.insert(i, end)
        self.widest = None

    def touch(self, start: float, end: float) -> bool:
        """Widen the neighbours that an interval touches; False if it touches none."""
        starts, ends = self.starts, self.ends
        i = bisect_right(ends, start)
        before, after = i > 0 and ends[i - 1] == start, i < len(starts) and starts[i] == end
        if before and after:
            ends[i - 1] = ends[i]
            del starts[i], ends[i]
        elif before:
            ends[i - 1] = end
        elif after:
            starts[i] = start
        self.widest = None
        return before or after

    def remove(self, start: float, end: float) -> bool:
        """Take an interval out; False if it is not here."""
        i = bisect_left(self.ends, end)
        while i < len(self.starts) and (self.starts[i], self.ends[i]) != (start, end):
            i += 1
        if i == len(self.starts):
            return False
        del self.starts[i], self.ends[i]
        self.widest = None
        return True

    def split(self) -> _BusyRun:
        """Give away the second half."""
        half = len(self.starts) // 2
        later = _BusyRun(self.starts[half:], self.ends[half:])
        del self.starts[half:], self.ends[half:]
        self.widest = None
        return later


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
