"""Spans of what was served: a client's trace goes on in them, and failures are told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.serve.server_process import ServerProcess
from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.trace_context import TRACEPARENT
from tvm_hetero.serve.models.statistics import EndedGeneration, EndedQuery
from tvm_hetero.serve.traces.spans import SpanMaker, otlp_exporter

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def made(act) -> dict:
    """The spans of what `act` tells a maker, by name."""
    exporter = InMemorySpanExporter()
    maker = SpanMaker(exporter)
    act(maker)
    maker.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def seconds(span) -> float:
    return (span.end_time - span.start_time) / 1e9


def test_a_query_is_a_span_with_its_phases():
    ended = EndedQuery("net", "3", "success", "", 0.25, 0.5, 1.0, 2)
    spans = made(lambda maker: maker.end_query(ended))
    whole = spans["tvm_hetero.infer"]
    assert seconds(whole) == pytest.approx(1.0)
    assert dict(whole.attributes)["model"] == "net" and whole.status.status_code is StatusCode.OK
    assert seconds(spans["queue"]) == pytest.approx(0.25)
    assert seconds(spans["compute"]) == pytest.approx(0.5)
    assert spans["compute"].start_time == spans["queue"].end_time
    assert spans["queue"].parent.span_id == whole.context.span_id
    assert whole.parent is None


def test_a_clients_trace_goes_on_and_a_malformed_one_is_passed_over():
    ended = EndedQuery("net", "1", "refused", "deadline", 0.0, 0.0, 0.1, 1)

    def told(value: str) -> dict:
        token = TRACEPARENT.set(value)
        try:
            return made(lambda maker: maker.end_query(ended))
        finally:
            TRACEPARENT.reset(token)

    span = told(f"00-{TRACE}-{SPAN}-01")["tvm_hetero.infer"]
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == SPAN
    assert span.status.status_code is StatusCode.ERROR
    assert told("00-nonsense-01")["tvm_hetero.infer"].parent is None


@pytest.mark.parametrize("url", ["", "collector", "ftp://host/x", "http://", "http://[::1"])
def test_what_is_no_collector_is_refused(url):
    with pytest.raises(UsageError, match="expected a collector"):
        otlp_exporter(url)


def test_a_generation_tells_its_tokens():
    ended = EndedGeneration("gpt", "1", 7, 4, 5, 0.1, 0.3, 1.0, "stop")
    spans = made(lambda maker: maker.generation_ended(ended))
    whole = dict(spans["tvm_hetero.generate"].attributes)
    assert whole["gen_ai.usage.input_tokens"] == 7 and whole["gen_ai.usage.output_tokens"] == 5
    assert seconds(spans["first token"]) == pytest.approx(0.2)
    assert seconds(spans["tokens"]) == pytest.approx(0.7)


class Collector:
    """A collector of OTLP over HTTP on a free port.

    Attributes
    ----------
    spans : that came, by name.
    """

    def __init__(self) -> None:
        self.spans: dict[str, list] = {}
        spans = self.spans

        class Taker(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            spans.setdefault(span.name, []).append(span)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Taker)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """One that runs."""
    made = Collector()
    yield made
    made.server.shutdown()


def test_a_server_sends_a_span_of_each_request_to_a_collector(
    served_models: Path, collector: Collector
):
    with ServerProcess([str(served_models / "dense.hetero"), "--otlp", collector.url]) as server:
        asked = {"inputs": [{"name": "input0", "shape": [1, 32], "datatype": "FP32",
                             "data": [0.5] * 32}]}  # fmt: skip
        traced = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        assert server.post("/v2/models/dense/infer", asked, traced).status == 200
        assert server.post("/v2/models/dense/infer", asked).status == 200
        assert server.end() == 0
    ours, other = collector.spans["tvm_hetero.infer"]
    assert ours.trace_id.hex() == TRACE and ours.parent_span_id.hex() == SPAN
    assert other.trace_id.hex() != TRACE and not other.parent_span_id
    assert len(collector.spans["compute"]) == 2
