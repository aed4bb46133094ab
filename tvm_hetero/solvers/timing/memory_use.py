"""What lies in a device's memory over time, while a list scheduler places and takes back.

Usage is a sum of *changes*: +bytes where a tensor's life begins, -bytes where it ends. They are
kept sorted in runs; a run knows the sum of its changes and the most that they come to on the way,
so that the peak is found run by run. A schedule grows at its end: what a placement changes lies in
the last runs, and of all that is before it is enough to know the most (`Memory.kept`). Going
through all that had ever been alive at every placement made list schedulers quadratic: more than
2,000 s for 100,000 tasks.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add

# Changes that one run holds at most.
_RUN = 64
# Of a run whose changes have not been added up.
_UNKNOWN = -1

# When usage changes (s), and by how many bytes. Of equal times what ends comes before what begins.
Change = tuple[float, int]


@dataclass
class MemoryLife:
    """Bytes that lie in a memory from `start` to `end` (s, exclusive)."""

    start: float
    end: float
    nbytes: int


class Usage:
    """The sum of changes over time."""

    def __init__(self) -> None:
        self.total = 0
        self._runs: list[list[Change]] = []
        self._lasts: list[Change] = []
        # Of every run, what its changes come to in the end, and at most on the way (at least 0);
        # the latter is unknown while both must be worked out again. All before `_old` are known.
        self._totals: list[int] = []
        self._mosts: list[int] = []
        self._old = 0

    def add(self, time: float, change: int) -> None:
        """Let usage change from a time on; a time that never comes changes nothing."""
        if time == math.inf or change == 0:
            return
        if not self._runs:
            self._put(0, [])
        r = min(bisect_left(self._lasts, (time, change)), len(self._runs) - 1)
        run = self._runs[r]
        insort(run, (time, change))
        self._touch(r)
        self.total += change
        self._lasts[r] = run[-1]
        if len(run) > _RUN:
            self._put(r + 1, run[_RUN // 2 :])
            del run[_RUN // 2 :]
            self._lasts[r] = run[-1]

    def remove(self, time: float, change: int) -> None:
        """Take back what `add` did."""
        if time == math.inf or change == 0:
            return
        r = bisect_left(self._lasts, (time, change))
        run = self._runs[r]
        del run[bisect_left(run, (time, change))]
        self._touch(r)
        self.total -= change
        if run:
            self._lasts[r] = run[-1]
        else:
            del self._runs[r], self._lasts[r], self._totals[r], self._mosts[r]

    def peak(self, since: float = -math.inf) -> int:
        """The most bytes at one moment from a time on (of a while before it, too)."""
        first = bisect_left(self._lasts, (since, -math.inf))
        mosts, totals = self._measured(first), self._totals[first:]
        before = self.total - sum(totals)
        return max(map(add, accumulate(totals, initial=before), mosts), default=self.total)

    def releases(self, after: float, most: int) -> list[float]:
        """Times later than `after` at which something is given back, rising.

        About `most` of them, the last one among them: all would be looked at for every task.
        """
        first = bisect_left(self._lasts, (after, math.inf))
        step = max(1, math.ceil((len(self._runs) - first) / most))
        found: set[float] = set()
        for run in self._runs[first:][::-1][::step]:
            ends = [t for t, change in run if change < 0 and t > after]
            found.update(ends[-1:] if step > 1 else ends)
        times = sorted(found, reverse=True)
        return times[:: max(1, math.ceil(len(times) / most))][::-1]

    def _put(self, r: int, changes: list[Change]) -> None:
        """Put in a run."""
        self._runs.insert(r, changes)
        self._lasts.insert(r, changes[-1] if changes else (math.inf, 0))
        self._totals.insert(r, 0)
        self._mosts.insert(r, _UNKNOWN)
        self._old = min(self._old, r)

    def _measured(self, first: int) -> list[int]:
        """The most of every run from `first` on, worked out where it must be."""
        for r in range(max(first, self._old), len(self._runs)):
            if self._mosts[r] == _UNKNOWN:
                sums = list(accumulate(change for _, change in self._runs[r]))
                self._totals[r], self._mosts[r] = sums[-1], max(0, max(sums))
        if first <= self._old:
            self._old = len(self._runs)
        return self._mosts[first:]

    def _touch(self, r: int) -> None:
        self._mosts[r] = _UNKNOWN
        self._old = min(self._old, r)


@dataclass
class Memory:
    """One device's memory.

    Attributes
    ----------
    limit : bytes; None if there is none.
    permanent : the weights.
    total : everything that was ever put here: while that fits, no moment needs to be looked at.
    lives : what lies here when, by name.
    kept : bytes that usage nowhere exceeds, of all that was placed for good.
    since : from when on the placement that is being tried lets usage grow, s.
    """

    limit: int | None
    permanent: int = 0
    total: int = 0
    lives: dict[tuple[int, bool], MemoryLife] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    kept: int = 0
    since: float = math.inf
    _loose: bool = False

    def hold(self, key: tuple[int, bool], life: MemoryLife) -> None:
        """Put something in."""
        self.lives[key] = life
        self.total += life.nbytes
        self.usage.add(life.start, life.nbytes)
        self.usage.add(life.end, -life.nbytes)
        self.since = min(self.since, life.start)

    def drop(self, key: tuple[int, bool]) -> None:
        """Take back what `hold` did."""
        life = self.lives.pop(key)
        self.total -= life.nbytes
        self.usage.remove(life.start, life.nbytes)
        self.usage.remove(life.end, -life.nbytes)

    def end_at(self, key: tuple[int, bool], end: float) -> None:
        """Let a life end at another time."""
        life = self.lives[key]
        if end == life.end:
            return
        self.usage.remove(life.end, -life.nbytes)
        self.usage.add(end, -life.nbytes)
        if end > life.end:
            self.since = min(self.since, life.end)
        life.end = end

    def peak(self) -> int:
        """The most bytes that are alive at one moment."""
        return self.permanent + self.usage.peak()

    def overflow(self) -> int:
        """By how many bytes the limit is exceeded at the worst moment; 0 if it is kept."""
        if self.limit is None or self.permanent + self.total <= self.limit:
            return 0
        if self.permanent + max(self.kept, self.usage.peak(self.since)) <= self.limit:
            return 0
        # What was kept is a bound from above: things may have ended earlier since.
        self._loose = True
        return max(0, self.peak() - self.limit)

    def keep(self) -> None:
        """What was put in stays."""
        if self._loose:
            self.kept = self.usage.peak()
        elif self.since < math.inf:
            self.kept = max(self.kept, self.usage.peak(self.since))
        self.forget()

    def forget(self) -> None:
        """What was tried has been taken back."""
        self.since, self._loose = math.inf, False

    def releases(self, after: float, most: int) -> list[float]:
        """About `most` times later than `after` at which something is given back, rising."""
        return self.usage.releases(after, most)
