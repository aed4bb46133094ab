"""A report as one HTML page: no fonts, no network; it can be mailed and archived.

The page is plain data (`Page`) turned into text. Whatever is put in is escaped, so that a task
named ``<script>`` is shown as that. A content security policy in the page itself forbids
everything but the page's own styles, as a second line of defence; and but the very scripts of its
interactive parts, which it names by their hashes (`tvm_hetero.report.explorer`).
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tvm_hetero.report.schedule.gantt import STYLE as CHART_STYLE
from tvm_hetero.report.schedule.gantt import Mark, gantt_svg, names_margin
from tvm_hetero.report.schedule.intervals import Interval, lane_order, span
from tvm_hetero.util.untrusted_names import printable

Tone = Literal["good", "bad", "plain"]

# Characters of a cell that is not broken into lines.
_SHORT = 12
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --faint: #5f6b7a; --page: #ffffff;
  --card: #f5f6f8; --line: #e3e6ea; --good: #05603a; --good-bg: #e3f6ec; --bad: #93370d;
  --bad-bg: #fff1e0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --faint: #9ca3af; --page: #14181e;
  --card: #1b2027; --line: #30363f; --good: #7fe0ad; --good-bg: #10301f; --bad: #ffc98a;
  --bad-bg: #3a2610; } }
body { margin: 0 auto; padding: 32px 24px 64px; max-width: 1168px; color: var(--ink);
  background: var(--page); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 36px 0 4px; }
p { margin: 4px 0 12px; }
.faint { color: var(--faint); }
.verdict { margin: 20px 0; padding: 12px 16px; border-radius: 8px; background: var(--card); }
.verdict.good { color: var(--good); background: var(--good-bg); }
.verdict.bad { color: var(--bad); background: var(--bad-bg); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 12px;
  margin: 20px 0; }
.figure { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.figure .label, .figure .note { color: var(--faint); font-size: 13px; overflow-wrap: anywhere; }
.figure .number { font-size: 22px; font-variant-numeric: tabular-nums; }
.chart { overflow-x: auto; }
/* A chart of the usual width shrinks with the window a little, then scrolls; wide ones scroll. */
.chart svg[width="1120"] { max-width: 100%; min-width: 840px; height: auto; }
.scroll { overflow-x: auto; max-height: 480px; overflow-y: auto; border: 1px solid var(--line);
  border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--faint); font-weight: 600; position: sticky; top: 0;
  background: var(--page); }
th, td { padding: 5px 12px; border-bottom: 1px solid var(--line); }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
td.short { white-space: nowrap; }
tr:last-child td { border-bottom: none; }
"""


@dataclass(frozen=True)
class Figure:
    """One number of the summary: ``Figure("latency", "12.3 ms", "predicted 11.9 ms")``."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A Gantt chart under a heading."""

    title: str
    intervals: Sequence[Interval]
    marks: Sequence[Mark] = ()
    note: str = ""


@dataclass(frozen=True)
class SvgPicture:
    """Another picture under a heading: SVG that a module of this package made, and its style."""

    title: str
    svg: str
    style: str
    note: str = ""


@dataclass(frozen=True)
class HtmlTable:
    """A table under a heading."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""


@dataclass(frozen=True)
class InteractivePart:
    """Markup that a module of this package made, its style, and its script's name in a policy.

    The script is part of the markup. Without one (`policy` empty) it is a paragraph.
    """

    markup: str
    style: str = ""
    policy: str = ""


@dataclass(frozen=True)
class Page:
    """What a report says. All charts share one time scale; `lanes` come first in each.

    Pictures stand above the charts, and below these what can be played with.
    """

    title: str
    subtitle: str = ""
    verdict: str = ""
    tone: Tone = "plain"
    figures: Sequence[Figure] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[HtmlTable] = ()
    lanes: Sequence[str] = field(default=())
    pictures: Sequence[SvgPicture] = ()
    interactive: Sequence[InteractivePart] = ()


def report_html(page: Page) -> str:
    """The page as HTML text."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(page)}">',
        f"<title>{_safe(page.title)}</title><style>{_styles(page)}</style></head><body><main>",
        f"<h1>{_safe(page.title)}</h1>",
        _paragraph(page.subtitle),
    ]
    if page.verdict:
        parts.append(f'<div class="verdict {page.tone}">{_safe(page.verdict)}</div>')
    parts.append(_figures(page.figures))
    parts.extend(_section(p.title, p.note, p.svg) for p in page.pictures)
    parts.append(_charts(page))
    parts.extend(each.markup for each in page.interactive)
    parts.extend(_table(table) for table in page.tables)
    parts.append("</main></body></html>")
    return "\n".join(part for part in parts if part) + "\n"


def _styles(page: Page) -> str:
    """Each style once."""
    others = [*(each.style for each in page.pictures), *(each.style for each in page.interactive)]
    return "".join(dict.fromkeys([_STYLE, CHART_STYLE, *others]))


def _policy(page: Page) -> str:
    """The scripts of the page's own parts, and no other ones."""
    scripts = " ".join(part.policy for part in page.interactive if part.policy)
    return f"{_POLICY}; script-src {scripts}" if scripts else _POLICY


def _section(title: str, note: str, picture: str) -> str:
    return (
        f"<section><h2>{_safe(title)}</h2>{_paragraph(note)}"
        f'<div class="chart" {_stop(title)}>{picture}</div></section>'
    )


def _stop(title: str) -> str:
    """Attributes of what may be too wide for the window: keys can reach it, and scroll it."""
    return f'tabindex="0" role="group" aria-label="{_safe(title)}"'


def _safe(text: object) -> str:
    return html.escape(printable(text, limit=None))


def _paragraph(text: str) -> str:
    return f'<p class="faint">{_safe(text)}</p>' if text else ""


def _figures(figures: Sequence[Figure]) -> str:
    cards = [
        f'<div class="figure"><div class="label">{_safe(figure.label)}</div>'
        f'<div class="number">{_safe(figure.value)}</div>'
        f'<div class="note">{_safe(figure.note)}</div></div>'
        for figure in figures
    ]
    return f'<div class="figures">{"".join(cards)}</div>' if cards else ""


def _charts(page: Page) -> str:
    """The charts, on one time scale; with very many bars wider than the page, to be scrolled."""
    every = [interval for chart in page.charts for interval in chart.intervals]
    marks = [mark.seconds for chart in page.charts for mark in chart.marks]
    names = lane_order(every, page.lanes)
    crowds = (Counter(i.lane for i in chart.intervals) for chart in page.charts)
    crowd = max((max(counts.values(), default=0) for counts in crowds), default=0)
    sections = []
    for chart in page.charts:
        picture = gantt_svg(
            chart.intervals,
            lanes=page.lanes,
            marks=chart.marks,
            seconds=max([span(every), *marks], default=0.0),
            width=min(4000.0, max(1120.0, 4.0 * crowd)),
            margin=names_margin(names),
            standalone=False,
        )
        sections.append(_section(chart.title, chart.note, picture))
    return "\n".join(sections)


def _table(table: HtmlTable) -> str:
    # A column without a name is one of names: there is no heading to read out.
    head = "".join(f"<th>{_safe(text)}</th>" if text else "<td></td>" for text in table.headers)
    rows = "".join(
        "<tr>" + "".join(_cell(_safe(cell)) for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f"<section><h2>{_safe(table.title)}</h2>{_paragraph(table.note)}"
        f'<div class="scroll" {_stop(table.title)}><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _cell(text: str) -> str:
    """Numbers and short names stay in one line, whatever stands beside them."""
    return f'<td class="short">{text}</td>' if len(text) <= _SHORT else f"<td>{text}</td>"
