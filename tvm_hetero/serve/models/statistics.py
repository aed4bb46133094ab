"""What a model has done so far: counts and times, as the protocols report them.

Times are wall-clock nanoseconds, summed in integers, which lose nothing however long a server runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_NANO = 1_000_000_000
MOST_ITEMS = 64
"""Queries of more elements are counted as of so many: clients choose the number."""

# Told of each query that ended: seconds in the queue, of computing, and what became of it.
Observer = Callable[["EndedQuery"], object]


@dataclass(frozen=True)
class EndedQuery:
    """A query that is over.

    Attributes
    ----------
    model, version : who was asked.
    outcome : ``success``, ``deadline``, ``cancelled``, ``failed``, or ``refused``.
    reason : of a refusal (`serve.core.refusal.REASONS`), else empty.
    queued, computed, whole : seconds before its first kernel, of computing, from door to end.
    items : elements of its inputs.
    slo : the seconds in which it should have been answered; None: it had no objective.
    """

    model: str
    version: str
    outcome: str
    reason: str = ""
    queued: float = 0.0
    computed: float = 0.0
    whole: float = 0.0
    items: int = 0
    slo: float | None = None


@dataclass
class PhaseTime:
    """How often, and how long together (ns)."""

    count: int = 0
    ns: int = 0

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.ns += int(seconds * _NANO)


@dataclass
class ModelStatistics:
    """Counts and times of one version of a model.

    Attributes
    ----------
    items, executions : elements that were computed, and requests of executors that did it.
    last : when the last query came, by `time.time`; 0: none has.
    success, fail, queue, infer : of whole queries, and of their phases.
    decode, encode : from a request's bytes to arrays, and back.
    by_items : of computing, by queries' numbers of elements.
    pending : queries that are in now.
    """

    items: int = 0
    executions: int = 0
    last: float = 0.0
    success: PhaseTime = field(default_factory=PhaseTime)
    fail: PhaseTime = field(default_factory=PhaseTime)
    queue: PhaseTime = field(default_factory=PhaseTime)
    infer: PhaseTime = field(default_factory=PhaseTime)
    decode: PhaseTime = field(default_factory=PhaseTime)
    encode: PhaseTime = field(default_factory=PhaseTime)
    by_items: dict[int, PhaseTime] = field(default_factory=dict)
    pending: int = 0

    def begin(self) -> None:
        """A query has come."""
        self.pending += 1
        self.last = time.time()

    def end(self, query: EndedQuery) -> None:
        """It is over."""
        self.pending -= 1
        if query.outcome == "success":
            self.success.add(query.whole)
            self.queue.add(query.queued)
            self.infer.add(query.computed)
            self.by_items.setdefault(min(query.items, MOST_ITEMS), PhaseTime()).add(query.computed)
            self.items += query.items
            self.executions += query.items
        else:
            self.fail.add(query.whole)
