"""What a scraper reads: both formats parse, names and units are those that are promised."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as open_parser

from tvm_hetero.serve.core.events import SWITCH, ServerEvent
from tvm_hetero.serve.metrics.core_times import CoreTimes
from tvm_hetero.serve.metrics.exposition import render
from tvm_hetero.serve.metrics.server_metrics import ServerMetrics
from tvm_hetero.serve.models.repository import Repository
from tvm_hetero.serve.models.statistics import EndedGeneration, EndedQuery

DASHBOARD = Path(__file__).parents[3] / "examples" / "grafana" / "tvm_hetero.json"
DOCS = Path(__file__).parents[3] / "docs" / "watching.md"
OPEN = "application/openmetrics-text; version=1.0.0"


class OneChange:
    """A pool whose second core went to the model a while ago."""

    def __init__(self) -> None:
        self.changes = [(time.monotonic(), (None, "net"))]


def counted(*, compatible: bool = False) -> ServerMetrics:
    """Of a server that has seen one of everything."""
    repository = Repository({})
    repository.enter("net", Path("net.hetero"))
    cores = CoreTimes([0, 1], OneChange())
    metrics = ServerMetrics(repository, cores, lambda: False, compatible=compatible)
    metrics.events.record(ServerEvent(SWITCH, "moved", "net"))
    metrics.ledger.end_query(EndedQuery("net", "1", "success", "", 0.5, 1.5, 2.25, 4, 3.0))
    metrics.ledger.end_query(EndedQuery("net", "1", "refused", "queue_full"))
    metrics.ledger.end_query(EndedQuery("net", "1", "failed", slo=3.0))
    metrics.tokens.first_token("gpt", "1", 12, 0.2)
    metrics.tokens.next_token("gpt", "1", 0.1)
    metrics.tokens.generation_ended(EndedGeneration("gpt", "1", 12, 0, 2, 0.1, 0.2, 0.3, "stop"))
    return metrics


def samples(metrics: ServerMetrics) -> dict[str, float]:
    """By name and labels, as a scraper writes them."""
    # Not by the parser for names: it lets those of counters end in ``_total``, a scraper does not.
    text, _ = render(metrics.registry, "text/plain")
    rows = re.findall(r"^([\w:]+)(?:\{(.*)\})? (\S+)$", text.decode(), re.M)
    return {
        name + "".join(f" {k}={v}" for k, v in re.findall(r'(\w+)="([^"]*)"', labels)): float(value)
        for name, labels, value in rows
    }


@pytest.mark.parametrize("compatible", [False, True])
def test_both_formats_parse_and_say_the_same(compatible):
    metrics = counted(compatible=compatible)
    text, kind = render(metrics.registry, "")
    opened, open_kind = render(metrics.registry, OPEN)
    assert kind.startswith("text/plain; version=0.0.4")
    assert open_kind.startswith("application/openmetrics-text")
    plain = list(parser.text_string_to_metric_families(text.decode()))
    other = list(open_parser.text_string_to_metric_families(opened.decode()))
    # The older format keeps ``_info`` in the name.
    assert [f.name.removesuffix("_info") for f in plain] == [f.name for f in other]
    assert [len(f.samples) for f in plain] == [len(f.samples) for f in other]
    names = {s.name for f in other for s in f.samples}
    assert all(name.startswith(("tvm_hetero_", "nv_", "vllm:")) for name in names)


def test_what_was_counted_is_told():
    told = samples(counted())
    assert told["tvm_hetero_request_seconds_sum model=net version=1"] == 2.25
    assert told["tvm_hetero_request_seconds_bucket le=2.5 model=net version=1"] == 1
    assert told["tvm_hetero_queue_seconds_sum model=net version=1"] == 0.5
    assert told["tvm_hetero_compute_seconds_count model=net version=1"] == 1
    assert told["tvm_hetero_requests_total model=net outcome=failed version=1"] == 1
    assert told["tvm_hetero_refused_total model=net reason=queue_full version=1"] == 1
    assert told["tvm_hetero_slo_met_total model=net version=1"] == 1
    assert told["tvm_hetero_slo_missed_total model=net version=1"] == 1
    assert told["tvm_hetero_model_state model=net state=UNAVAILABLE"] == 1
    assert told["tvm_hetero_cores model=net"] == 1
    assert told["tvm_hetero_generated_tokens_total model=gpt version=1"] == 2
    assert told["tvm_hetero_first_token_seconds_sum model=gpt version=1"] == 0.2
    assert told["tvm_hetero_events_total kind=switch"] == 1
    assert told["tvm_hetero_process_cpu_seconds_total"] >= told["tvm_hetero_loop_cpu_seconds_total"]


def test_names_of_others_are_there_only_if_they_are_wanted():
    assert not [name for name in samples(counted()) if not name.startswith("tvm_hetero_")]


def test_tritons_names_have_its_labels_and_units():
    told = samples(counted(compatible=True))
    assert told["nv_inference_request_success model=net version=1"] == 1
    assert told["nv_inference_request_failure model=net reason=REJECTED version=1"] == 1
    assert told["nv_inference_request_failure model=net reason=BACKEND version=1"] == 1
    assert told["nv_inference_request_failure model=net reason=CANCELED version=1"] == 0
    assert told["nv_inference_count model=net version=1"] == 4
    assert told["nv_inference_request_duration_us model=net version=1"] == 2_250_000
    assert told["nv_inference_queue_duration_us model=net version=1"] == 500_000
    assert told["nv_inference_compute_infer_duration_us model=net version=1"] == 1_500_000
    assert told["nv_inference_compute_input_duration_us model=net version=1"] == 0
    assert 0 <= told["nv_cpu_utilization"] <= 1
    assert 0 < told["nv_cpu_memory_used_bytes"] < told["nv_cpu_memory_total_bytes"]


def test_tritons_counters_are_counters_in_the_format_that_triton_speaks():
    text, _ = render(counted(compatible=True).registry, "text/plain")
    assert b"# TYPE nv_inference_request_success counter\n" in text
    assert b"nv_inference_request_success_total" not in text


def test_vllms_names_have_its_labels_and_units():
    told = samples(counted(compatible=True))
    assert told["vllm:prompt_tokens_total model_name=gpt"] == 12
    assert told["vllm:generation_tokens_total model_name=gpt"] == 2
    assert told["vllm:request_success_total finished_reason=stop model_name=gpt"] == 1
    assert told["vllm:time_to_first_token_seconds_sum model_name=gpt"] == 0.2
    assert told["vllm:inter_token_latency_seconds_count model_name=gpt"] == 1
    assert told["vllm:e2e_request_latency_seconds_sum model_name=gpt"] == pytest.approx(0.3)
    assert told["vllm:request_queue_time_seconds_bucket le=0.1 model_name=gpt"] == 1


def test_two_servers_count_for_themselves():
    first, second = counted(), counted()
    first.ledger.end_query(EndedQuery("net", "1", "success"))
    name = "tvm_hetero_requests_total model=net outcome=success version=1"
    assert (samples(first)[name], samples(second)[name]) == (2, 1)


def test_every_metric_is_in_the_docs_and_no_other():
    told = set(re.findall(r"`(tvm_hetero_\w+)`", DOCS.read_text(encoding="utf-8")))
    text, _ = render(counted().registry, OPEN)
    assert told == set(re.findall(r"# HELP (\w+)", text.decode()))


def test_every_expression_of_the_dashboard_reads_metrics_and_labels_that_there_are():
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]
    assert len(expressions) > 10
    told = samples(counted())
    text, _ = render(counted().registry, "")
    names = {each.split()[0] for each in told} | set(re.findall(r"# HELP (\w+)", text.decode()))
    labels = {label.split("=")[0] for each in told for label in each.split()[1:]}
    for expression in expressions:
        used = set(re.findall(r"tvm_hetero_\w+", expression))
        assert used, expression
        assert used <= names, expression
        grouped = re.findall(r"by \(([^)]*)\)", expression)
        selected = re.findall(r"(\w+)=~?\"", expression)
        wanted = {word.strip() for text in grouped for word in text.split(",")} | set(selected)
        assert wanted <= labels, expression
