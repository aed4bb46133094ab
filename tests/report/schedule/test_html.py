from __future__ import annotations

import re
from html.parser import HTMLParser

from tests.report import samples
from tvm_hetero.report.schedule.html import Figure, HtmlTable, Page, report_html
from tvm_hetero.report.schedule.text import plan_page


class Reader(HTMLParser):
    """Tags that were opened and not closed, attributes, and the text."""

    VOID = frozenset({"meta", "rect", "line", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page() -> str:
    problem = samples.problem(name=samples.EVIL, evil=True)
    return report_html(plan_page(samples.schedule(problem), problem))


def test_page_is_well_formed() -> None:
    read = Reader(page())
    assert read.open == []
    assert read.tags.count("svg") == 1
    assert read.tags.count("table") == 1


def test_page_needs_no_network_and_runs_nothing() -> None:
    text = page()
    read = Reader(text)
    assert not re.search(r"https?:|url\(|@import", text)
    assert "script" not in read.tags and "link" not in read.tags and "img" not in read.tags
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert not [name for name, _ in read.attributes if name in {"src", "href"}]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in read.attributes


def test_hostile_names_are_shown_as_text() -> None:
    text = page()
    assert "<script" not in text
    assert "\x1b" not in text
    assert any("<script>alert" in piece for piece in Reader(text).text)


def test_every_part_of_a_page_is_there() -> None:
    text = report_html(
        Page(
            title="T&T",
            verdict="won <b>",
            tone="good",
            figures=[Figure("latency", "1 ms", "x < y")],
            tables=[HtmlTable("Rows", ["h"], [["cell & co"]], "note")],
        )
    )
    said = " ".join(Reader(text).text)
    for piece in ("T&T", "won <b>", "latency", "1 ms", "x < y", "Rows", "cell & co", "note"):
        assert piece in said


def test_charts_share_one_time_scale() -> None:
    one = plan_page(samples.schedule()).charts[0]
    late = type(one)("Late", [*one.intervals], [type(one.marks[0])("end", 10e-3)])
    text = report_html(Page(title="two", charts=[one, late], lanes=["big", "little"]))
    places = re.findall(r'<rect x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)" height="24"', text)
    assert len(places) == 8
    assert places[:4] == places[4:]
