"""The last samples of something measured, and their quantiles at any time.

A server adds a sample at each request: to sort the window each time takes longer than to know it in
order, and to put one in where another one goes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

from tvm_hetero.util.statistics import quantile


class SlidingWindow:
    """The last `most` samples."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._came: deque[float] = deque()  # in the order in which they came
        self._ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._came)

    def add(self, sample: float) -> None:
        """Take a sample; the oldest one goes if there are too many."""
        if len(self._came) == self._most:
            self.drop_oldest()
        self._came.append(sample)
        insort(self._ordered, sample)

    def drop_oldest(self) -> None:
        """Forget the sample that came first."""
        gone = self._came.popleft()
        del self._ordered[bisect_left(self._ordered, gone)]

    @property
    def largest(self) -> float:
        """The largest sample; there has to be one."""
        return self._ordered[-1]

    def quantile(self, fraction: float) -> float:
        """As `tvm_hetero.util.statistics.quantile`; there has to be a sample."""
        return quantile(self._ordered, fraction)
