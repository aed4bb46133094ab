"""Times by how long they were: counts in buckets, as Prometheus adds them up.

One more time costs a bisection and two additions; what is written for a scraper is made when it
asks. Triton's summaries, which have quantiles instead, cost a third of its throughput (its issue
8561), and quantiles of several servers cannot be put together.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

# Seconds, from a tenth of a millisecond to a minute.
BOUNDS = (
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0,
)  # fmt: skip


class TimeHistogram:
    """Counts of times up to each bound.

    Attributes
    ----------
    bounds : upper ends of buckets, rising; a time at a bound is in its bucket.
    counts : by bucket, and of what is longer than all bounds.
    total : sum of all times (s).
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Bounds as text, and how many times were at most that long."""
        rows, reached = [], 0
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            reached += count
            rows.append(("+Inf" if math.isinf(bound) else repr(float(bound)), float(reached)))
        return rows
