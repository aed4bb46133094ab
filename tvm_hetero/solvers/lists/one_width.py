"""One width for all: every task on teams of so many cores, and of all widths the best.

What a thread pool of a fixed size, or several of them side by side, would do; the baseline that
plans on teams have to beat. For each width p that there is a task gets p cores, or the nearest
width below that it can have (else its least), and goes out by bottom level (`allotment`). Without
teams all widths are 1, and this is one list schedule.

Memory, colors, copies and the other objectives are those of `list_scheduler` and `list_solver`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.allotment import Allotment, rule_of
from tvm_hetero.solvers.lists.list_solver import Method, Rule, solve_by_list
from tvm_hetero.views.instance import Instance, instance_of


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve with every width.

    Raises
    ------
    InfeasibleError
        If no width gives a schedule; says why the last one does not.
    """
    answers: list[Schedule] = []
    reason: InfeasibleError | None = None
    for width in sorted({len(row) for row in instance_of(problem).cores}):
        try:
            answers.append(solve_by_list(problem, options, "one-width", of_width(width)))
        except InfeasibleError as error:
            reason = error
    if not answers:
        assert reason is not None, "there are widths"
        raise reason
    return min(answers, key=lambda answer: answer.value)


def of_width(width: int) -> Method:
    """The list schedule with so many cores for each task."""

    def method(instance: Instance, devices: Sequence[int]) -> Rule:
        allotment = Allotment(instance, devices)
        for v, row in enumerate(allotment.times):
            allotment.width[v] = max((p for p in row if p <= width), default=min(row))
        return rule_of(allotment)

    return method
