"""Throughput over time in a line of text."""

from __future__ import annotations

from tvm_hetero.report.online.rate_bars import rate_bars, shade_line


def test_bars_are_as_high_as_the_rate_and_as_long_as_it_lasted() -> None:
    points = [(4.0, 8.0), (6.0, 4.0), (8.0, 1.0)]
    assert rate_bars(points, 8.0, 8.0, 8) == "████▄▄▁▁"


def test_a_stream_that_ended_sooner_has_a_shorter_line() -> None:
    assert rate_bars([(5.0, 1.0)], 10.0, 1.0, 10) == "█████"
    assert rate_bars([], 10.0, 1.0, 10) == ""


def test_what_disturbed_is_below_its_bars() -> None:
    assert shade_line([(2.0, 4.0), (7.0, 9.0)], 10.0, 10) == "  ▒▒   ▒▒"
    assert shade_line([], 10.0, 10) == ""
