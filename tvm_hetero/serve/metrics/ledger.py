"""What each query adds to what is counted, by model and version.

Called by observers on the event loop's thread, once a query, so nothing is locked; all forms in
which it is read are made when someone asks.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tvm_hetero.serve.metrics.by_version import ByVersion
from tvm_hetero.serve.metrics.histogram import TimeHistogram
from tvm_hetero.serve.metrics.recent import RecentMinute, bin_of
from tvm_hetero.serve.models.statistics import EndedQuery


@dataclass(eq=False)
class VersionLedger:
    """Of one version of a model, since it was loaded.

    Attributes
    ----------
    whole, queued, computed : of answered queries: from door to end, before its turn, of its turn.
    outcomes, refused : queries by outcome, and refused ones by reason.
    items : elements that were computed; executions : runs of plans that did it.
    joined : queries that were computed together with others; batches : runs that did it.
    met, missed : queries that had an objective; one that failed or came to its deadline missed it.
    """

    whole: TimeHistogram = field(default_factory=TimeHistogram)
    queued: TimeHistogram = field(default_factory=TimeHistogram)
    computed: TimeHistogram = field(default_factory=TimeHistogram)
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    items: int = 0
    executions: int = 0
    joined: int = 0
    batches: int = 0
    met: int = 0
    missed: int = 0


class Ledger:
    """All that was counted.

    Parameters
    ----------
    clock : seconds by which the last minute is told.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._versions = ByVersion(VersionLedger)
        self._recent: dict[str, RecentMinute] = {}

    def __iter__(self) -> Iterator[tuple[str, str, VersionLedger]]:
        return iter(self._versions)

    def version(self, model: str, version: str) -> VersionLedger:
        """What is counted of a version; made when it is asked for first."""
        return self._versions.row(model, version)

    def recent(self, model: str) -> RecentMinute:
        """The last minute of a model."""
        found = self._recent.get(model)
        if found is None:
            found = self._recent[model] = RecentMinute()
        return found

    @property
    def second(self) -> int:
        """The second that is now."""
        return int(self._clock())

    def end_query(self, query: EndedQuery) -> None:
        """A query is over (`EndedQuery` says how)."""
        row = self.version(query.model, query.version)
        now = self.recent(query.model).at(self.second)
        row.outcomes[query.outcome] += 1
        now.outcomes[query.outcome] += 1
        if query.outcome == "refused":
            row.refused[query.reason] += 1
            now.refused[query.reason] += 1
            return
        met = judge(query)
        row.met, row.missed = row.met + (met is True), row.missed + (met is False)
        now.met, now.missed = now.met + (met is True), now.missed + (met is False)
        if query.outcome != "success":
            return
        row.items, now.items = row.items + query.items, now.items + query.items
        row.executions += query.executions
        if query.together > 1:  # one of them is told of the run
            row.joined, now.joined = row.joined + 1, now.joined + 1
            row.batches, now.batches = (
                row.batches + query.executions,
                now.batches + query.executions,
            )
        row.whole.add(query.whole)
        row.queued.add(query.queued)
        row.computed.add(query.computed)
        now.bins[bin_of(query.whole)] += 1
        if now.slowest is None or query.whole > now.slowest.whole:
            now.slowest = query


def judge(query: EndedQuery) -> bool | None:
    """Whether a query met its objective; None: it had none, or its client did not wait."""
    if query.outcome == "success":
        return None if query.slo is None else query.whole <= query.slo
    if query.outcome in ("deadline", "failed"):
        return None if query.slo is None else False
    return None
