"""Throughput over time as SVG: a row a policy, on one time scale and one scale of throughput.

In each row: what requests/s there were, when something disturbed (shaded), what the best
configuration would have had then (dashed), and switches (ticks on top, with their reason as a
tooltip). One row a policy rather than one line a policy in one chart: a policy that is slowed takes
longer for the same requests, so that what disturbs it is elsewhere on the time axis.

No scripts and nothing from outside; colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_hetero.report.schedule.gantt import names_margin, tick_step
from tvm_hetero.util.untrusted_names import printable

Points = Sequence[tuple[float, float]]

_ROW, _GAP = 96, 30  # height of a row, and between two, px
_TOP, _FOOT = 24, 58  # room above the rows, and below for the axis and the legend, px
_RIGHT = 16
_TICK = 9  # height of a switch's tick, px
_Y_TICKS, _X_TICKS = 5, 9
# Beyond the highest rate, so that it is not on the edge.
_HEADROOM = 1.08

_LABEL = "requests a second over time"  # for who cannot see it; tables beside it say the same
STYLE = """
.rates { font: 12px system-ui, sans-serif; --ink: #1f2933; --faint: #6b7280; --grid: #e3e6ea;
  --band: #fde7c8; --rate: #0072b2; --best: #05603a; --switch: #b42318; }
@media (prefers-color-scheme: dark) {
  .rates { --ink: #e5e7eb; --faint: #9ca3af; --grid: #30363f; --band: #43331c; --rate: #56b4e9;
    --best: #7fe0ad; --switch: #ff8a7a; } }
.rates text { fill: var(--ink); }
.rates .faint { fill: var(--faint); font-size: 11px; }
.rates .grid { stroke: var(--grid); stroke-width: 1; }
.rates .band { fill: var(--band); }
.rates .rate { fill: none; stroke: var(--rate); stroke-width: 1.5; stroke-linejoin: round; }
.rates .best { fill: none; stroke: var(--best); stroke-width: 1.5; stroke-dasharray: 5 3; }
.rates .switch line { stroke: var(--switch); stroke-width: 2; }
.rates .switch:hover line { stroke-width: 4; }
.rates .switch rect { fill: transparent; }
"""


@dataclass(frozen=True)
class SwitchTick:
    """Another plan began at `seconds`; `text` says which and why."""

    seconds: float
    text: str


@dataclass(frozen=True)
class RateRow:
    """A row: a policy's stream; all moments in seconds since it began.

    Attributes
    ----------
    points : (s, requests/s) of windows, each at its end.
    shaded : (begin, end) of what disturbed.
    best : (begin, end, requests/s) of the best configuration, where it is known.
    """

    name: str
    points: Points
    shaded: Points = ()
    best: Sequence[tuple[float, float, float]] = ()
    switches: Sequence[SwitchTick] = ()


@dataclass(frozen=True)
class _Scales:
    """Where moments and rates are, px."""

    left: float
    width: float
    seconds: float
    rate: float

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    def x(self, seconds: float) -> float:
        return self.left + (self.right - self.left) * min(1.0, seconds / self.seconds)

    def y(self, rate: float) -> float:
        """Below the top of a row."""
        return _ROW * (1.0 - min(1.0, rate / self.rate))


def rate_svg(rows: Sequence[RateRow], width: float = 1120.0, *, standalone: bool = True) -> str:
    """Draw rows below each other.

    Parameters
    ----------
    rows : what to draw.
    width : px; the height follows from the number of rows.
    standalone : True for a file of its own; False for a page that holds `STYLE` itself.
    """
    scales = _scales(rows, width)
    height = _TOP + (_ROW + _GAP) * len(rows) - _GAP + _FOOT
    namespace = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    size = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    parts = [
        f'<svg class="rates"{namespace} role="img" aria-label="{_LABEL}" {size}>',
        f"<style>{STYLE}</style>" if standalone else "",
    ]
    for number, row in enumerate(rows):
        top = _TOP + (_ROW + _GAP) * number
        parts.append(f'<g transform="translate(0 {top})">')
        parts.extend(_row(row, scales))
        parts.append("</g>")
    parts.extend(_time_axis(scales, height - _FOOT))
    parts.extend(_legend(scales, height - 10))
    return "\n".join([*(part for part in parts if part), "</svg>"])


def _scales(rows: Sequence[RateRow], width: float) -> _Scales:
    moments = [s for row in rows for s, _ in row.points]
    moments += [end for row in rows for _, end in row.shaded]
    rates = [rate for row in rows for _, rate in row.points]
    rates += [rate for row in rows for _, _, rate in row.best]
    left = 56.0 + names_margin(row.name for row in rows)
    longest, highest = (max(values, default=0.0) or 1.0 for values in (moments, rates))
    return _Scales(left, width, longest, _HEADROOM * highest)


def _row(row: RateRow, scales: _Scales) -> Iterable[str]:
    """From the back to the front: shades, grid, the best there is, the rate, switches."""
    for begin, end in row.shaded:
        x = scales.x(begin)
        wide = max(0.5, scales.x(end) - x)
        yield f'<rect class="band" x="{x:.1f}" y="0" width="{wide:.1f}" height="{_ROW}"/>'
    yield from _rate_axis(scales)
    yield _text(16, _ROW / 2 + 4, printable(row.name, 24))
    for begin, end, rate in row.best:
        y = scales.y(rate)
        yield (
            f'<path class="best" d="M{scales.x(begin):.1f} {y:.1f}H{scales.x(end):.1f}">'
            f"<title>the best configuration: {rate:.4g}/s</title></path>"
        )
    if row.points:
        yield f'<path class="rate" d="{_steps(row.points, scales)}"/>'
    for tick in row.switches:
        yield _switch(tick, scales)


def _steps(points: Points, scales: _Scales) -> str:
    """Each window's rate as a level from the end of the one before it to its own."""
    pieces = [f"M{scales.x(0.0):.1f} {scales.y(points[0][1]):.1f}"]
    for seconds, rate in points:
        pieces.append(f"V{scales.y(rate):.1f}H{scales.x(seconds):.1f}")
    return "".join(pieces)


def _switch(tick: SwitchTick, scales: _Scales) -> str:
    """A tick above the row; the area around it is larger than the tick, to be pointed at."""
    x = scales.x(tick.seconds)
    title = html.escape(f"{tick.seconds:.2f} s: {printable(tick.text, limit=None)}")
    return (
        f'<g class="switch"><title>{title}</title>'
        f'<rect x="{x - 4:.1f}" y="{-_TICK - 3}" width="8" height="{_TICK + 6}"/>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{-_TICK}" y2="1"/></g>'
    )


def _rate_axis(scales: _Scales) -> Iterable[str]:
    step = tick_step(scales.rate, _Y_TICKS)
    for number in range(math.floor(scales.rate / step) + 1):
        y = scales.y(number * step)
        yield (
            f'<line class="grid" x1="{scales.left:.1f}" x2="{scales.right:.1f}" y1="{y:.1f}" '
            f'y2="{y:.1f}"/>'
        )
        unit = "/s" if number else ""
        label = f"{number * step:.6g}{unit}"
        yield _text(scales.left - 8, y + 4, label, "end", "faint")


def _time_axis(scales: _Scales, y: float) -> Iterable[str]:
    step = tick_step(scales.seconds, _X_TICKS)
    for number in range(math.floor(scales.seconds / step + 1e-9) + 1):
        moment = number * step
        unit = " s" if number == 0 else ""
        yield _text(scales.x(moment), y + 16, f"{moment:.6g}{unit}", "middle", "faint")


def _legend(scales: _Scales, y: float) -> Iterable[str]:
    """What is drawn how."""
    x = scales.left
    yield f'<path class="rate" d="M{x:.1f} {y - 4:.1f}h20"/>'
    yield _text(x + 26, y, "requests/s", kind="faint")
    yield f'<path class="best" d="M{x + 110:.1f} {y - 4:.1f}h20"/>'
    yield _text(x + 136, y, "the best configuration", kind="faint")
    yield f'<rect class="band" x="{x + 290:.1f}" y="{y - 10:.1f}" width="20" height="12"/>'
    yield _text(x + 316, y, "disturbed", kind="faint")
    yield (
        f'<g class="switch"><line x1="{x + 400:.1f}" x2="{x + 400:.1f}" y1="{y - 10:.1f}" '
        f'y2="{y:.1f}"/></g>'
    )
    yield _text(x + 408, y, "a switch: point at it for its reason", kind="faint")


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    safe = html.escape(printable(text, limit=None))
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{safe}</text>'
