"""A load test as one HTML page: what locust would draw, without a server that draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_hetero.report.schedule.html import Figure, HtmlTable, Page, SvgPicture
from tvm_hetero.serve.load_test.charts import STYLE, ChartLine, histogram_chart, line_chart
from tvm_hetero.serve.load_test.records import HEADERS, LoadRecord, LoadRun, cells
from tvm_hetero.util.statistics import quantile
from tvm_hetero.util.units import format_seconds

_OK = 200
_WINDOWS = 60  # of the lines over time
_LEVELS = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def load_page(url: str, runs: Sequence[LoadRun], slo: Mapping[str, Sequence[float]]) -> Page:
    """The page about one or more runs against a server."""
    rows = [row for run in runs for row in run.rows(slo)]
    doubts = " ".join(filter(None, (run.doubts() for run in runs)))
    total = sum(row.requests for row in rows)
    refused = sum(sum(row.refused.values()) for row in rows)
    failed = sum(sum(row.failed.values()) for row in rows)
    pictures = [picture for run in runs for picture in _pictures(run, slo)]
    return Page(
        title=f"Load test of {url}",
        subtitle="Latency counts from the moment when a request was due.",
        verdict=doubts or "The client kept the load; figures are the server's.",
        tone="bad" if doubts else "good",
        figures=[
            Figure("requests", str(total)),
            Figure("refused", str(refused), "with a reason, as a server that is full should"),
            Figure("failed", str(failed), "errors, and no reply"),
        ],
        tables=[
            HtmlTable("Loads", HEADERS, [cells(row) for row in rows],
                      "late: not answered within the SLO, in percent of all requests"),
            HtmlTable("The client", ["load", "lag p50", "lag p99", "connections"],
                      [_client(run) for run in runs if run.records]),
        ],
        pictures=pictures,
    )  # fmt: skip


def _client(run: LoadRun) -> list[str]:
    lag = run.lag()
    assert lag is not None, "there are records"
    return [run.load, format_seconds(lag.median), format_seconds(lag.p99), str(run.connections)]


def _pictures(run: LoadRun, slo: Mapping[str, Sequence[float]]) -> list[SvgPicture]:
    span = max([run.seconds, *(record.ended for record in run.records)])
    found = [
        SvgPicture(f"{run.load}: throughput", line_chart(_rates(run.records, span), _per_second),
                   STYLE, "requests/s by the moment of their end"),
    ]  # fmt: skip
    for model in sorted({record.model for record in run.records}):
        done = [r for r in run.records if r.model == model and r.status == _OK]
        if not done:
            continue
        times = line_chart(_latencies(done, span), format_seconds)
        bars = histogram_chart([record.latency for record in done], slo.get(model, ()))
        found += [
            SvgPicture(f"{run.load}: latency of {model} over time", times, STYLE,
                       "of those that were due in each window"),
            SvgPicture(f"{run.load}: latencies of {model}", bars, STYLE),
        ]  # fmt: skip
    return found


def _per_second(rate: float) -> str:
    return f"{rate:.6g}/s"


def _window(span: float) -> float:
    return max(span / _WINDOWS, 1e-9)


def _rates(records: Sequence[LoadRecord], span: float) -> list[ChartLine]:
    wide = _window(span)
    answered, others = [0] * _WINDOWS, [0] * _WINDOWS
    for record in records:
        slot = min(_WINDOWS - 1, int(record.ended / wide))
        (answered if record.status == _OK else others)[slot] += 1
    named = {"answered": answered, "refused or failed": others}
    return [
        ChartLine(name, [((i + 0.5) * wide, count / wide) for i, count in enumerate(counts)])
        for name, counts in named.items()
    ]


def _latencies(done: Sequence[LoadRecord], span: float) -> list[ChartLine]:
    wide = _window(span)
    slots: list[list[float]] = [[] for _ in range(_WINDOWS)]
    for record in done:
        slots[min(_WINDOWS - 1, int(record.due / wide))].append(record.latency)
    ordered = [sorted(slot) for slot in slots]
    return [
        ChartLine(name, [
            ((i + 0.5) * wide, quantile(slot, share) if slot else None)
            for i, slot in enumerate(ordered)
        ])
        for name, share in _LEVELS
    ]  # fmt: skip
