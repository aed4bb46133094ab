"""Throughput over time, drawn: what stands where, and that nothing else gets in."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tvm_hetero.report.online.rate_chart import RateRow, SwitchTick, rate_svg

ROW = RateRow(
    "resolve",
    points=[(10.0, 100.0), (20.0, 50.0), (40.0, 80.0)],
    shaded=[(10.0, 30.0)],
    best=[(0.0, 10.0, 100.0), (10.0, 30.0, 90.0), (30.0, 40.0, 100.0)],
    switches=[SwitchTick(20.0, "0-3@big\nstage 0 takes longer"), SwitchTick(31.0, "home")],
)
EVIL = '</title><script>alert("x")</script>\x1b[31m'


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(re.sub(r' xmlns="[^"]*"', "", text))


def of_kind(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if each.get("class") == kind]


def moments(path: str) -> list[float]:
    return [float(x) for x in re.findall(r"H([0-9.]+)", path)]


def test_everything_of_a_row_is_drawn_on_one_scale() -> None:
    root = read(rate_svg([ROW]))
    (group,) = [each for each in root if each.tag == "g" and each.get("transform")]
    (rate,) = of_kind(group, "rate")
    ends = moments(rate.get("d", ""))
    assert ends[1] - ends[0] == pytest.approx((ends[2] - ends[1]) / 2, abs=0.2)
    (band,) = of_kind(group, "band")
    assert float(band.get("x", "")) == pytest.approx(ends[0], abs=0.1)
    assert float(band.get("width", "")) == pytest.approx(ends[2] - ends[1], abs=0.2)
    assert len(of_kind(group, "best")) == 3
    ticks = of_kind(group, "switch")
    assert float(ticks[0][2].get("x1", "")) == pytest.approx(ends[1], abs=0.1)
    assert ticks[0][0].text == "20.00 s: 0-3@big\\nstage 0 takes longer"


def test_rates_are_heights_and_rows_share_them() -> None:
    half = RateRow("static", [(40.0, 50.0)])
    rates = of_kind(read(rate_svg([ROW, half])), "rate")
    tops = [float(y) for rate in rates[:2] for y in re.findall(r"V([0-9.]+)", rate.get("d", ""))]
    full, middle, _, other = tops
    assert middle == other
    assert (96 - middle) == pytest.approx((96 - full) / 2, abs=0.2)


def test_a_page_brings_the_style_once_and_a_file_has_its_own() -> None:
    assert "<style>" in rate_svg([ROW]) and "xmlns" in rate_svg([ROW])
    inside = rate_svg([ROW], standalone=False)
    assert "<style>" not in inside and "xmlns" not in inside
    assert not re.search(r"https?:|url\(|@import", inside)


def test_hostile_text_is_shown_as_text() -> None:
    row = RateRow(EVIL, [(1.0, 1.0)], switches=[SwitchTick(0.5, EVIL)])
    text = rate_svg([row])
    assert "<script" not in text and "\x1b" not in text
    (tick,) = [each for each in of_kind(read(text), "switch") if each.find("title") is not None]
    assert "<script>" in (tick[0].text or "")


def test_nothing_at_all_is_still_a_picture() -> None:
    for rows in ([], [RateRow("idle", [])], [RateRow("stopped", [(0.0, 0.0)])]):
        assert read(rate_svg(rows)).tag == "svg"


def test_very_many_switches_and_disturbances_are_drawn_each() -> None:
    shaded = [(float(i), i + 0.5) for i in range(500)]
    ticks = [SwitchTick(float(i), "x") for i in range(500)]
    root = read(rate_svg([RateRow("often", [(500.0, 1.0)], shaded, [], ticks)]))
    assert len(of_kind(root, "band")) == len(of_kind(root, "switch")) == 501  # and the legend's
