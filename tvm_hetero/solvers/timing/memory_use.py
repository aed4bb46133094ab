"""What lies in a device's memory over time, while a list scheduler puts things in and takes them out.

Usage is a sum of *changes*: +bytes where a tensor's life begins, -bytes where it ends. They are kept
sorted in runs; a run knows the sum of its changes and the most that they come to on the way, so that
the peak is found run by run. A schedule grows at its end: what a placement changes lies in the last
runs, and of all that is before it is enough to know the most (`Memory.kept`). Going through all that
had ever been alive at every placement made list schedulers quadratic: 2,000 s for 100,000 tasks.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import accumulate

# Changes that one run holds at most.
_RUN = 256

# When usage changes (s), and by how many bytes. Of equal times what ends comes before what begins.
Change = tuple[float, int]


@dataclass
class MemoryLife:
    """Bytes that lie in a memory from `start` to `end` (s, exclusive)."""

    start: float
    end: float
    nbytes: int


@dataclass
class _Run:
    """Successive changes; `most` is None while sum and most must be worked out again."""

    changes: list[Change]
    total: int = 0
    most: int | None = None

    def measure(self) -> tuple[int, int]:
        """The sum of the changes, and the most that they come to on the way (0 before the first)."""
        if self.most is None:
            sums = list(accumulate(change for _, change in self.changes))
            self.total, self.most = (sums[-1], max(0, max(sums))) if sums else (0, 0)
        return self.total, self.most


class Usage:
    """The sum of changes over time."""

    def __init__(self) -> None:
        self.total = 0
        self._runs: list[_Run] = []
        self._lasts: list[Change] = []

    def add(self, time: float, change: int) -> None:
        """Let usage change from a time on; a time that never comes changes nothing."""
        if time == math.inf or change == 0:
            return
        if not self._runs:
            self._runs.append(_Run([]))
            self._lasts.append((time, change))
        r = min(bisect_left(self._lasts, (time, change)), len(self._runs) - 1)
        run = self._runs[r]
        insort(run.changes, (time, change))
        run.most = None
        self.total += change
        self._lasts[r] = run.changes[-1]
        if len(run.changes) > _RUN:
            self._split(r)

    def remove(self, time: float, change: int) -> None:
        """Take back what `add` did."""
        if time == math.inf or change == 0:
            return
        r = bisect_left(self._lasts, (time, change))
        run = self._runs[r]
        del run.changes[bisect_left(run.changes, (time, change))]
        run.most = None
        self.total -= change
        if run.changes:
            self._lasts[r] = run.changes[-1]
        else:
            del self._runs[r], self._lasts[r]

    def peak(self, since: float = -math.inf) -> int:
        """The most bytes at one moment from a time on (of a while before it, too)."""
        most = after = self.total
        for r in range(len(self._runs) - 1, -1, -1):
            if self._lasts[r][0] < since:
                break
            total, rise = self._runs[r].measure()
            after -= total
            most = max(most, after + rise)
        return most

    def releases(self, after: float) -> list[float]:
        """The times later than `after` at which something is given back, rising."""
        found: set[float] = set()
        for r in range(len(self._runs) - 1, -1, -1):
            if self._lasts[r][0] <= after:
                break
            found.update(t for t, change in self._runs[r].changes if change < 0 and t > after)
        return sorted(found)

    def _split(self, r: int) -> None:
        changes = self._runs[r].changes
        half = len(changes) // 2
        self._runs[r : r + 1] = [_Run(changes[:half]), _Run(changes[half:])]
        self._lasts[r : r + 1] = [changes[half - 1], changes[-1]]


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

    def releases(self, after: float) -> list[float]:
        """The times later than `after` at which something is given back, rising."""
        return self.usage.releases(after)
