"""The families under our own names, made of the ledgers when a scraper asks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from tvm_hetero import __version__
from tvm_hetero.serve.core.events import EVENT_KINDS
from tvm_hetero.serve.metrics.histogram import TimeHistogram
from tvm_hetero.serve.models.served_model import LOADING, READY, UNAVAILABLE, UNLOADING

if TYPE_CHECKING:
    from tvm_hetero.serve.metrics.server_metrics import ServerMetrics

_MODEL = ("model", "version")
STATES = (READY, LOADING, UNLOADING, UNAVAILABLE)


class OwnNames:
    """A collector of ``tvm_hetero_*``."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        yield from _times(self._metrics)
        yield from _counts(self._metrics)
        yield from _models(self._metrics)
        yield from _tokens(self._metrics)
        yield from _server(self._metrics)


def histogram_family(
    name: str,
    text: str,
    labels: Iterable[str],
    rows: Iterable[tuple[tuple[str, ...], TimeHistogram]],
) -> HistogramMetricFamily:
    """A family of one histogram for each row: values of labels, and counts."""
    family = HistogramMetricFamily(name, text, labels=list(labels))
    for values, times in rows:
        family.add_metric(list(values), times.cumulative(), times.total)
    return family


def _times(metrics: ServerMetrics) -> Iterator[Metric]:
    for name, what, text in (
        ("request", "whole", "Seconds of answered queries from the door to the answer."),
        ("queue", "queued", "Seconds of answered queries before their turn came."),
        ("compute", "computed", "Seconds of answered queries in which they were computed."),
    ):
        rows = (((m, v), getattr(row, what)) for m, v, row in metrics.ledger)
        yield histogram_family(f"tvm_hetero_{name}_seconds", text, _MODEL, rows)


def _counts(metrics: ServerMetrics) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "tvm_hetero_requests", "Queries that ended, by outcome.", labels=[*_MODEL, "outcome"]
    )
    refused = CounterMetricFamily(
        "tvm_hetero_refused", "Queries that were refused, by the limit that stood against them.",
        labels=[*_MODEL, "reason"],
    )  # fmt: skip
    items = CounterMetricFamily("tvm_hetero_items", "Elements computed.", labels=_MODEL)
    runs = CounterMetricFamily(
        "tvm_hetero_executions", "Runs of plans, each of which computes one element or a batch.",
        labels=_MODEL,
    )  # fmt: skip
    joined = CounterMetricFamily(
        "tvm_hetero_joined_requests", "Queries that were computed together with others.",
        labels=_MODEL,
    )  # fmt: skip
    batches = CounterMetricFamily(
        "tvm_hetero_batches", "Runs that computed several queries together.", labels=_MODEL
    )
    met = CounterMetricFamily("tvm_hetero_slo_met", "Queries within their SLO.", labels=_MODEL)
    missed = CounterMetricFamily(
        "tvm_hetero_slo_missed", "Queries that took longer than their SLO, came to their deadline "
        "or failed.", labels=_MODEL,
    )  # fmt: skip
    for model, version, row in metrics.ledger:
        for outcome, count in sorted(row.outcomes.items()):
            requests.add_metric([model, version, outcome], count)
        for reason, count in sorted(row.refused.items()):
            refused.add_metric([model, version, reason], count)
        items.add_metric([model, version], row.items)
        runs.add_metric([model, version], row.executions)
        joined.add_metric([model, version], row.joined)
        batches.add_metric([model, version], row.batches)
        met.add_metric([model, version], row.met)
        missed.add_metric([model, version], row.missed)
    yield from (requests, refused, items, runs, joined, batches, met, missed)


def _models(metrics: ServerMetrics) -> Iterator[Metric]:
    pending = GaugeMetricFamily(
        "tvm_hetero_pending_requests", "Queries that wait or are computed now.", labels=_MODEL
    )
    state = GaugeMetricFamily(
        "tvm_hetero_model_state", "1 for the state that a model is in.", labels=["model", "state"]
    )
    slo = GaugeMetricFamily(
        "tvm_hetero_slo_seconds", "When answers are due after the query came.", labels=_MODEL
    )
    cores = GaugeMetricFamily("tvm_hetero_cores", "Cores that a model has now.", labels=["model"])
    held = CounterMetricFamily(
        "tvm_hetero_core_seconds", "Seconds that a model had cores, summed over cores.",
        labels=["model"],
    )  # fmt: skip
    metrics.cores.catch_up(time.monotonic())
    counted = Counter(metrics.cores.owners)
    for name, standing in metrics.repository:
        for each in STATES:
            state.add_metric([name, each], float(standing.state == each))
        cores.add_metric([name], counted[name])
        held.add_metric([name], metrics.cores.totals.get(name, 0.0))
        model = standing.model
        if model is not None:
            pending.add_metric([name, model.version], model.statistics.pending)
            if model.slo is not None:
                slo.add_metric([name, model.version], model.slo)
    yield from (pending, state, slo, cores, held)


def _tokens(metrics: ServerMetrics) -> Iterator[Metric]:
    prompt = CounterMetricFamily("tvm_hetero_prompt_tokens", "Tokens read.", labels=_MODEL)
    made = CounterMetricFamily("tvm_hetero_generated_tokens", "Tokens written.", labels=_MODEL)
    for model, version, row in metrics.tokens:
        prompt.add_metric([model, version], row.prompt)
        made.add_metric([model, version], row.generated)
    yield from (prompt, made)
    rows = list(metrics.tokens)
    yield histogram_family(
        "tvm_hetero_first_token_seconds", "Seconds from the door to a sequence's first token.",
        _MODEL, (((m, v), row.first) for m, v, row in rows),
    )  # fmt: skip
    yield histogram_family(
        "tvm_hetero_between_tokens_seconds", "Seconds between two tokens of a sequence.",
        _MODEL, (((m, v), row.between) for m, v, row in rows),
    )  # fmt: skip


def _server(metrics: ServerMetrics) -> Iterator[Metric]:
    yield InfoMetricFamily("tvm_hetero_server", "What runs.", value={"version": __version__})
    yield CounterMetricFamily(
        "tvm_hetero_loop_cpu_seconds", "CPU seconds of the thread that speaks HTTP.",
        value=time.thread_time(),
    )  # fmt: skip
    yield CounterMetricFamily(
        "tvm_hetero_process_cpu_seconds", "CPU seconds of the whole server.",
        value=time.process_time(),
    )  # fmt: skip
    yield GaugeMetricFamily(
        "tvm_hetero_draining", "1 while the server takes nothing new.",
        value=float(metrics.is_draining()),
    )  # fmt: skip
    events = CounterMetricFamily(
        "tvm_hetero_events", "What happened to the server, by kind.", labels=["kind"]
    )
    for kind in EVENT_KINDS:
        events.add_metric([kind], metrics.events.counts[kind])
    yield events
