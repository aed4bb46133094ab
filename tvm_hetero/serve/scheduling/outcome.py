"""What came of queries that were replayed, or served: figures of one policy on one stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tvm_hetero.serve.scheduling.query import Query, RefuseQuery
from tvm_hetero.util.statistics import quantile


@dataclass
class QueryOutcome:
    """What came of a query: when it ran and on how many places, or why it was refused.

    `shares` are (time, places that it owns) from its start on, each until the next.
    """

    query: Query
    started: float = math.nan
    ended: float = math.nan
    refusal: RefuseQuery | None = None
    shares: list[tuple[float, int]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it ended, or was refused."""
        return self.refusal is not None or not math.isnan(self.ended)

    @property
    def latency(self) -> float:
        """Seconds from arrival to end."""
        return self.ended - self.query.arrival

    @property
    def met(self) -> bool:
        """Whether it was served in time."""
        return self.refusal is None and self.ended <= self.query.deadline + 1e-9


@dataclass(frozen=True)
class ServingFigures:
    """Figures of a stream.

    Attributes
    ----------
    violations : the share of queries that were late or refused; refused : of those the refused.
    high_violations : the same share of the high ones.
    mean, p50, p99 : latency of those that were served, in s.
    rate : queries served a second; goodput : queries served in time a second.
    accommodated : the share of queries that were served in time.
    occupancy : busy place-seconds over place-seconds, while there were queries.
    full : the share of that time in which all places were busy.
    """

    violations: float
    refused: float
    high_violations: float
    mean: float
    p50: float
    p99: float
    rate: float
    goodput: float
    accommodated: float
    occupancy: float
    full: float


def figures_of(outcomes: Sequence[QueryOutcome], places: int) -> ServingFigures:
    """The figures of a stream that has ended, on a pool of so many places."""
    count = len(outcomes)
    met = sum(each.met for each in outcomes)
    served = [each for each in outcomes if each.refusal is None]
    high = [each for each in outcomes if each.query.priority == 0] or outcomes
    latencies = sorted(each.latency for each in served) or [math.nan]
    begin = min(each.query.arrival for each in outcomes)
    span = max([each.ended for each in served] or [begin]) - begin
    span = span or math.nan
    busy, full, loaded = _occupancy(outcomes, places)
    return ServingFigures(
        violations=1 - met / count,
        refused=1 - len(served) / count,
        high_violations=1 - sum(each.met for each in high) / len(high),
        mean=math.fsum(latencies) / len(latencies),
        p50=quantile(latencies, 0.5),
        p99=quantile(latencies, 0.99),
        rate=len(served) / span,
        goodput=met / span,
        accommodated=met / count,
        occupancy=busy / (places * loaded) if loaded else 0.0,
        full=full / loaded if loaded else 0.0,
    )


def _occupancy(outcomes: Sequence[QueryOutcome], places: int) -> tuple[float, float, float]:
    """Busy place-seconds, and seconds: with all places busy, and with any query there."""
    changes: list[tuple[float, int, int]] = []  # time, places more, queries more
    for each in outcomes:
        if each.refusal is not None:
            continue
        changes += [(each.query.arrival, 0, 1), (each.ended, 0, -1)]
        before = 0
        for time, share in [*each.shares, (each.ended, 0)]:
            changes.append((time, share - before, 0))
            before = share
    changes.sort()
    busy = full = loaded = 0.0
    used = present = 0
    for (time, more, coming), after in pairwise(changes):
        used, present = used + more, present + coming
        span = after[0] - time
        busy += used * span
        full += span if used == places else 0.0
        loaded += span if present > 0 else 0.0
    return busy, full, loaded
