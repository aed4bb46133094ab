"""Spans of queries and generations that have ended, for OpenTelemetry (the extra ``otel``).

    tvm_hetero.infer       queue, compute
    tvm_hetero.generate    queue, first token, tokens

They are made when all is over, from the times that are measured anyway; sending them is a thread's
of the library. A request with a ``traceparent`` becomes a child of that span.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.trace_context import TRACEPARENT
from tvm_hetero.serve.models.statistics import EndedGeneration, EndedQuery
from tvm_hetero.util.quote import quote

_NANO = 1_000_000_000
_GOOD = frozenset({"success", "stop", "length"})
_Phases = Sequence[tuple[str, float]]


class SpanMaker:
    """Makes a span of everything that ends; an observer of queries and of generations.

    Parameters
    ----------
    exporter : where they go, an OpenTelemetry ``SpanExporter``.

    Raises
    ------
    UsageError
        If the packages are not there.
    """

    def __init__(self, exporter: Any) -> None:
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise _lacking() from None
        self._provider = TracerProvider(resource=Resource({"service.name": "tvm_hetero"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("tvm_hetero.serve")

    def end_query(self, ended: EndedQuery) -> None:
        """A query is over."""
        attributes = {"model": ended.model, "version": ended.version, "outcome": ended.outcome,
                      "items": ended.items, "reason": ended.reason}  # fmt: skip
        phases = [("queue", ended.queued), ("compute", ended.computed)]
        is_good = ended.outcome in _GOOD
        self._make("tvm_hetero.infer", ended.whole, phases, attributes, is_good=is_good)

    def first_token(self, model: str, version: str, prompt_tokens: int, seconds: float) -> None:
        """Told in the span of the whole."""

    def next_token(self, model: str, version: str, seconds: float) -> None:
        """Told in the span of the whole."""

    def generation_ended(self, ended: EndedGeneration) -> None:
        """A text is over."""
        attributes = {
            "gen_ai.request.model": ended.model, "version": ended.version,
            "gen_ai.usage.input_tokens": ended.prompt_tokens,
            "gen_ai.usage.output_tokens": ended.new_tokens,
            "cached_tokens": ended.cached_tokens, "outcome": ended.reason,
        }  # fmt: skip
        phases = [("queue", ended.queued)]
        if ended.first_token:
            phases += [
                ("first token", ended.first_token - ended.queued),
                ("tokens", ended.whole - ended.first_token),
            ]
        is_good = ended.reason in _GOOD
        self._make("tvm_hetero.generate", ended.whole, phases, attributes, is_good=is_good)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def _make(
        self,
        name: str,
        seconds: float,
        phases: _Phases,
        attributes: Mapping[str, Any],
        *,
        is_good: bool,
    ) -> None:
        """A span that ends now, and one for each phase, one after the other from its beginning."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        now = time.time_ns()
        begin = now - int(seconds * _NANO)
        span = self._tracer.start_span(
            name, context=_parent(), start_time=begin, attributes=dict(attributes)
        )
        inside = set_span_in_context(span)
        for phase, taken in phases:
            if taken > 0:
                child = self._tracer.start_span(phase, context=inside, start_time=begin)
                begin += int(taken * _NANO)
                child.end(min(begin, now))
        span.set_status(Status(StatusCode.OK if is_good else StatusCode.ERROR))
        span.end(now)


def otlp_exporter(url: str) -> Any:
    """What sends spans to a collector by OTLP over HTTP.

    Raises
    ------
    UsageError
        If that is no address of a collector, or the packages are not there.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # brackets of IPv6 that do not close
        is_address = False
    if not is_address:
        raise UsageError(
            f"--otlp {quote(url)}: expected a collector, such as http://localhost:4318/v1/traces"
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise _lacking() from None
    return OTLPSpanExporter(endpoint=url)


def _parent() -> Any:
    """The client's span; None where it has named none, or not as it should."""
    given = TRACEPARENT.get()
    if given is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": given})


def _lacking() -> UsageError:
    return UsageError("traces need: pip install 'tvm_hetero[otel]'")
