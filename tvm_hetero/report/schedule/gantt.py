"""Gantt charts as SVG: a row for every device and link, a bar for every task.

The picture is a string without scripts or outside resources. Its colours follow the reader's
light or dark setting through CSS; bars keep their own colours in both. Each bar carries a
``<title>``, which browsers show as a tooltip, so 300 bars stay readable: names are drawn only
where they fit. Names are escaped: they come from model files.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tvm_hetero.report.schedule.intervals import Interval, busy_seconds, lane_order, span
from tvm_hetero.report.schedule.palette import ColorFamily, colour_families
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

_LABEL = "what runs where and when"  # for who cannot see it; tables beside it say the same
_ROW = 34  # height of a lane, px
_BAR = 24  # height of a bar, px
_TOP = 46  # room above the lanes for marks and the axis, px
_CHARACTER = 6.6  # width of a character of bar text, px: that of a wide 11 px sans
_TICKS = 9  # about how many ticks the time axis has

STYLE = """
.gantt { font: 12px system-ui, sans-serif; --ink: #1f2933; --faint: #6b7280; --grid: #e3e6ea;
  --band: #f5f6f8; --value: #b42318; --bound: #175cd3; --edge: #ffffff; }
@media (prefers-color-scheme: dark) {
  .gantt { --ink: #e5e7eb; --faint: #9ca3af; --grid: #30363f; --band: #1b2027;
    --value: #ff8a7a; --bound: #84b6ff; --edge: #14181e; } }
.gantt text:where(:not([fill])) { fill: var(--ink); }
.gantt .faint { fill: var(--faint); font-size: 11px; }
.gantt .grid { stroke: var(--grid); stroke-width: 1; }
.gantt .band { fill: var(--band); }
.gantt .bar rect { stroke: var(--edge); stroke-width: 0.5; }
.gantt .thin rect { stroke: none; }
.gantt .bar text { font-size: 11px; pointer-events: none; }
.gantt .bar:hover rect { stroke: var(--ink); stroke-width: 1.5; }
.gantt .value line { stroke: var(--value); stroke-width: 1.5; }
.gantt .value text { fill: var(--value); }
.gantt .bound line { stroke: var(--bound); stroke-width: 1.5; stroke-dasharray: 5 3; }
.gantt .bound text { fill: var(--bound); }
"""


@dataclass(frozen=True)
class Mark:
    """A vertical line at `seconds`; `style` is ``value`` (solid) or ``bound`` (dashed)."""

    label: str
    seconds: float
    style: str = "value"


@dataclass(frozen=True)
class Axes:
    """The geometry of a chart: where time and lanes are on the picture (px)."""

    width: float
    left: float
    seconds: float
    lanes: dict[str, int] = field(default_factory=dict)

    @property
    def right(self) -> float:
        """The x of the end of the time axis; figures of busy shares stand beyond it."""
        return self.width - 58.0

    @property
    def bottom(self) -> float:
        """The y below the last lane."""
        return _TOP + _ROW * len(self.lanes)

    def x(self, seconds: float) -> float:
        """The x of a point in time."""
        return self.left + (self.right - self.left) * seconds / self.seconds


def gantt_svg(
    intervals: Sequence[Interval],
    *,
    lanes: Sequence[str] = (),
    marks: Sequence[Mark] = (),
    seconds: float = 0.0,
    width: float = 1120.0,
    margin: float = 0.0,
    standalone: bool = True,
) -> str:
    """Draw intervals as an SVG picture.

    Parameters
    ----------
    intervals : what to draw.
    lanes : rows that come first, and that are drawn even when they are empty.
    marks : vertical lines, such as the value and the lower bound.
    seconds : least length of the time axis; it is as long as is needed in any case.
    width : of the picture, px. The height follows from the number of lanes.
    margin : least room for the lanes' names, px (see `names_margin`). Charts below each other
        need the same `seconds`, `width` and `margin` to share a time axis.
    standalone : True for a file of its own; False for a page that holds `STYLE` itself.
    """
    names = lane_order(intervals, lanes)
    length = max([seconds, span(intervals), *(mark.seconds for mark in marks)])
    axes = Axes(
        width=width,
        left=max(margin, names_margin(names)),
        seconds=length if length > 0 else 1.0,
        lanes={lane: row for row, lane in enumerate(names)},
    )
    families = colour_families(interval.kind for interval in intervals)
    legend, height = _legend(families.values(), axes)
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg class="gantt"{namespace} role="img" aria-label="{_LABEL}" {size}>',
            f"<style>{STYLE}</style>" if standalone else "",
            *_bands(axes),
            *_grid(axes),
            *(_bar(interval, families[interval.kind], axes) for interval in intervals),
            *_shares(intervals, axes),
            *_mark_lines(marks, axes),
            *legend,
            "</svg>",
        ]
    )


def names_margin(lanes: Iterable[str]) -> float:
    """The room that the lanes' names need at the left of a chart, px."""
    return 24.0 + 7.0 * max((len(printable(lane, 24)) for lane in lanes), default=0)


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    safe = html.escape(printable(text, limit=None))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{safe}</text>'


def _bands(axes: Axes) -> Iterable[str]:
    """The lanes' names, and a background on every second lane."""
    for lane, row in axes.lanes.items():
        y = _TOP + _ROW * row
        if row % 2 == 0:
            yield (f'<rect class="band" x="0" y="{y}" width="{axes.right:.1f}" height="{_ROW}"/>')
        yield _text(axes.left - 10, y + _ROW / 2 + 4, printable(lane, 24), "end")


def tick_step(seconds: float, count: int = _TICKS) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides `seconds` into about `count`."""
    rough = seconds / count
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)


def _grid(axes: Axes) -> Iterable[str]:
    step = tick_step(axes.seconds)
    unit, factor = next(
        ((u, f) for u, f in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if axes.seconds >= f),
        ("ns", 1e-9),
    )
    decimals = max(0, -math.floor(math.log10(step / factor) + 1e-9))
    for i in range(math.floor(axes.seconds / step + 1e-9) + 1):
        x = axes.x(i * step)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{axes.bottom}"/>'
        label = f"{i * step / factor:.{decimals}f}" + (f" {unit}" if i == 0 else "")
        yield _text(x, axes.bottom + 15, label, "middle", ' class="faint"')


def _bar(interval: Interval, family: ColorFamily, axes: Axes) -> str:
    """One bar with its tooltip, and its name if that fits."""
    x = axes.x(interval.start)
    width = max(1.0, axes.x(interval.end) - x)
    runs = _runs(sorted(axes.lanes[lane] for lane in interval.lanes))
    y = _TOP + _ROW * runs[0][0] + (_ROW - _BAR) / 2
    start, end = format_seconds(interval.start), format_seconds(interval.end)
    when = f"{format_seconds(interval.seconds)}, from {start} to {end} on {interval.lane}"
    facts = [interval.name, interval.kind, when, interval.detail]
    # The lines are escaped one by one: a line break is ours only between them.
    title = "\n".join(html.escape(printable(fact, limit=None)) for fact in facts if fact)
    round_corner = f'rx="{min(3.0, width / 4):.1f}"'
    parts = [f'<g class="{"bar" if width > 3 else "bar thin"}"><title>{title}</title>']
    for row, count in runs:
        top, height = _TOP + _ROW * row + (_ROW - _BAR) / 2, _BAR + _ROW * (count - 1)
        place = f'x="{x:.2f}" y="{top:.1f}" width="{width:.2f}" height="{height}"'
        parts.append(f'<rect {place} {round_corner} fill="{family.fill}"/>')
    fits = int((width - 6) / _CHARACTER)
    name = printable(interval.name, limit=None)
    if fits >= min(len(name), 8):
        # No style: a page that allows none in its text may show the chart, too.
        style = f' fill="{family.text}"'
        middle = y + (_BAR + _ROW * (runs[0][1] - 1)) / 2 + 4
        parts.append(_text(x + width / 2, middle, printable(name, fits), "middle", style))
    return "".join([*parts, "</g>"])


def _runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Rows that stand together: the first of each run, and how many."""
    found: list[tuple[int, int]] = []
    for row in rows:
        first, count = found[-1] if found else (row, 0)
        if found and row == first + count:
            found[-1] = first, count + 1
        else:
            found.append((row, 1))
    return found


def _shares(intervals: Sequence[Interval], axes: Axes) -> Iterable[str]:
    """At the end of each lane: the share of this chart's time that it is busy."""
    length = span(intervals) or 1.0
    for lane, row in axes.lanes.items():
        share = busy_seconds(intervals, lane) / length
        y = _TOP + _ROW * row + _ROW / 2 + 4
        yield _text(axes.width - 12, y, f"{share:.0%}", "end", ' class="faint"')
    yield _text(axes.width - 12, _TOP - 8, "busy", "end", ' class="faint"')


def _mark_lines(marks: Sequence[Mark], axes: Axes) -> Iterable[str]:
    """The marks; labels alternate between two heights, since marks are often close together."""
    for row, mark in enumerate(sorted(marks, key=lambda mark: mark.seconds)):
        x, y = axes.x(mark.seconds), 14 + 15 * (row % 2)
        # To the right where there is room, so that a label does not cross the line before it.
        fits = x + 10 + 5.9 * len(printable(mark.label, limit=None)) < axes.width
        anchor, shift = ("start", 5) if fits and row == len(marks) - 1 else ("end", -5)
        yield (
            f'<g class="{html.escape(mark.style)}"><line x1="{x:.1f}" x2="{x:.1f}" '
            f'y1="{y - 9}" y2="{axes.bottom}"/>{_text(x + shift, y, mark.label, anchor)}</g>'
        )


def _legend(families: Iterable[ColorFamily], axes: Axes) -> tuple[list[str], float]:
    """The colours that occur, below the chart, in as many rows as they need; and the height."""
    parts, x, y = [], axes.left, axes.bottom + 28.0
    for family in sorted(set(families), key=lambda family: (family.name == "other", family.name)):
        name = printable(family.name, 24)
        if x + 24 + 7 * len(name) > axes.width:
            x, y = axes.left, y + 20
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="12" height="12" fill="{family.fill}"/>')
        parts.append(_text(x + 17, y + 10, name))
        x += 34 + 7 * len(name)
    return parts, y + 22
