"""All parts that reports are made of, in a browser: in the light, in the dark, on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.commit_history.page import history_page
from benchmarks.commit_history.rows import HistoryRow
from benchmarks.commit_history.turns import Figure as HistoryFigure
from docs.site import check
from tests.browser import browser as browser
from tests.report import samples
from tests.report.online.test_rate_chart import ROW
from tvm_hetero.report.online import rate_chart
from tvm_hetero.report.schedule.html import Figure, HtmlTable, Page, SvgPicture, report_html
from tvm_hetero.report.schedule.text import plan_page
from tvm_hetero.serve.load_test import charts

WIDE = [["a task", *(f"{1000 * number} ms" for number in range(20))]] * 3


def sample_page() -> str:
    """Charts, all pictures, and a table that is too large for any window."""
    rates = rate_chart.rate_svg([ROW], standalone=False)
    line = charts.line_chart([charts.ChartLine("a", [(0, 1.0), (1, 3.0)])], str)
    bars = charts.histogram_chart([0.01, 0.02], [0.015])
    problem = samples.problem()
    charted = plan_page(samples.schedule(problem), problem)
    return report_html(
        Page(
            "All parts",
            "what reports are made of",
            verdict="It is quicker.",
            tone="good",
            figures=[Figure("latency", "1 ms", "predicted")],
            charts=charted.charts,
            lanes=charted.lanes,
            tables=[*charted.tables, HtmlTable("Wide", ["", *map(str, range(20))], WIDE, "note")],
            pictures=[
                SvgPicture("Rates", rates, rate_chart.STYLE),
                SvgPicture("Lines", line, charts.STYLE),
                SvgPicture("Bars", bars, charts.STYLE),
            ],
        )
    )


def test_nothing_is_wrong_with_any_part(browser: Any, tmp_path: Path) -> None:
    row = HistoryRow("c0", "2026-01-01T00:00Z", "a machine", 0.1,
                     {"conv": HistoryFigure(0.9, 0.8, 1.1, 1e-3, 1e-3)})  # fmt: skip
    pages = {"report.html": sample_page(), "history.html": history_page([row])}
    page = browser.new_page()
    told = check.listen(page)
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert list(check.page_faults(page, (tmp_path / name).as_uri())) == [], name
    assert told == []


def test_a_fault_is_seen(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(sample_page().replace('tabindex="0"', ""))
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert list(check.accessibility_faults(page, ["scrollable-region-focusable"]))
