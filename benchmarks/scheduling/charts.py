"""Pictures as SVG text: bars, and lines on logarithmic axes. No scripts, no fonts."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

_STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #1f2933; } .faint { fill: #6b7280; }
.grid { stroke: #e3e6ea; } .bar { fill: #2f6fbb; } .bar.other { fill: #c8742a; }
.line { fill: none; stroke: #2f6fbb; stroke-width: 2; } .line.other { stroke: #c8742a; }
.line.third { stroke: #3a8f5c; } .line.fourth { stroke: #8a5cb8; } .line.fifth { stroke: #b8455f; }
.guide { fill: none; stroke: #6b7280; stroke-dasharray: 4 4; }
@media (prefers-color-scheme: dark) { text { fill: #e5e7eb; } .faint { fill: #9ca3af; }
.grid { stroke: #30363f; } } </style>"""


def bars(title: str, rows: Sequence[tuple[str, float, str]], width: int = 760) -> str:
    """Horizontal bars: (name, length, text beside it)."""
    longest = max((value for _, value, _ in rows), default=1.0) or 1.0
    room, step = width - 330, 24
    parts = [f'<text x="0" y="16" font-weight="600">{html.escape(title)}</text>']
    for i, (name, value, text) in enumerate(rows):
        y = 30 + i * step
        length = max(1.0, room * value / longest)
        parts.append(f'<text x="205" y="{y + 14}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(f'<rect class="bar" x="212" y="{y + 2}" width="{length:.1f}" height="16"/>')
        parts.append(
            f'<text class="faint" x="{218 + length:.1f}" y="{y + 14}">{html.escape(text)}</text>'
        )
    return _svg(parts, width, 40 + step * len(rows))


def log_lines(
    title: str,
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    axes: tuple[str, str],
    width: int = 760,
    height: int = 380,
) -> str:
    """Lines through points on two logarithmic axes, with a guide of slope 1 from the first."""
    points = [point for _, line in series for point in line]
    low_x, high_x = _decades([x for x, _ in points])
    low_y, high_y = _decades([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low_x) / (high_x - low_x)
        up = (math.log10(y) - low_y) / (high_y - low_y)
        return 60 + across * (width - 200), height - 40 - up * (height - 80)

    parts = [f'<text x="0" y="16" font-weight="600">{html.escape(title)}</text>']
    for power in range(low_x, high_x + 1):
        x, bottom = place(10.0**power, 10.0**low_y)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="40" x2="{x:.1f}" y2="{bottom:.1f}"/>')
        parts.append(f'<text class="faint" x="{x:.1f}" y="{bottom + 16:.1f}" '
                     f'text-anchor="middle">{10.0**power:,.0f}</text>')  # fmt: skip
    for power in range(low_y, high_y + 1):
        left, y = place(10.0**low_x, 10.0**power)
        right = width - 140
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="faint" x="{left - 6}" y="{y + 4:.1f}" '
                     f'text-anchor="end">{10.0**power:g}</text>')  # fmt: skip
    for i, (name, line) in enumerate(series):
        kind = "line other" if i else "line"
        way = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line)
        parts.append(f'<polyline class="{kind}" points="{way}"/>')
        x, y = place(*line[-1])
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{html.escape(name)}</text>')
    parts.append(_guide(series[0][1], place))
    parts.append(f'<text class="faint" x="{width / 2:.0f}" y="{height - 6}">{axes[0]}</text>')
    parts.append(f'<text class="faint" x="0" y="34">{axes[1]}</text>')
    return _svg(parts, width, height)


def doubling_lines(
    title: str,
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    axes: tuple[str, str],
    width: int = 760,
    height: int = 420,
) -> str:
    """Lines whose x double from point to point; the last line is a guide. Names do not overlap."""
    points = [point for _, line in series for point in line]
    marks_x = sorted({x for x, _ in points})
    marks_y = _ones_twos_fives([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / marks_x[0]) / math.log(marks_x[-1] / marks_x[0])
        up = math.log(y / marks_y[0]) / math.log(marks_y[-1] / marks_y[0])
        return 60 + across * (width - 230), height - 40 - up * (height - 80)

    left, right, bottom = 60, width - 170, height - 40
    parts = [f'<text x="0" y="16" font-weight="600">{html.escape(title)}</text>']
    for mark in marks_x:
        x, _ = place(mark, marks_y[0])
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="40" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="faint" x="{x:.1f}" y="{bottom + 16}" '
                     f'text-anchor="middle">{mark:g}</text>')  # fmt: skip
    for mark in marks_y:
        _, y = place(marks_x[0], mark)
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="faint" x="{left - 6}" y="{y + 4:.1f}" '
                     f'text-anchor="end">{mark:g}</text>')  # fmt: skip
    kinds = ["line", *(f"line {name}" for name in ("other", "third", "fourth", "fifth"))]
    ends = []
    for i, (name, line) in enumerate(series):
        kind = "guide" if i == len(series) - 1 else kinds[i % len(kinds)]
        way = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line)
        parts.append(f'<polyline class="{kind}" points="{way}"/>')
        ends.append((place(*line[-1])[1], name))
    for y, name in _apart(sorted(ends)):
        parts.append(f'<text x="{right + 8}" y="{y + 4:.1f}">{html.escape(name)}</text>')
    parts.append(f'<text class="faint" x="{width / 2:.0f}" y="{height - 6}">{axes[0]}</text>')
    parts.append(f'<text class="faint" x="0" y="34">{axes[1]}</text>')
    return _svg(parts, width, height)


def _ones_twos_fives(values: Sequence[float]) -> list[float]:
    """Marks 1, 2, 5, 10 ... from the last below all values to the first above."""
    steps = [m * 10.0**e for e in range(*_range_of_decades(values)) for m in (1, 2, 5)]
    first = max(i for i, mark in enumerate(steps) if mark <= min(values))
    last = min(i for i, mark in enumerate(steps) if mark >= max(values))
    return steps[first : max(last, first + 1) + 1]


def _range_of_decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = _decades(values)
    return low, high + 1


def _apart(ends: Sequence[tuple[float, str]], least: float = 15.0) -> list[tuple[float, str]]:
    """Heights of names from the top down, moved so far that no two overlap."""
    moved: list[tuple[float, str]] = []
    for y, name in ends:
        moved.append((max(y, moved[-1][0] + least) if moved else y, name))
    return moved


def _guide(line: Sequence[tuple[float, float]], place: object) -> str:
    """What growth in proportion would look like."""
    (x0, y0), (x1, _) = line[0], line[-1]
    ends = [place(x0, y0), place(x1, y0 * x1 / x0)]  # type: ignore[operator]
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    return f'<polyline class="guide" points="{way}"/>'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _svg(parts: Sequence[str], width: int, height: int) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return "\n".join([head, _STYLE, *parts, "</svg>", ""])
