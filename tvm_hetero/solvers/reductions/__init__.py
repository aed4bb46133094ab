"""The forms of a problem in one table, and what each of them would make of a given problem.

    python -m tvm_hetero.solvers.reductions problem.json

prints the chain: the instance, and each form that is made of it with what it keeps and how large
it is, or why there is none. `tvm_hetero.views.reduction` has the interface, `placements` the forms
from which an answer comes back, `relaxations` the others, docs/forms-of-a-problem.md all forms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tvm_hetero.errors import HeteroError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.lists.partial_schedule import solution
from tvm_hetero.solvers.reductions.placements import (
    AtomCounts,
    ModuleColumns,
    Modules,
    Ranges,
    Stages,
    TaskClasses,
    TaskLines,
)
from tvm_hetero.solvers.reductions.relaxations import Arrays, ItemTypes
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.solvers.timing.timing import to_schedule
from tvm_hetero.util.text_tables import count_noun, format_table
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.reduction import Placed, Reduction, Relaxation, Shape

__all__ = ["REDUCTIONS", "RELAXATIONS", "FormSize", "describe_forms", "forms_of", "schedule_of"]

# `TaskClasses` and `Stages` prove a bound as well, so they stand in both.
REDUCTIONS: tuple[Reduction[Any, Any], ...] = (
    TaskLines(), AtomCounts(), Modules(), Ranges(), ModuleColumns(), TaskClasses(), Stages(),
)  # fmt: skip
RELAXATIONS: tuple[Relaxation[Any], ...] = (Arrays(), ItemTypes(), TaskClasses(), Stages())


class FormSize(NamedTuple):
    """What a form would make of a problem: `size` in words, or why there is none (`refusal`)."""

    name: str
    keeps: str
    size: str
    refusal: str


def forms_of(instance: Instance) -> list[FormSize]:
    """All forms of the table, each once, with their sizes or why they are refused."""
    forms: dict[str, Shape[Any]] = {form.name: form for form in (*REDUCTIONS, *RELAXATIONS)}
    return [_size_of(form, instance) for form in forms.values()]


def _size_of(form: Shape[Any], instance: Instance) -> FormSize:
    refusal, size = form.refusal(instance), ""
    if not refusal:
        try:
            size = form.size(form.apply(instance))
        except HeteroError as error:  # too large, which the attempt alone can tell
            refusal = str(error)
    return FormSize(form.name, form.keeps, size, refusal)


def describe_forms(problem: Problem) -> str:
    """The chain of a problem as text: the instance, and what is made of it.

    Raises
    ------
    InfeasibleError
        If no device can run all tasks of some color.
    """
    instance = instance_of(problem)
    head = ", ".join(
        [
            count_noun(len(instance), "part"),
            count_noun(len(instance.names), "device"),
            count_noun(len(instance.tensors), "tensor"),
            f"{problem.objective.kind} of {count_noun(problem.batch, 'element')}",
        ]
    )
    rows = [
        [form.name, form.keeps, form.size or f"none: {form.refusal}"] for form in forms_of(instance)
    ]
    return f"{problem.name} -> instance ({head}) ->\n\n" + format_table(
        ["form", "keeps", "size"], rows
    )


def schedule_of(placed: Placed, solver: str) -> Schedule:
    """A placement as a schedule: one period for throughput, else each part as early as it can be.

    Memory and limits are not looked at: `tvm_hetero.check` says whether the schedule is valid.

    Raises
    ------
    PlatformError
        If no links lead where a tensor is needed.
    """
    instance, placement, order = placed
    problem = instance.problem
    if problem.objective.kind == "throughput":
        return make_schedule(problem, solver, *write_period(instance, placement))
    turn = {v: float(i) for i, v in enumerate(order)}
    spans = [(turn[v], turn[v] + 1.0) for v in range(len(instance))]
    timed = solution(instance, placement, spans, {})
    executions, copies = to_schedule(timed.plan, [start for start, _ in timed.times])
    return make_schedule(problem, solver, executions, copies)
