"""What the baselines have in common: high before low, first come first served, nothing resized.

The first of the queue holds up all behind it until its share is free. Where `drop_late` is given, a
query whose deadline cannot be met any more when its turn comes is refused: the papers' baselines
have nothing of the kind, as far as is known, and are worse without.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import insort

from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import Query
from tvm_hetero.serve.scheduling.scheduler import Scheduler

_EPS = 1e-9


class InTurn(Scheduler):
    """A queue in which each query asks for a share when its turn comes."""

    def __init__(self, profile: ServiceProfile, places: int, *, drop_late: bool = False) -> None:
        super().__init__(profile, places)
        self.most = min(places, profile.places)
        self._drop_late = drop_late
        self._queue: list[Query] = []

    @abstractmethod
    def share_of(self, query: Query, now: float) -> int | None:
        """On how many places it starts now; None to wait."""

    @property
    def waiting(self) -> tuple[Query, ...]:
        """The queue, in its order."""
        return tuple(self._queue)

    def _receive(self, query: Query, now: float) -> None:
        insort(self._queue, query, key=lambda q: (q.priority, q.arrival, q.number))

    def _forget(self, number: int) -> None:
        self._queue = [query for query in self._queue if query.number != number]

    def _plan(self, now: float) -> None:
        while self._queue:
            query = self._queue[0]
            if self._is_dropped(query, now):
                self._queue.pop(0)
                continue
            share = self.share_of(query, now)
            if share is None:
                return
            self._queue.pop(0)
            self._start(query, share, now)

    def _is_dropped(self, query: Query, now: float) -> bool:
        """Refuse a query that can only be late."""
        end = now + self.profile.latency(query.model, query.items, self._largest(query))
        if not self._drop_late or end <= query.deadline + _EPS:
            return False
        reason = "its turn came too late for its deadline"
        self._refuse(query, reason, query.slo, end - query.arrival, None)
        return True

    def _largest(self, query: Query) -> int:
        """The largest share that it can ever get."""
        return self.most

    def _needed(self, query: Query, now: float) -> int:
        """The least share that meets the deadline, or the quickest one if none does."""
        left = query.deadline - now + _EPS
        found = self.profile.least_share(query.model, query.items, left)
        if found is None or found > self.most:
            found = self.profile.times(query.model).shape(query.items, self.most)
        return found
