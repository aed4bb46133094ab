"""Pictures of a load test: values over time, a histogram of latencies; SVG without scripts."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tvm_hetero.report.schedule.gantt import tick_step
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

_WIDTH, _HEIGHT = 1120.0, 260.0
_LEFT, _RIGHT, _TOP, _FOOT = 72.0, 16.0, 12.0, 48.0
_TICKS = 5
_HEADROOM = 1.08

STYLE = """
.load { font: 12px system-ui, sans-serif; --ink: #1f2933; --faint: #6b7280; --grid: #e3e6ea;
  --c0: #0072b2; --c1: #b45309; --c2: #b42318; --c3: #05603a; --slo: #b42318; }
@media (prefers-color-scheme: dark) {
  .load { --ink: #e5e7eb; --faint: #9ca3af; --grid: #30363f; --c0: #56b4e9; --c1: #f5b56a;
    --c2: #ff8a7a; --c3: #7fe0ad; --slo: #ff8a7a; } }
.load text { fill: var(--faint); font-size: 11px; }
.load .grid { stroke: var(--grid); }
.load .line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
.load .c0 { stroke: var(--c0); } .load .c1 { stroke: var(--c1); }
.load .c2 { stroke: var(--c2); } .load .c3 { stroke: var(--c3); }
.load .bar { fill: var(--c0); }
.load .slo { stroke: var(--slo); stroke-width: 1.5; stroke-dasharray: 5 3; }
"""


@dataclass(frozen=True)
class ChartLine:
    """A line: its name, and points (s, value); a gap where the value is None."""

    name: str
    points: Sequence[tuple[float, float | None]]


def line_chart(lines: Sequence[ChartLine], form: Callable[[float], str]) -> str:
    """Values over time.

    Parameters
    ----------
    lines : four at most are told apart.
    form : a value, as the axis shows it.
    """
    values = [y for line in lines for _, y in line.points if y is not None]
    longest = max((x for line in lines for x, _ in line.points), default=0.0) or 1.0
    highest = _HEADROOM * (max(values, default=0.0) or 1.0)
    parts = [*_value_axis(highest, form), *_axis(longest, lambda x: f"{x:g} s")]
    for number, line in enumerate(lines):
        colour = f"c{number % 4}"
        path = _path(line.points, longest, highest)
        parts.append(f'<path class="line {colour}" d="{path}"/>')
        x = _LEFT + 150 * number
        parts.append(f'<path class="line {colour}" d="M{x:.0f} {_HEIGHT - 12:.0f}h20"/>')
        parts.append(_text(x + 26, _HEIGHT - 8, line.name))
    return _picture(parts, "how it changed over time")


def histogram_chart(latencies: Sequence[float], slo: Sequence[float], bins: int = 60) -> str:
    """How many were answered within which time; SLOs are dashed lines."""
    longest = _HEADROOM * max([*latencies, *slo], default=1.0)
    counts = [0] * bins
    for each in latencies:
        counts[min(bins - 1, int(each / longest * bins))] += 1
    highest = _HEADROOM * max(1, *counts)
    parts = [*_value_axis(highest, lambda y: f"{y:g}"), *_axis(longest, format_seconds)]
    wide = (_WIDTH - _LEFT - _RIGHT) / bins
    for number, count in enumerate(counts):
        if count:
            y, begin = _y(count, highest), number * longest / bins
            parts.append(
                f'<rect class="bar" x="{_LEFT + number * wide:.1f}" y="{y:.1f}" '
                f'width="{wide - 1:.1f}" height="{_HEIGHT - _FOOT - y:.1f}">'
                f"<title>{count} from {format_seconds(begin)} on</title></rect>"
            )
    for seconds in slo:
        x = _x(seconds, longest)
        parts.append(
            f'<line class="slo" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _FOOT}">'
            f"<title>SLO {format_seconds(seconds)}</title></line>"
        )
    return _picture(parts, "how many answers took how long")


def _picture(parts: Iterable[str], label: str) -> str:
    """An SVG; `label` says of what to those who cannot see it, beside tables that have figures."""
    size = f'viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}"'
    return "\n".join(
        [f'<svg class="load" role="img" aria-label="{label}" {size}>', *parts, "</svg>"]
    )


def _path(points: Sequence[tuple[float, float | None]], longest: float, highest: float) -> str:
    pieces, pen = [], "M"
    for moment, value in points:
        if value is None:
            pen = "M"
            continue
        pieces.append(f"{pen}{_x(moment, longest):.1f} {_y(value, highest):.1f}")
        pen = "L"
    return "".join(pieces)


def _value_axis(highest: float, form: Callable[[float], str]) -> Iterable[str]:
    step = tick_step(highest, _TICKS)
    for number in range(math.floor(highest / step) + 1):
        y = _y(number * step, highest)
        yield (
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        yield _text(_LEFT - 8, y + 4, form(number * step) if number else "0", "end")


def _axis(longest: float, form: Callable[[float], str]) -> Iterable[str]:
    step = tick_step(longest, 2 * _TICKS)
    for number in range(math.floor(longest / step + 1e-9) + 1):
        label = form(number * step) if number else "0"
        yield _text(_x(number * step, longest), _HEIGHT - _FOOT + 16, label, "middle")


def _x(value: float, longest: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, value / longest)


def _y(value: float, highest: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _FOOT) * (1.0 - min(1.0, value / highest))


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    safe = html.escape(printable(text, limit=None))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{safe}</text>'
