"""Triton's names, so that dashboards made for it (Grafana 16231) show this server.

Units are Triton's, microseconds; so are labels, ``model`` and ``version``. What it has beside them
for GPUs is left out. Its compute time is told in three parts, of which the first and last are 0
here: inputs and outputs are moved inside what is measured as the second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from tvm_hetero.serve.metrics.ledger import VersionLedger
    from tvm_hetero.serve.metrics.server_metrics import ServerMetrics

_MICRO = 1e6
_MODEL = ("model", "version")
# Triton's reasons of failure, and the outcomes that are meant.
REASONS = {"REJECTED": "refused", "CANCELED": "cancelled", "BACKEND": "failed", "OTHER": "deadline"}
SUCCESS = "nv_inference_request_success"
FAILURE = "nv_inference_request_failure"


class TritonNames:
    """A collector of ``nv_*``."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics
        self._processor = ProcessorTime()

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        for name, text in _COUNTERS.items():
            family = plain_counter(name, text)
            for model, version, row in self._metrics.ledger:
                labels = {"model": model, "version": version}
                family.add_sample(name, labels, _value(name, row))
            yield family
        yield self._failures()
        yield self._pending()
        yield from self._machine()

    def _failures(self) -> Metric:
        family = plain_counter(FAILURE, "Number of failed inference requests.")
        for model, version, row in self._metrics.ledger:
            for reason, outcome in REASONS.items():
                labels = {"model": model, "version": version, "reason": reason}
                family.add_sample(FAILURE, labels, float(row.outcomes[outcome]))
        return family

    def _pending(self) -> Metric:
        family = GaugeMetricFamily(
            "nv_inference_pending_request_count", "Instantaneous number of pending requests.",
            labels=_MODEL,
        )  # fmt: skip
        for name, standing in self._metrics.repository:
            if standing.model is not None:
                pending = standing.model.statistics.pending
                family.add_metric([name, standing.model.version], pending)
        return family

    def _machine(self) -> Iterator[Metric]:
        total, used = _memory()
        share = self._processor.share_since_last()
        for name, text, value in (
            ("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", share),
            ("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", total),
            ("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", used),
        ):
            yield GaugeMetricFamily(name, text, value=value)


_COUNTERS = {
    SUCCESS: "Number of successful inference requests, all batch sizes",
    "nv_inference_count": "Number of inferences performed (does not include cached requests)",
    "nv_inference_exec_count": "Number of model executions performed",
    "nv_inference_request_duration_us": "Cumulative inference request duration in microseconds",
    "nv_inference_queue_duration_us": "Cumulative inference queuing duration in microseconds",
    "nv_inference_compute_input_duration_us": "Cumulative compute input duration in microseconds",
    "nv_inference_compute_infer_duration_us":
        "Cumulative compute inference duration in microseconds",
    "nv_inference_compute_output_duration_us": "Cumulative inference compute output duration in "
    "microseconds",
}  # fmt: skip


def _value(name: str, row: VersionLedger) -> float:
    values = {
        SUCCESS: row.outcomes["success"],
        "nv_inference_count": row.items,
        "nv_inference_exec_count": row.executions,
        "nv_inference_request_duration_us": int(row.whole.total * _MICRO),
        "nv_inference_queue_duration_us": int(row.queued.total * _MICRO),
        "nv_inference_compute_infer_duration_us": int(row.computed.total * _MICRO),
    }
    return float(values.get(name, 0))


def plain_counter(name: str, text: str) -> Metric:
    """A counter whose name does not end in ``_total``: to OpenMetrics, of no known type."""
    return Metric(name, text, "unknown")


def _memory() -> tuple[float, float]:
    """Bytes of the machine's memory, and how many are in use."""
    page = os.sysconf("SC_PAGE_SIZE")
    total, free = (os.sysconf(name) * page for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    return float(total), float(total - free)


class ProcessorTime:
    """How busy the machine's cores were since this was asked last."""

    def __init__(self) -> None:
        self._before = _ticks()

    def share_since_last(self) -> float:
        """From 0 to 1."""
        (busy0, all0), (busy1, all1) = self._before, _ticks()
        if all1 <= all0:
            return 0.0
        self._before = busy1, all1
        return min(1.0, max(0.0, (busy1 - busy0) / (all1 - all0)))


def _ticks() -> tuple[int, int]:
    """Ticks in which cores were busy, and all."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
