"""The history as a page: for each figure a chart, commit after commit, a line for each machine.

What is drawn is the ratio (ours over the peer's: lower is better) with the quartiles of its turns
as a bar. One file, no scripts; pointing at a point tells its commit, date and figures.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence

from benchmarks.commit_history.rows import HistoryRow
from tvm_hetero.report.schedule.gantt import tick_step
from tvm_hetero.report.schedule.html import HtmlTable, Page, SvgPicture, report_html

_WIDTH, _HEIGHT = 1120, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 12, 26
_TICKS = 4
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_STYLE = """
.history { font: 11px system-ui, sans-serif; max-width: 100%; height: auto; }
.history text { fill: var(--faint); } .history .grid { stroke: var(--line); }
.history .even { stroke: var(--faint); stroke-dasharray: 4 4; }
.history path { fill: none; stroke-width: 1.5; }
"""


def history_page(history: Sequence[HistoryRow]) -> str:
    """The page as HTML text."""
    names = list(dict.fromkeys(name for row in history for name in row.figures))
    machines = list(dict.fromkeys(row.machine for row in history))
    note = "; ".join(f"{_colour_word(i)}: {name}" for i, name in enumerate(machines))
    charts = [SvgPicture(name, chart(history, name, machines), _STYLE, note) for name in names]
    rows = [
        [row.commit, row.date, row.machine, f"{row.others:.1f}",
         ", ".join(f"{name} {figure.ratio:.3f}" for name, figure in row.figures.items())]
        for row in reversed(history)
    ]  # fmt: skip
    table = HtmlTable("Rows", ["commit", "date", "machine", "others' cores", "ratios"], rows)
    return report_html(
        Page(
            "Benchmark history",
            f"{len(history)} rows. Ours over the peer's, in turns in one run: lower is better.",
            pictures=charts, tables=[table],
        )
    )  # fmt: skip


def _colour_word(number: int) -> str:
    words = ("blue", "red", "green", "pink", "orange", "light blue")
    return words[number % len(words)]


def chart(history: Sequence[HistoryRow], name: str, machines: Sequence[str]) -> str:
    """A figure over the rows that have it."""
    rows = [row for row in history if name in row.figures]
    highest = 1.05 * max(max(row.figures[name].high, row.figures[name].ratio) for row in rows)
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(rows))

    def x(number: int) -> float:
        return _LEFT + step * (number + 0.5)

    def y(ratio: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - ratio / highest)

    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    label = _safe(f"{name}, commit after commit")
    parts = [f'<svg class="history" role="img" aria-label="{label}" {size}>', *_grid(highest, y)]
    for number, machine in enumerate(machines):
        colour = _COLOURS[number % len(_COLOURS)]
        mine = [(i, row) for i, row in enumerate(rows) if row.machine == machine]
        line = " ".join(f"{x(i):.1f},{y(row.figures[name].ratio):.1f}" for i, row in mine)
        if line:
            parts.append(f'<path stroke="{colour}" d="M{line.replace(" ", "L")}"/>')
        parts += [_point(x(i), y, row, name, colour) for i, row in mine]
    for i in range(0, len(rows), max(1, len(rows) // 12)):
        label = _safe(rows[i].commit[:8])
        parts.append(f'<text x="{x(i):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{label}</text>')
    return "\n".join([*parts, "</svg>"])


def _grid(highest: float, y: Callable[[float], float]) -> Iterable[str]:
    step, level = tick_step(highest, _TICKS), 0.0
    while level <= highest:
        at = f"{y(level):.1f}"
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text x="{_LEFT - 6}" y="{at}" text-anchor="end">{level:.3g}</text>'
        level += step
    if highest > 1:
        at = f"{y(1.0):.1f}"
        yield f'<line class="even" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'


def _point(x: float, y: Callable[[float], float], row: HistoryRow, name: str, colour: str) -> str:
    figure = row.figures[name]
    times = (
        f"; {1e3 * figure.ours_s:.3g} ms, peer {1e3 * figure.peer_s:.3g} ms"
        if figure.ours_s
        else ""
    )
    title = _safe(f"{row.commit}, {row.date}: {figure.ratio:.3f} ({figure.low:.3f} to "
                  f"{figure.high:.3f}){times}")  # fmt: skip
    return (
        f'<g><title>{title}</title><line stroke="{colour}" x1="{x:.1f}" x2="{x:.1f}" '
        f'y1="{y(figure.low):.1f}" y2="{y(figure.high):.1f}"/>'
        f'<circle cx="{x:.1f}" cy="{y(figure.ratio):.1f}" r="4" fill="{colour}"/></g>'
    )


def _safe(text: str) -> str:
    return html.escape(text)
