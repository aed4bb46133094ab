"""Gantt charts of block characters, for terminals and logs."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.report.schedule.intervals import (
    Interval,
    busy_seconds,
    group_by_lane,
    lane_order,
    span,
)
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

_SHADES = " ░▒▓█"
_MIN_BAR = 4  # cells that the narrowest bar of a lane needs before bars are drawn with names


def text_gantt(intervals: Sequence[Interval], lanes: Sequence[str] = (), width: int = 100) -> str:
    """A chart of block characters, one row a lane, `width` characters in all.

    A lane with few intervals shows them as bars with names; a crowded one shows how busy each
    piece of time is, from blank (idle) to a full block.
    """
    total = span(intervals)
    names = lane_order(intervals, lanes)
    labels = {lane: printable(lane, 24) for lane in names}
    margin = max((len(label) for label in labels.values()), default=0)
    cells = max(20, width - margin - 9)
    lines, grouped = [], group_by_lane(intervals)
    for lane in names:
        mine = grouped.get(lane, [])
        share = busy_seconds(mine, lane) / total if total > 0 else 0.0
        row = _bars(mine, total, cells)
        lines.append(f"{labels[lane]:>{margin}} │{row}│ {share:4.0%}")
    end = format_seconds(total)
    lines.append(" " * margin + " └" + "─" * cells + "┘")
    lines.append(" " * (margin + 2) + "0" + end.rjust(cells - 1))
    return "\n".join(lines)


def _bars(intervals: Sequence[Interval], total: float, cells: int) -> str:
    """One lane's row: named bars where they all fit, shades of busyness otherwise."""
    if total <= 0 or not intervals:
        return " " * cells
    places = [(round(i.start / total * cells), round(i.end / total * cells), i) for i in intervals]
    if min(end - start for start, end, _ in places) < _MIN_BAR:
        return _shades(intervals, total, cells)
    row = [" "] * cells
    for start, end, interval in places:
        inside = end - start - 2
        row[start:end] = f"[{printable(interval.name, inside):─<{inside}}]"
    return "".join(row[:cells])


def _shades(intervals: Sequence[Interval], total: float, cells: int) -> str:
    """The share of each cell's time that is busy, as one of five shades."""
    filled = [0.0] * cells
    for interval in intervals:
        start, end = interval.start / total * cells, interval.end / total * cells
        for cell in range(max(0, int(start)), min(cells, int(end) + 1)):
            filled[cell] += max(0.0, min(end, cell + 1) - max(start, cell))
    steps = len(_SHADES) - 1
    # Anything at all in a cell is shown at least as the lightest shade.
    levels = (min(steps, max(round(f * steps), 1 if f > 0 else 0)) for f in filled)
    return "".join(_SHADES[level] for level in levels)
