"""vLLM's names, so that dashboards made for it show this server's decoders.

Labels and units are vLLM's: ``model_name``, seconds. Its KV cache is of blocks, ours of slots: what
is told as its use is the share of slots in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tvm_hetero.serve.metrics.own_names import histogram_family

if TYPE_CHECKING:
    from tvm_hetero.serve.metrics.server_metrics import ServerMetrics

_NAME = ("model_name",)


class VllmNames:
    """A collector of ``vllm:*``; of decoders alone."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        yield from self._counters()
        yield from self._histograms()
        yield from self._gauges()

    def _counters(self) -> Iterator[Metric]:
        prompt = CounterMetricFamily(
            "vllm:prompt_tokens", "Number of prefill tokens processed.", labels=_NAME
        )
        made = CounterMetricFamily(
            "vllm:generation_tokens", "Number of generation tokens processed.", labels=_NAME
        )
        success = CounterMetricFamily(
            "vllm:request_success", "Count of successfully processed requests.",
            labels=[*_NAME, "finished_reason"],
        )  # fmt: skip
        for model, row in self._metrics.tokens.newest():
            prompt.add_metric([model], row.prompt)
            made.add_metric([model], row.generated)
            for reason, count in sorted(row.finished.items()):
                success.add_metric([model, reason], count)
        yield from (prompt, made, success)

    def _histograms(self) -> Iterator[Metric]:
        decoders = list(self._metrics.tokens.newest())
        for name, what, text in (
            ("time_to_first_token", "first", "Histogram of time to first token in seconds."),
            ("inter_token_latency", "between", "Histogram of inter-token latency in seconds."),
            ("e2e_request_latency", "whole", "Histogram of e2e request latency in seconds."),
            ("request_queue_time", "queued", "Histogram of time spent in WAITING phase."),
            ("request_prefill_time", "prefill", "Histogram of time spent in PREFILL phase."),
            ("request_decode_time", "decode", "Histogram of time spent in DECODE phase."),
        ):
            rows = (((model,), getattr(row, what)) for model, row in decoders)
            yield histogram_family(f"vllm:{name}_seconds", text, _NAME, rows)

    def _gauges(self) -> Iterator[Metric]:
        running = GaugeMetricFamily(
            "vllm:num_requests_running", "Number of requests in model execution batches.",
            labels=_NAME,
        )  # fmt: skip
        waiting = GaugeMetricFamily(
            "vllm:num_requests_waiting", "Number of requests waiting to be processed.",
            labels=_NAME,
        )  # fmt: skip
        usage = GaugeMetricFamily(
            "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", labels=_NAME
        )
        for name, standing in self._metrics.repository:
            model = standing.model
            if model is None or model.decoder is None:
                continue
            # Of texts: a request may be for several, which take a slot each.
            running.add_metric([name], model.decoder.running)
            waiting.add_metric([name], model.decoder.waiting)
            usage.add_metric([name], model.decoder.running / model.decoder.slots)
        yield from (running, waiting, usage)
