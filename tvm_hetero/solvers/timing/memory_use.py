"""What lies in a device's memory over time, while a list scheduler places and takes back.

Usage is a sum of *changes*: +bytes where a tensor's life begins, -bytes where it ends. They are
kept sorted in runs; a run knows the sum of its changes and the most that they come to on the way.
After a placement only the runs that it touched are added up again, and the peak is that of some
thousand runs at once. Going through all that had ever been alive at every placement made list
schedulers quadratic, too slow for large graphs (`python -m benchmarks.limits`).
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

# Changes that one run holds at most.
_RUN = 128

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
        self._runs: list[list[Change]] = []
        self._lasts: list[Change] = []
        # Of every run, what its changes come to in the end, and at most on the way (at least 0);
        # not yet of those that are in `_changed`.
        self._totals = np.zeros(0, dtype=np.int64)
        self._mosts = np.zeros(0, dtype=np.int64)
        self._changed: set[int] = set()

    def add(self, time: float, change: int) -> None:
        """Let usage change from a time on; a time that never comes changes nothing."""
        if time == math.inf or change == 0:
            return
        if not self._runs:
            self._put(0, [])
        r = min(bisect_left(self._lasts, (time, change)), len(self._runs) - 1)
        run = self._runs[r]
        insort(run, (time, change))
        self._changed.add(r)
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
        self._changed.add(r)
        if run:
            self._lasts[r] = run[-1]
        else:
            self._drop(r)

    def peak(self) -> int:
        """The most bytes at one moment."""
        if not self._runs:
            return 0
        for r in self._changed:
            sums = list(accumulate(change for _, change in self._runs[r]))
            self._totals[r], self._mosts[r] = sums[-1], max(0, max(sums))
        self._changed.clear()
        return int((np.cumsum(self._totals) - self._totals + self._mosts).max())

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
        self._totals = np.insert(self._totals, r, 0)
        self._mosts = np.insert(self._mosts, r, 0)
        self._changed = {r, *(i + (i >= r) for i in self._changed)}

    def _drop(self, r: int) -> None:
        """Take out an empty run."""
        del self._runs[r], self._lasts[r]
        self._totals = np.delete(self._totals, r)
        self._mosts = np.delete(self._mosts, r)
        self._changed = {i - (i > r) for i in self._changed if i != r}


@dataclass
class Memory:
    """One device's memory.

    Attributes
    ----------
    limit : bytes; None if there is none.
    permanent : the weights.
    total : everything that was ever put here: while that fits, no moment needs to be looked at.
    lives : what lies here when, by name.
    since : from when on something is held for the placement that is being tried, s.
    """

    limit: int | None
    permanent: int = 0
    total: int = 0
    lives: dict[tuple[int, bool], MemoryLife] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    since: float = math.inf

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

    def start_at(self, key: tuple[int, bool], start: float) -> None:
        """Let a life begin at another time."""
        life = self.lives[key]
        if start == life.start:
            return
        self.usage.remove(life.start, life.nbytes)
        self.usage.add(start, life.nbytes)
        life.start = start
        self.since = min(self.since, start)

    def end_at(self, key: tuple[int, bool], end: float) -> None:
        """Let a life end at another time."""
        life = self.lives[key]
        if end == life.end:
            return
        self.usage.remove(life.end, -life.nbytes)
        self.usage.add(end, -life.nbytes)
        life.end = end

    def peak(self) -> int:
        """The most bytes that are alive at one moment."""
        return self.permanent + self.usage.peak()

    def overflow(self) -> int:
        """By how many bytes the limit is exceeded at the worst moment; 0 if it is kept."""
        if self.limit is None or self.permanent + self.total <= self.limit:
            return 0
        return max(0, self.peak() - self.limit)

    def releases(self, after: float, most: int) -> list[float]:
        """About `most` times later than `after` at which something is given back, rising."""
        return self.usage.releases(after, most)
