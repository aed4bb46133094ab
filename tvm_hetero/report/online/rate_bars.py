"""Throughput over time in a line of text: a bar of eighths for each slice of time."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BARS = " ▁▂▃▄▅▆▇█"


def rate_bars(
    points: Sequence[tuple[float, float]], seconds: float, rate: float, columns: int
) -> str:
    """Bars of (s, requests/s), each window's rate holding from the end of the one before it.

    Parameters
    ----------
    points : windows in order, each at its end.
    seconds : of the whole line; rate : of a full bar.
    columns : how many bars.
    """
    line = []
    number = 0
    for column in range(columns):
        middle = (column + 0.5) * seconds / columns
        while number < len(points) and points[number][0] < middle:
            number += 1
        if number == len(points):
            break
        share = min(1.0, points[number][1] / rate)
        line.append(_BARS[max(1, math.ceil(share * (len(_BARS) - 1)))])
    return "".join(line)


def shade_line(spans: Sequence[tuple[float, float]], seconds: float, columns: int) -> str:
    """A line below such bars: ``▒`` where one of the spans is."""
    middles = [(column + 0.5) * seconds / columns for column in range(columns)]
    cells = ("▒" if any(a <= m < b for a, b in spans) else " " for m in middles)
    return "".join(cells).rstrip()
