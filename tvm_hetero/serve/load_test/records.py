"""What became of each request, and the rows in which that is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm_hetero.util.statistics import Statistics, summarize
from tvm_hetero.util.units import format_seconds

_OK = 200
_LAG = 5e-3  # seconds by which a client may be late at the 99th percentile
_LAG_SHARE = 0.1  # or this share of the median latency
_PACE = 0.95
NO_REPLY = 0
"""The status of a request to which nothing came back."""


class LoadRecord(NamedTuple):
    """One request.

    Attributes
    ----------
    model : who was asked.
    due, sent, ended : seconds since the run's begin: when it should have been sent, was, and when
        the reply was there.
    status, reason : the reply's; `NO_REPLY` and the error if there was none.
    """

    model: str
    due: float
    sent: float
    ended: float
    status: int
    reason: str

    @property
    def latency(self) -> float:
        """From when it was due: a client that waits for the server hides nothing by that."""
        return self.ended - self.due


@dataclass(frozen=True)
class LoadRow:
    """One model at one load.

    Attributes
    ----------
    offered, answered : requests/s that were due, and that were answered with outputs.
    latency : of those that were answered; None if none was.
    violations : share of all requests not answered within a time, by that time (s).
    refused : requests by the reason for which they were refused.
    failed : requests by what else came, or did not.
    """

    load: str
    model: str
    requests: int
    offered: float
    answered: float
    latency: Statistics | None
    violations: Mapping[float, float]
    refused: Mapping[str, int]
    failed: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "load": self.load, "model": self.model, "requests": self.requests,
            "offered": self.offered, "answered": self.answered,
            "latency": self.latency and self.latency.as_dict(),
            "violations": {format_seconds(slo): share for slo, share in self.violations.items()},
            "refused": dict(self.refused), "failed": dict(self.failed),
        }  # fmt: skip


@dataclass
class LoadRun:
    """One load, and what became of it.

    Attributes
    ----------
    load : ``100/s``, or ``8 at once``.
    seconds : from the first due moment to the end of the load (not of its last reply).
    rate : offered requests/s; None in a closed loop, which offers as many as it gets answers.
    records : of all requests, in the order of their ends.
    connections : that were opened.
    waited : requests that were due while no connection was free.
    """

    load: str
    seconds: float
    rate: float | None
    records: list[LoadRecord] = field(default_factory=list)
    connections: int = 0
    waited: int = 0

    def rows(self, slo: Mapping[str, Sequence[float]]) -> list[LoadRow]:
        """A row for each model."""
        models = sorted({record.model for record in self.records})
        return [self._row(model, slo.get(model, ())) for model in models]

    def lag(self) -> Statistics | None:
        """How late the client itself was."""
        return summarize([max(0.0, r.sent - r.due) for r in self.records]) if self.records else None

    def doubts(self) -> str:
        """Why the figures may be the client's rather than the server's; empty: no reason."""
        lag = self.lag()
        done = [record.latency for record in self.records if record.status == _OK]
        if self.rate is None or lag is None or not done:
            return ""
        allowed = max(_LAG, _LAG_SHARE * summarize(done).median)
        if self.waited > len(self.records) // 100:
            return (f"{self.load}: {self.waited} requests waited for a connection of the client; "
                    "give it more (--connections)")  # fmt: skip
        last = max(record.sent for record in self.records)
        if lag.p99 > allowed or len(self.records) / max(last, self.seconds) < _PACE * self.rate:
            return (f"{self.load}: the client could not keep the rate: it sent "
                    f"{format_seconds(lag.p99)} late (p99); run it on another machine")  # fmt: skip
        return ""

    def _row(self, model: str, slo: Sequence[float]) -> LoadRow:
        mine = [record for record in self.records if record.model == model]
        done = [record.latency for record in mine if record.status == _OK]
        others = [record for record in mine if record.status != _OK]
        refused = Counter(r.reason for r in others if r.status != NO_REPLY and r.reason)
        failed = Counter(
            r.reason if r.status == NO_REPLY else f"HTTP {r.status}"
            for r in others if r.status == NO_REPLY or not r.reason
        )  # fmt: skip
        late = {s: 1 - sum(each <= s for each in done) / len(mine) for s in sorted(slo)}
        span = max(self.seconds, 1e-9)
        return LoadRow(
            self.load, model, len(mine), len(mine) / span, len(done) / span,
            summarize(done) if done else None, late, refused, failed,
        )  # fmt: skip


HEADERS = ("load", "model", "offered/s", "answered/s", "p50", "p90", "p99", "max", "late",
           "refused", "failed")  # fmt: skip


def cells(row: LoadRow) -> list[str]:
    """A row of the table, under `HEADERS`."""
    times = ["-"] * 4
    if row.latency is not None:
        ends = (row.latency.median, row.latency.p90, row.latency.p99, row.latency.max)
        times = [format_seconds(each) for each in ends]
    late = ", ".join(f"{100 * v:.3g}% of {format_seconds(s)}" for s, v in row.violations.items())
    return [row.load, row.model, f"{row.offered:.4g}", f"{row.answered:.4g}", *times,
            late or "-", _counts(row.refused), _counts(row.failed)]  # fmt: skip


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "-"
