"""A choice as a page: the front of price and accuracy as a picture, and tables.

Every point of the picture tells its replicas as a tooltip. No scripts, nothing from outside.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_hetero.planning.choosing.answer import ChoiceAnswer
from tvm_hetero.planning.choosing.find_choice import MachineChoice, cost_of
from tvm_hetero.report.planning.choice import (
    FRONT,
    HEADERS,
    PLAYED,
    binding_lines,
    describe_search,
    front_notes,
    front_row,
    neighbour_lines,
    played_rows,
    replica_rows,
    replica_words,
    worth_of,
)
from tvm_hetero.report.schedule.gantt import tick_step
from tvm_hetero.report.schedule.html import Figure, HtmlTable, Page, SvgPicture
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable_lines

_WIDTH, _HEIGHT = 1120, 420
_LEFT, _RIGHT, _TOP, _FOOT = 70, 30, 20, 50
_DOT, _ANSWER = 5, 9
_STYLE = """
.front { font: 12px system-ui, sans-serif; --ink: #1f2933; --grid: #e3e6ea; --dot: #0072b2;
  --answer: #b42318; }
@media (prefers-color-scheme: dark) { .front { --ink: #e5e7eb; --grid: #30363f; --dot: #56b4e9;
  --answer: #ff8a7a; } }
.front text { fill: var(--ink); }
.front .grid { stroke: var(--grid); }
.front .line { fill: none; stroke: var(--dot); stroke-dasharray: 4 3; }
.front circle { fill: var(--dot); }
.front circle:hover { stroke: var(--ink); stroke-width: 3; }
.front .answer { fill: none; stroke: var(--answer); stroke-width: 3; }
"""


@dataclass(frozen=True)
class _FrontScale:
    """Where a figure lies on an axis: from `low` to `high`, px `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        return self.begin + (self.end - self.begin) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        step = tick_step(self.high - self.low, 8)
        first = int(self.low / step + 0.999999)
        every = [step * i for i in range(first, int(self.high / step + 1e-9) + 1)]
        return every[:40]


def choice_page(answer: ChoiceAnswer) -> Page:
    """The page of an answer."""
    request, choice = answer.case.request, answer.choice
    picture = SvgPicture(
        "What accuracy costs",
        front_svg(answer),
        _STYLE,
        "Each point is the cheapest choice of its accuracy that keeps every SLO; the ring is the "
        "answer. A point tells its replicas.",
    )
    tables = (
        HtmlTable(
            "Replicas",
            HEADERS,
            replica_rows(request, choice),
        ),
        HtmlTable("Simulation", PLAYED, played_rows(request, choice)),
        HtmlTable("Neighbours and what binds", ("",),
                  [[line] for line in (*neighbour_lines(answer), *binding_lines(answer))]),
        HtmlTable("Front", FRONT,
                  [*(front_row(request, each) for each in answer.front),
                   *(["", "", "", note] for note in front_notes(answer))]),
    )  # fmt: skip
    return Page(
        f"What to run {request.name} on",
        describe_search(answer),
        worth_of(request, choice).replace("\n", "; "),
        "good",
        (
            Figure("price", f"{choice.price:.4g}", "an hour"),
            Figure("accuracy", f"{choice.accuracy:.4g}", "in the mean of all requests"),
            Figure("gap", f"{100 * choice.gap:.2g} %", f"bound {choice.bound:.5g}"),
            Figure(
                "SLO", f"{100 * max(e.strain for e in choice.played):.0f} %", "of a limit, most"
            ),
        ),
        tables=tables,
        pictures=(picture,),
    )


def front_svg(answer: ChoiceAnswer) -> str:
    """The front as SVG: price (or watts, if they are the goal) to the right, accuracy upwards."""
    request, points = answer.case.request, [*answer.front, answer.choice]
    x = _axis([cost_of(request, each) for each in points], _LEFT, _WIDTH - _RIGHT)
    y = _axis([each.accuracy for each in points], _HEIGHT - _FOOT, _TOP)
    parts = [f'<svg class="front" xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
             f'height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">']  # fmt: skip
    parts += _grid_lines(x, y, "watts" if request.goal == "energy" else "price, an hour")
    line = " ".join(f"{x.at(cost_of(request, e)):.1f},{y.at(e.accuracy):.1f}" for e in answer.front)
    parts.append(f'<polyline class="line" points="{line}"/>')
    parts += [_dot(answer, each, x, y) for each in answer.front]
    parts.append(
        f'<circle class="answer" cx="{x.at(cost_of(request, answer.choice)):.1f}" '
        f'cy="{y.at(answer.choice.accuracy):.1f}" r="{_ANSWER}">{_tip(answer, answer.choice)}'
        "</circle></svg>"
    )
    return "\n".join(parts)


def _axis(values: Sequence[float], begin: float, end: float) -> _FrontScale:
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or max(1.0, 0.05 * abs(high))
    return _FrontScale(max(0.0, low - room), high + room, begin, end)


def _grid_lines(x: _FrontScale, y: _FrontScale, cost: str) -> Iterator[str]:
    for value in x.ticks():
        at = f"{x.at(value):.1f}"
        yield f'<line class="grid" x1="{at}" x2="{at}" y1="{y.begin}" y2="{y.end}"/>'
        yield f'<text x="{at}" y="{y.begin + 18}" text-anchor="middle">{value:.4g}</text>'
    for value in y.ticks():
        at = f"{y.at(value):.1f}"
        yield f'<line class="grid" x1="{x.begin}" x2="{x.end}" y1="{at}" y2="{at}"/>'
        yield f'<text x="{x.begin - 8}" y="{at}" text-anchor="end">{value:.4g}</text>'
    yield f'<text x="{x.end}" y="{y.begin + 38}" text-anchor="end">{cost}</text>'
    yield f'<text x="{x.begin - 60}" y="{y.end - 6}">accuracy</text>'


def _dot(answer: ChoiceAnswer, choice: MachineChoice, x: _FrontScale, y: _FrontScale) -> str:
    cost = cost_of(answer.case.request, choice)
    return (
        f'<circle cx="{x.at(cost):.1f}" cy="{y.at(choice.accuracy):.1f}" r="{_DOT}">'
        f"{_tip(answer, choice)}</circle>"
    )


def _tip(answer: ChoiceAnswer, choice: MachineChoice) -> str:
    """The tooltip: what it costs, and every class's replicas and times."""
    request = answer.case.request
    lines = [
        f"{choice.price:.4g} an hour, accuracy {choice.accuracy:.4g}",
        *replica_words(request, choice).split("; "),
        *(
            f"{request.classes[each.served].name}: {limit.name} {format_seconds(seconds)} of "
            f"{format_seconds(limit.seconds)}"
            for each in choice.played
            for limit, seconds in each.reached.items()
        ),
    ]
    return f"<title>{html.escape(printable_lines(lines))}</title>"
