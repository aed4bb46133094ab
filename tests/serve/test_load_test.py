"""The load test says what a server did, and does not flatter it."""

from __future__ import annotations

import itertools
import json
import threading

import pytest
from typer.testing import CliRunner

from tests.serve.faults.hosted import Hosted
from tvm_hetero.cli.main import app
from tvm_hetero.cli.shared.serving import read_levels
from tvm_hetero.cli.verbs.load_test import read_shares
from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.serve.load_test.arrivals import Arrival, poisson, read_trace
from tvm_hetero.serve.load_test.bodies import RequestHead, infer_request
from tvm_hetero.serve.load_test.charts import ChartLine, histogram_chart, line_chart
from tvm_hetero.serve.load_test.client import ClientPool, split_url
from tvm_hetero.serve.load_test.records import LoadRecord, LoadRun
from tvm_hetero.serve.load_test.run import in_loop, open_loop


def test_arrivals_are_those_of_a_poisson_process():
    arrivals = poisson(1000, 20, {"a": 3, "b": 1})
    gaps = [b.seconds - a.seconds for a, b in itertools.pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1e-3, rel=0.03)
    spread = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert spread == pytest.approx(mean**2, rel=0.1)  # of an exponential distribution
    assert sum(a.model == "a" for a in arrivals) / len(arrivals) == pytest.approx(0.75, abs=0.02)
    assert arrivals == poisson(1000, 20, {"a": 3, "b": 1})


def test_a_trace_is_read_and_its_faults_are_told_by_line(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("0.5,b\n0.1  # the first\n\n0.2\n")
    assert read_trace(path, ["a", "b"]) == [Arrival(0.1, "b"), Arrival(0.2, "a"), Arrival(0.5, "b")]
    for text, message in (
        ("1,c", "line 1: 'c' is not asked"),
        ("x", "line 1: expected"),
        ("", "no"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_trace(path, ["a", "b"])


def test_latency_counts_from_when_a_request_was_due_though_the_client_waits():
    # One connection, and a server that is shut for 0.3 s: those that are due meanwhile have waited.
    with Hosted() as server:
        request = b"POST /gated HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        arrivals = [Arrival(0.01 * i, "gated") for i in range(10)]

        async def run():
            pool = ClientPool(*server.address, 1)
            return await open_loop(pool, {"gated": request}, arrivals, "100/s", 0.1)

        opening = threading.Timer(0.3, server.open_gate)
        opening.start()
        run = in_loop(run())
        opening.join()
    assert len(run.records) == 10
    assert all(record.ended >= 0.25 for record in run.records)
    assert min(record.latency for record in run.records) >= 0.15
    assert run.waited == 9
    assert "--connections" in run.doubts()


def test_rows_count_violations_of_all_requests_and_tell_reasons():
    done = [LoadRecord("a", 0.0, 0.0, ms / 1e3, 200, "") for ms in range(1, 9)]
    refused = [LoadRecord("a", 0.0, 0.0, 0.001, 503, "queue_full")]
    lost = [LoadRecord("a", 0.0, 0.0, 0.001, 0, "the server closed")]
    (row,) = LoadRun("10/s", 1.0, 10.0, done + refused + lost).rows({"a": [0.004, 0.1]})
    assert row.violations == pytest.approx({0.004: 0.6, 0.1: 0.2})
    assert (row.refused, row.failed) == ({"queue_full": 1}, {"the server closed": 1})
    assert row.latency is not None and row.latency.median == pytest.approx(4.5e-3)


def test_a_client_that_is_late_says_so():
    late = LoadRun("100/s", 1.0, 100.0, [
        LoadRecord("a", i / 100, i / 100 + 0.02, i / 100 + 0.03, 200, "") for i in range(100)
    ])  # fmt: skip
    assert "could not keep the rate" in late.doubts()
    on_time = [r._replace(sent=r.due) for r in late.records]
    assert not LoadRun("100/s", 1.0, 100.0, on_time).doubts()


def test_what_cannot_be_asked_is_told_so():
    with pytest.raises(UsageError, match="address of a server"):
        split_url("ftp://localhost")
    with pytest.raises(UsageError, match="NAME=SHARE"):
        read_shares(["a=-1"])
    assert read_levels(["a=20ms", "a=5ms"]) == {"a": [0.005, 0.02]}
    head = RequestHead("localhost", None, {})
    words = {"name": "m", "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1]}]}
    with pytest.raises(UsageError, match="BYTES"):
        infer_request(head, words, binary=True)
    half = {"name": "m", "inputs": [{"name": "x", "datatype": "FP16", "shape": [1]}]}
    with pytest.raises(UsageError, match="--binary"):
        infer_request(head, half, binary=False)


@pytest.mark.parametrize("slo", ["net", "net=", "net=20", "net=0ms", "=5ms", "net=5parsecs"])
def test_an_objective_without_a_unit_is_none(slo):
    with pytest.raises(UsageError, match="--slo"):
        read_levels([slo])


def test_where_the_page_or_the_key_cannot_be_is_told_before_anything_is_asked(tmp_path):
    asked = ["load-test", "http://localhost:1", "--model", "net", "--rate", "1"]
    for option, path in (("--out", "none/page.html"), ("--key-file", "none.key")):
        result = CliRunner().invoke(app, [*asked, option, str(tmp_path / path)])
        assert result.exit_code == 2 and "does not answer" not in result.output
    assert not list(tmp_path.iterdir())


def test_pictures_have_no_scripts_and_show_all_points():
    svg = line_chart([ChartLine("<b>", [(0, 1.0), (1, None), (2, 3.0)])], str)
    assert "<b>" not in svg and svg.count('class="line') == 2
    bars = histogram_chart([0.001] * 5 + [0.01], [0.02])
    assert bars.count('class="bar"') == 2 and bars.count('class="slo"') == 1
    assert "script" not in svg + bars


@pytest.mark.parametrize("form", ["--binary", "--text"])
def test_a_server_is_asked_and_the_page_is_written(served_models, tmp_path, form):
    models = {name: served_models / f"{name}.hetero" for name in ("dense", "branchy")}
    page = tmp_path / "report.html"
    with Hosted(models) as server:
        url = f"http://localhost:{server.server.port}"
        arguments = ["load-test", url, "--model", "dense=2", "--model", "branchy", "--seconds", "1",
                     "--rate", "40", "--slo", "dense=1s", "--slo", "dense=1us", form,
                     "--out", str(page), "--json"]  # fmt: skip
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        unknown = CliRunner().invoke(app, ["load-test", url, "--model", "nets", "--rate", "1"])
        assert unknown.exit_code == 2 and "there is no model" in unknown.output
    (run,) = json.loads(result.stdout)
    by_model = {row["model"]: row for row in run["models"]}
    due = poisson(40, 1, {"dense": 2, "branchy": 1})
    for name in models:
        asked = sum(each.model == name for each in due)
        assert by_model[name]["requests"] == by_model[name]["latency"]["count"] == asked
        assert not by_model[name]["failed"] and not by_model[name]["refused"]
    assert max(by_model["dense"]["violations"].values()) == 1.0  # within a microsecond
    assert page.read_text().count("<svg") == 5  # throughput, and two of each model


def test_its_figures_are_those_of_an_independent_client(served_models):
    # The server's own books: it answered as many as the load test says, not more, not fewer.
    with Hosted({"dense": served_models / "dense.hetero"}) as server:
        url = f"http://localhost:{server.server.port}"
        result = CliRunner().invoke(app, ["load-test", url, "--model", "dense", "--at-once", "2",
                                          "--seconds", "0.5", "--json"])  # fmt: skip
        (run,) = json.loads(result.stdout)
        model = server.ask(lambda: server.server.context.repository.find("dense"))
        assert model.statistics.success.count == run["models"][0]["latency"]["count"] > 0
