"""What the page shows, as one document: the server now, and its last minute.

Seconds are seconds; lists of `SECONDS` numbers are of whole seconds, the oldest first. How
exact percentiles are is told in `metrics.recent`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from tvm_hetero import __version__
from tvm_hetero.serve.core.events import ServerEvent
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.metrics.recent import OneSecond, bin_end, percentile
from tvm_hetero.serve.metrics.sampler import CpuUse
from tvm_hetero.serve.metrics.server_metrics import ServerMetrics
from tvm_hetero.serve.models.served_model import Standing
from tvm_hetero.serve.models.statistics import EndedQuery
from tvm_hetero.serve.page.plans import PlanPictures

_EVENTS = 30
_UNANSWERED = ("refused", "failed", "deadline")
K = TypeVar("K")


@dataclass(frozen=True)
class Percentiles:
    """Times (s) within which half, nine of ten and 99 of 100 were; None: there were none."""

    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True)
class DecoderFigures:
    """A decoder's last minute: tokens written by second, time to the first, between two."""

    tokens: list[int]
    first: Percentiles
    between: Percentiles


@dataclass(frozen=True)
class ModelFigures:
    """A model now, and its last minute.

    Attributes
    ----------
    plan : a number that changes with the plan; None: it has none now.
    requests : queries that ended since the version was loaded, by outcome.
    answered, turned_away : by second; turned away are those refused, failed, or late.
    latency, bins : of answered queries; bins as (upper end, count), each from the end before it.
    refused : of the minute, by reason; lost : those that failed or came to their deadline.
    met, missed : of the minute's queries that had an objective.
    joined, batches : of the minute: queries computed together with others, and runs that did it.
    """

    name: str
    version: str
    state: str
    reason: str
    slo: float | None
    plan: int | None
    pending: int
    requests: dict[str, int]
    answered: list[int]
    turned_away: list[int]
    latency: Percentiles
    bins: list[tuple[float, float, int]]
    refused: dict[str, int]
    lost: dict[str, int]
    met: int
    missed: int
    joined: int
    batches: int
    decoder: DecoderFigures | None


@dataclass(frozen=True)
class CoreLane:
    """A core: by second, the share of it that each model had; and who has it now."""

    core: int
    owner: str | None
    seconds: list[dict[str, float]]


@dataclass(frozen=True)
class PageSnapshot:
    """All that the page shows.

    Attributes
    ----------
    now, started : by `time.time`; where that clock was set, both by what it says now.
    slowest : the answered query of the minute that took longest.
    """

    version: str
    now: float
    started: float
    draining: bool
    cpu: CpuUse
    models: list[ModelFigures]
    cores: list[CoreLane]
    slowest: EndedQuery | None
    events: list[ServerEvent] = field(default_factory=list)


def take_snapshot(
    context: ServeContext, metrics: ServerMetrics, pictures: PlanPictures
) -> PageSnapshot:
    """The document of this moment."""
    now = time.time()
    second = metrics.ledger.second
    rows = {name: metrics.ledger.recent(name).before(second) for name, _ in context.repository}
    slow = [row.slowest for minute in rows.values() for row in minute if row.slowest]
    return PageSnapshot(
        version=__version__,
        now=now,
        started=now - (time.monotonic() - context.began),
        draining=context.draining,
        cpu=metrics.sampler.cpu,
        models=[
            _model(name, standing, rows[name], metrics, pictures)
            for name, standing in context.repository
        ],
        cores=_lanes(metrics, second),
        slowest=max(slow, key=lambda query: query.whole, default=None),
        events=metrics.events.latest(_EVENTS),
    )


def _model(
    name: str,
    standing: Standing,
    minute: list[OneSecond],
    metrics: ServerMetrics,
    pictures: PlanPictures,
) -> ModelFigures:
    model = standing.model
    outcomes = _sum(row.outcomes for row in minute)
    bins = _sum(row.bins for row in minute)
    version = model.version if model else ""
    return ModelFigures(
        name=name,
        version=version,
        state=standing.state,
        reason=standing.reason,
        slo=model.slo if model else None,
        plan=pictures.number(model) if model else None,
        pending=model.statistics.pending if model else 0,
        requests=dict(metrics.ledger.version(name, version).outcomes) if model else {},
        answered=[row.outcomes["success"] for row in minute],
        turned_away=[sum(row.outcomes[each] for each in _UNANSWERED) for row in minute],
        latency=_percentiles(bins),
        bins=[(bin_end(n - 1), bin_end(n), count) for n, count in sorted(bins.items())],
        refused=dict(_sum(row.refused for row in minute)),
        lost={each: outcomes[each] for each in ("failed", "deadline") if outcomes[each]},
        met=sum(row.met for row in minute),
        missed=sum(row.missed for row in minute),
        joined=sum(row.joined for row in minute),
        batches=sum(row.batches for row in minute),
        decoder=_decoder(minute) if model and model.decoder else None,
    )


def _decoder(minute: list[OneSecond]) -> DecoderFigures:
    return DecoderFigures(
        [row.tokens for row in minute],
        _percentiles(_sum(row.first for row in minute)),
        _percentiles(_sum(row.between for row in minute)),
    )


def _sum(counters: Iterable[Counter[K]]) -> Counter[K]:
    total: Counter[K] = Counter()
    for each in counters:
        total.update(each)
    return total


def _percentiles(bins: Counter[int]) -> Percentiles:
    return Percentiles(*(percentile(bins, share) for share in (0.5, 0.9, 0.99)))


def _lanes(metrics: ServerMetrics, second: int) -> list[CoreLane]:
    metrics.cores.catch_up(time.monotonic())
    minute = metrics.cores.before(second)
    owners = zip(metrics.cores.cores, metrics.cores.owners, strict=True)
    return [
        CoreLane(core, owner, [_rounded(seconds[place]) for seconds in minute])
        for place, (core, owner) in enumerate(owners)
    ]


def _rounded(times: dict[str, float]) -> dict[str, float]:
    return {model: round(seconds, 3) for model, seconds in times.items()}
