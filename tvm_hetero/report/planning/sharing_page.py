"""A shared day as a page: hours to the right, a row for each machine, models as colours.

In each hour a machine's row is filled from below by the parts of its time that its models get; what
lives there and gets none is a line. Every bar tells itself as a tooltip. Above stands the load.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from tvm_hetero.planning.sharing.answer import SharingAnswer
from tvm_hetero.planning.sharing.problem import MachineHour, on
from tvm_hetero.report.planning.sharing import (
    PLAYED,
    POLICY,
    STANDING,
    describe_day_search,
    lives_words,
    move_lines,
    note_lines,
    played_rows,
    policy_rows,
    standing_rows,
)
from tvm_hetero.report.schedule.html import Figure, HtmlTable, Page, SvgPicture
from tvm_hetero.util.untrusted_names import printable

_WIDTH, _LEFT, _RIGHT = 1120, 110, 10
_LOAD, _ROW, _GAP, _KEY = 90, 44, 8, 26
# Okabe and Ito's colours, as in other charts; models beyond them begin anew.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")
_LEAST_BAR = 1.5
_STYLE = """
.day { font: 12px system-ui, sans-serif; --ink: #1f2933; --grid: #e3e6ea; }
@media (prefers-color-scheme: dark) { .day { --ink: #e5e7eb; --grid: #30363f; } }
.day text { fill: var(--ink); }
.day .on { fill: none; stroke: var(--grid); }
.day rect:hover { opacity: 0.7; }
"""


def sharing_page(answer: SharingAnswer) -> Page:
    """The page of an answer."""
    day = answer.day
    picture = SvgPicture(
        "The day",
        day_svg(answer),
        _STYLE,
        "Above: requests a second of all models. Below: a row for each machine that is ever on, "
        "filled by the parts of its time that models get. A bar tells what lives there.",
    )
    dearest = max(answer.days.values(), key=lambda each: each.price)
    return Page(
        f"What lives where: {answer.case.request.name}",
        describe_day_search(answer),
        "; ".join(note_lines(answer)[:2]),
        "good",
        (
            Figure("price", f"{day.price:.4g}", "a day"),
            Figure("gap", f"{100 * day.gap:.2g} %", f"bound of this policy: {day.bound:.5g}"),
            Figure("SLO", f"{100 * day.strain:.0f} %", "of a limit, in the hardest hour"),
            Figure(
                "less", f"{100 * (1 - day.price / dearest.price):.0f} %", f"than {dearest.policy}"
            ),
        ),
        tables=(
            HtmlTable("Policies", POLICY, policy_rows(answer)),
            HtmlTable("What lives where", STANDING, standing_rows(answer, day)),
            HtmlTable("Simulation", PLAYED, played_rows(answer, day)),
            HtmlTable("Moves and notes", ("",),
                      [[line] for line in (*move_lines(answer, day), *note_lines(answer))]),
        ),
        pictures=(picture,),
    )  # fmt: skip


def day_svg(answer: SharingAnswer) -> str:
    """The picture: the load, and below it the machines."""
    used = sorted({j for hour in answer.day.plan for j in on(hour)})
    height = _KEY + _LOAD + _GAP + len(used) * (_ROW + _GAP) + 24
    parts = [f'<svg class="day" xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
             f'height="{height}" viewBox="0 0 {_WIDTH} {height}">']  # fmt: skip
    parts += _key(answer)
    parts += _load(answer)
    for row, j in enumerate(used):
        top = _KEY + _LOAD + _GAP + row * (_ROW + _GAP)
        name = html.escape(printable(answer.case.problem.machine_name(j), 16))
        parts.append(f'<text x="4" y="{top + _ROW / 2 + 4}">{name}</text>')
        for t, hour in enumerate(answer.day.plan):
            for each in hour:
                if each.machine == j:
                    parts += _machine_bars(answer, t, top, each)
    parts += _hours(answer, height)
    return "\n".join([*parts, "</svg>"])


def _color(i: int) -> str:
    return _COLORS[i % len(_COLORS)]


def _x(answer: SharingAnswer, t: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * t / answer.case.request.hours


def _key(answer: SharingAnswer) -> Iterator[str]:
    for i, model in enumerate(answer.case.request.models):
        x = _LEFT + 130 * i
        if x < _WIDTH - 130:
            yield f'<rect x="{x}" y="4" width="12" height="12" fill="{_color(i)}"/>'
            yield f'<text x="{x + 18}" y="14">{html.escape(printable(model.name, 16))}</text>'


def _load(answer: SharingAnswer) -> Iterator[str]:
    request = answer.case.request
    most = max(sum(model.rates[t] for model in request.models) for t in range(request.hours))
    yield f'<text x="4" y="{_KEY + 14}">{most:.4g} a second</text>'
    for t in range(request.hours):
        bottom = float(_KEY + _LOAD)
        for i, model in enumerate(request.models):
            tall = _LOAD * model.rates[t] / most
            bottom -= tall
            tip = f"{model.name}: {model.rates[t]:.4g} a second at {t}:00"
            yield _bar(answer, t, bottom, tall, i, tip)


def _machine_bars(answer: SharingAnswer, t: int, top: float, each: MachineHour) -> Iterator[str]:
    problem = answer.case.problem
    x, wide = _x(answer, t), _x(answer, 1) - _x(answer, 0)
    yield f'<rect class="on" x="{x:.1f}" y="{top}" width="{wide - 1:.1f}" height="{_ROW}"/>'
    bottom = top + _ROW
    mode = problem.kinds[problem.machines[each.machine]].modes[each.mode]
    tip = f"{problem.machine_name(each.machine)} at {t}:00, {mode.name}: "
    for i, parts in sorted(each.parts.items()):
        tall = max(_LEAST_BAR, _ROW * parts / problem.parts)
        bottom -= tall
        yield _bar(answer, t, max(top, bottom), tall, i, tip + lives_words(answer, each))


def _bar(answer: SharingAnswer, t: int, top: float, tall: float, i: int, tip: str) -> str:
    wide = _x(answer, 1) - _x(answer, 0)
    return (
        f'<rect x="{_x(answer, t):.1f}" y="{top:.1f}" width="{max(1.0, wide - 1):.1f}" '
        f'height="{tall:.1f}" fill="{_color(i)}"><title>{html.escape(printable(tip, None))}'
        "</title></rect>"
    )


def _hours(answer: SharingAnswer, height: int) -> Iterator[str]:
    every = max(1, answer.case.request.hours // 12)
    for t in range(0, answer.case.request.hours, every):
        yield f'<text x="{_x(answer, t):.1f}" y="{height - 6}">{t}:00</text>'
