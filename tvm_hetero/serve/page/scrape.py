"""``GET /metrics``."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.serve.core.shares import OwnerLog
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.metrics.core_times import CoreTimes
from tvm_hetero.serve.metrics.exposition import render
from tvm_hetero.serve.metrics.server_metrics import ServerMetrics

PART = "metrics"


def count_all(context: ServeContext, cores: Sequence[int], pool: OwnerLog) -> ServerMetrics:
    """Count what this server does from now on; where ``/metrics`` and the page find it.

    Parameters
    ----------
    cores : numbers of the cores of `pool`, which its models share.
    """
    metrics = ServerMetrics(
        context.repository,
        CoreTimes(cores, pool),
        lambda: context.draining,
        compatible=context.options.compatible_metrics,
    )
    context.dispatcher.observers.append(metrics.ledger.end_query)
    context.generation_observers.append(metrics.tokens)
    context.parts[PART] = metrics
    return metrics


class Scrape(ApiHandler):
    """All counts as a scraper reads them."""

    def get(self) -> None:
        """In the form that the scraper asks for."""
        registry = self.context.parts[PART].registry
        text, kind = render(registry, self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", kind)
        self.set_header("Cache-Control", "no-store")
        self.finish(text)
