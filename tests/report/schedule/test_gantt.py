from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import samples
from tvm_hetero.report.schedule.gantt import Mark, gantt_svg, tick_step
from tvm_hetero.report.schedule.intervals import Interval, plan_intervals

SVG = "{http://www.w3.org/2000/svg}"


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # raises if it is not well-formed


def bars(root: ET.Element) -> list[ET.Element]:
    return [g for g in root.iter(f"{SVG}g") if g.get("class", "").startswith("bar")]


def test_a_bar_with_a_tooltip_for_every_interval() -> None:
    problem = samples.problem()
    plan = plan_intervals(samples.schedule(problem), problem)
    found = bars(parse(gantt_svg(plan, lanes=["big", "little"])))
    titles = [bar.findtext(f"{SVG}title", "") for bar in found]
    assert [title.splitlines()[0] for title in titles] == ["a", "b", "c", "a"]
    assert "4.00 ms, from 1.00 ms to 5.00 ms on big" in titles[1]


def test_bars_are_as_long_as_their_times() -> None:
    intervals = [Interval("d", "x", 0.0, 1.0), Interval("d", "y", 1.0, 4.0)]
    short, long = (bar.find(f"{SVG}rect") for bar in bars(parse(gantt_svg(intervals))))
    assert short is not None and long is not None
    ratio = float(long.get("width", "0")) / float(short.get("width", "1"))
    assert ratio == pytest.approx(3, rel=0.01)


def test_marks_and_their_labels() -> None:
    marks = [Mark("predicted 5 ms", 5e-3), Mark("lower bound 4 ms", 4e-3, "bound")]
    root = parse(gantt_svg(plan_intervals(samples.schedule()), marks=marks))
    labels = {g.get("class"): g.findtext(f"{SVG}text") for g in root.iter(f"{SVG}g")}
    assert labels["value"] == "predicted 5 ms"
    assert labels["bound"] == "lower bound 4 ms"


def test_equal_scale_for_equal_seconds_and_margin() -> None:
    def place(lane: str) -> str | None:
        chart = gantt_svg([Interval(lane, "x", 1.0, 2.0)], seconds=4.0, margin=200.0)
        rect = bars(parse(chart))[0].find(f"{SVG}rect")
        return rect.get("x") if rect is not None else None

    assert place("d") == place("another-device")


def test_hostile_names_are_text() -> None:
    problem = samples.problem(evil=True)
    svg = gantt_svg(plan_intervals(samples.schedule(problem), problem))
    assert "<script" not in svg
    assert "\x1b" not in svg and "\u202e" not in svg
    titles = [bar.findtext(f"{SVG}title", "") for bar in bars(parse(svg))]
    assert any("<script>" in title for title in titles)


@pytest.mark.parametrize("intervals", [[], [Interval("d", "zero", 0.0, 0.0)]])
def test_nothing_and_zero_times_draw(intervals: list[Interval]) -> None:
    assert len(bars(parse(gantt_svg(intervals, lanes=["d"])))) == len(intervals)


@given(st.floats(1e-9, 1e6))
def test_ticks_are_round_and_neither_few_nor_many(seconds: float) -> None:
    step = tick_step(seconds)
    assert 3 <= seconds / step <= 10
    assert f"{step:.0e}"[0] in "125"
