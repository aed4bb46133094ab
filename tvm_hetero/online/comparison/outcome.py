"""What came of a stream under a policy, and the figures by which policies are compared.

With the requests of a stream numbered in the order of their ends e(q), those of a span [a, b) went
at (b - a) / (e(b - 1) - e(a - 1)) a second.

    before, disturbed, after    that rate, over all spans of the kind
    latency                     from entering to the end, of all requests
    recovery                    seconds from the begin of a disturbance to the first window from
                                which on, to the end of the disturbance, the rate is at least
                                `_GOOD` of the best one there is; the median over disturbances

A window that is merely lucky, or a trial, is no recovery: what counts is the rate from there on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tvm_hetero.errors import UsageError
from tvm_hetero.online.comparison.spans import DisturbedSpans
from tvm_hetero.util.statistics import quantile

# What share of the best rate is good enough.
_GOOD = 0.9
# Requests of the windows that are looked at for that, and at least of a point in a picture.
_WINDOW, _LEAST_POINT = 20, 8


@dataclass(frozen=True)
class PlanChange:
    """A switch, or the end of a search: at which request, and when (s since the stream began).

    `cause` is what slowed a stage, as far as it is known; `switched`: another configuration begins.
    """

    request: int
    seconds: float
    configuration: str
    switched: bool
    why: str
    cause: str = ""


@dataclass(frozen=True)
class StreamOutcome:
    """A stream: when each request entered and ended (s since it began), and what was changed.

    `note`: what has to be said of it, say that nothing was adapted and why.
    """

    policy: str
    entered: tuple[float, ...]
    ended: tuple[float, ...]
    trials: int = 0
    changes: tuple[PlanChange, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if not self.ended or len(self.ended) != len(self.entered):
            raise UsageError(
                f"policy {self.policy!r}: expected requests that entered and ended, got "
                f"{len(self.entered)} and {len(self.ended)}"
            )

    @property
    def switches(self) -> int:
        """How often another configuration began."""
        return sum(change.switched for change in self.changes)

    def seconds(self, begin: int, end: int) -> float:
        """What requests `begin` to `end` - 1 took, from the end of the one before them."""
        return self.ended[end - 1] - (self.ended[begin - 1] if begin else 0.0)

    def moment(self, request: int) -> float:
        """When the request before that one had ended."""
        return self.ended[request - 1] if request else 0.0


@dataclass(frozen=True)
class BestRates:
    """The highest requests/s of any configuration, in quiet and disturbed; None: not known.

    `how` : for people, by what it is known, or why it is not.
    """

    quiet: float | None
    disturbed: float | None
    how: str


@dataclass(frozen=True)
class StreamFigures:
    """The figures of a stream (see the head of this file); None where there is none."""

    before: float | None
    disturbed: float | None
    after: float | None
    trials: int
    switches: int
    p50: float
    p99: float
    recovery: float | None


def measure_outcome(
    outcome: StreamOutcome, spans: DisturbedSpans, best: BestRates
) -> StreamFigures:
    """The figures of a stream that was disturbed there; of one that was cut short, as far as it is.

    See the head of this file.
    """
    latencies = sorted(b - a for a, b in zip(outcome.entered, outcome.ended, strict=True))
    first = spans.spans[0][0] if spans.spans else spans.requests
    return StreamFigures(
        before=_rate(outcome, [(0, first)]),
        disturbed=_rate(outcome, spans.spans),
        after=_rate(outcome, spans.quiet),
        trials=outcome.trials,
        switches=outcome.switches,
        p50=quantile(latencies, 0.5),
        p99=quantile(latencies, 0.99),
        recovery=_recovery(outcome, spans, best.disturbed),
    )


def _rate(outcome: StreamOutcome, spans: Sequence[tuple[int, int]]) -> float | None:
    """Requests/s over all of the spans."""
    count = len(outcome.ended)
    kept = [(a, min(b, count)) for a, b in spans if a < min(b, count)]
    seconds = math.fsum(outcome.seconds(a, b) for a, b in kept)
    return sum(b - a for a, b in kept) / seconds if seconds > 0 else None


def _recovery(outcome: StreamOutcome, spans: DisturbedSpans, best: float | None) -> float | None:
    """The median over disturbances; one without a recovery counts as one that takes for ever."""
    if best is None:
        return None
    count = len(outcome.ended)
    found = [_recover(outcome, a, b, _GOOD * best) for a, b in spans.spans if b <= count]
    middle = statistics.median_low(found) if found else math.inf
    return middle if math.isfinite(middle) else None


def _recover(outcome: StreamOutcome, begin: int, end: int, good: float) -> float:
    """Seconds from a disturbance's begin to the first window from which on the rate is good."""
    window = min(_WINDOW, end - begin)
    for q in range(begin, end - window + 1):
        from_here = (outcome.seconds(q, q + window), outcome.seconds(q, end))
        counts = (window, end - q)
        if all(n >= good * s for n, s in zip(counts, from_here, strict=True)):
            return outcome.moment(q) - outcome.moment(begin)
    return math.inf


def rate_points(outcome: StreamOutcome, points: int) -> list[tuple[float, float]]:
    """(s, requests/s) of windows that follow one another, so many at most, each at its end.

    Of short streams there are fewer: outputs may be handed out some at a time, so that single ones
    tell no rate.
    """
    count = len(outcome.ended)
    size = max(_LEAST_POINT, math.ceil(count / points))
    edges = [*range(0, count, size), count]
    moments = [outcome.moment(q) for q in edges]
    windows = zip(pairwise(edges), pairwise(moments), strict=True)
    return [(end, (b - a) / (end - begin)) for (a, b), (begin, end) in windows if end > begin]
