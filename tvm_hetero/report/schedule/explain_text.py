"""An explanation as tables: for the terminal, and for the page of a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.explain import FASTER, Explanation, Help
from tvm_hetero.report.schedule.html import HtmlTable
from tvm_hetero.report.schedule.idle_time import BUSY, CAUSES, COPY, DATA, HELD, IdleStep
from tvm_hetero.report.schedule.text import format_value
from tvm_hetero.util.text_tables import format_table
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

# Rows of a table in a terminal; a page has them all.
_SHOWN = 12
_WHY = {DATA: "its input", COPY: "a copy", BUSY: "its place, busy", HELD: "memory", "": "-"}


def explain_text(explanation: Explanation, schedule: Schedule, problem: Problem) -> str:
    """The tables of an explanation one under the other."""
    parts = []
    for part in explain_tables(explanation, schedule, problem):
        rows = part.rows if len(part.rows) <= _SHOWN else _middle_out(part.rows)
        parts.append(f"{part.title}\n{format_table(part.headers, rows)}")
    return "\n\n".join([*parts, assess_schedule(explanation, schedule)])


def _middle_out(rows: Sequence[Sequence[object]]) -> list[Sequence[object]]:
    head, tail = _SHOWN // 2, _SHOWN - _SHOWN // 2
    dots: list[object] = [f"... {len(rows) - _SHOWN} more", *["..."] * (len(rows[0]) - 1)]
    return [*rows[:head], dots, *rows[-tail:]]


def explain_tables(
    explanation: Explanation, schedule: Schedule, problem: Problem
) -> list[HtmlTable]:
    """Critical path (of a period: the busiest device), idle time, and what would help."""
    steady = schedule.kind == "throughput"
    path = [_path_row(step) for step in explanation.path]
    named = "What the busiest device or link does" if steady else "Critical path"
    return [
        HtmlTable(named, ("what", "where", "from", "to", "waited for"), path),
        HtmlTable("How the devices spend the time", *_idle_rows(explanation, problem)),
        HtmlTable(
            f"What would help: {FASTER:.0%}".replace("%", " %") + " faster",
            ("faster", "gains", "of the value"),
            [_help_row(one, schedule) for one in explanation.helps if one.saved > 0],
        ),
    ]


def _path_row(step: IdleStep) -> list[str]:
    name = f"copy of {step.name}" if step.copy else step.name
    times = [format_seconds(step.start), format_seconds(step.end)]
    return [name, step.lane, *times, _WHY.get(step.waited, step.waited)]


def _idle_rows(explanation: Explanation, problem: Problem) -> tuple[list[str], list[list[str]]]:
    """Headers and rows; a cause that never occurs has no column."""
    seen = [c for c in CAUSES if any(row.causes[c] > 0 for row in explanation.idle)]
    rows = []
    for row in explanation.idle:
        cells = [row.computes, row.copies, *(row.causes[cause] for cause in seen)]
        total = math.fsum(cells) or 1.0
        rows.append([row.device, *(f"{cell / total:.0%}".replace("%", " %") for cell in cells)])
    return ["device", "computes", "copies", *seen], rows


def _help_row(one: Help, schedule: Schedule) -> list[str]:
    share = one.saved / schedule.value if schedule.value > 0 else 0.0
    gain = format_value(schedule.kind, one.saved)
    return [one.what, gain, f"{share:.1%}".replace("%", " %")]


def assess_schedule(explanation: Explanation, schedule: Schedule) -> str:
    """Two sentences: what the value is made of, and what would help most."""
    tasks = math.fsum(s.end - s.start for s in explanation.path if not s.copy)
    copies = math.fsum(s.end - s.start for s in explanation.path if s.copy)
    total = (tasks + copies) or 1.0
    if schedule.kind == "throughput":
        text = f"The busiest device or link computes for {tasks / total:.0%} of its time"
        text += f" and copies for {copies / total:.0%}."
    else:
        queued = sum(1 for s in explanation.path if s.waited == BUSY)
        text = f"The critical path is {tasks / total:.0%} computing and {copies / total:.0%} "
        text += f"copies; {queued} of its {len(explanation.path)} steps waited for a busy place."
    best = explanation.helps[0] if explanation.helps else None
    if best is None or best.saved <= 0:
        text += " No single task, device or link would help: several are equally critical."
    else:
        text += f" What would help most: {printable(best.what)}."
    return text.replace("%", " %")
