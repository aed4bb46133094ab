"""How long each model had each core, second by second, and since the start.

A pool notes each change of owners, thousands a second where queries take less than a millisecond;
a few times a second they are added up. What is kept is bounded however often cores change hands,
and no change is too short to count.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence

from tvm_hetero.serve.core.shares import OwnerLog, Owners
from tvm_hetero.serve.metrics.recent import SECONDS


class CoreTimes:
    """Adds up a pool's changes.

    Parameters
    ----------
    cores : numbers of the pool's cores, as the operating system counts.

    Attributes
    ----------
    cores : these.
    totals : seconds that each model had cores, summed over cores, since the start.
    """

    def __init__(self, cores: Sequence[int], log: OwnerLog, now: float | None = None) -> None:
        self.cores = tuple(cores)
        self.totals: dict[str, float] = defaultdict(float)
        self._log = log
        none: Owners = (None,) * len(self.cores)
        self._owners = next((owners for _, owners in reversed(log.changes)), none)
        self._seen = time.monotonic() if now is None else now
        # A second more than is told: the one that is not over.
        self._ring: list[tuple[int, list[dict[str, float]]]] = [(-1, [])] * (SECONDS + 1)

    @property
    def owners(self) -> Owners:
        """Who had each core at the last look."""
        return self._owners

    def catch_up(self, now: float) -> None:
        """Add what has happened since the last look."""
        news = []
        for when, owners in reversed(self._log.changes):
            if when < self._seen:
                break
            news.append((when, owners))
        for when, owners in reversed(news):
            self._add(self._seen, when)
            self._seen, self._owners = when, owners
        self._add(self._seen, now)
        self._seen = now

    def before(self, second: int) -> list[list[dict[str, float]]]:
        """For each of the `SECONDS` whole seconds before this one, the oldest first, how long (s)
        each core was each model's."""
        rows = dict(self._ring)
        none: list[dict[str, float]] = [defaultdict(float) for _ in self.cores]
        return [rows.get(number, none) for number in range(second - SECONDS, second)]

    def _add(self, begin: float, end: float) -> None:
        """The owners of now had their cores all this time, which may span seconds."""
        while begin < end:
            number = math.floor(begin)
            until = min(end, number + 1.0)
            cores = self._second(number)
            for core, owner in zip(cores, self._owners, strict=True):
                if owner is not None:
                    core[owner] += until - begin
                    self.totals[owner] += until - begin
            begin = until

    def _second(self, number: int) -> list[dict[str, float]]:
        place = number % len(self._ring)
        if self._ring[place][0] != number:
            self._ring[place] = number, [defaultdict(float) for _ in self.cores]
        return self._ring[place][1]
