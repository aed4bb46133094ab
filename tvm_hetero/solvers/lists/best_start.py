"""Where an exact method begins if the caller gives no start: the better of two quick answers."""

from __future__ import annotations

from tvm_hetero.errors import HeteroError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists import best_single, heft


def best_start(problem: Problem, options: Options) -> Schedule | None:
    """The better of single and heft; None if neither finds a schedule."""
    found = []
    for other in (best_single.solve, heft.solve):
        try:
            found.append(other(problem, options))
        except HeteroError:
            continue
    return min(found, key=lambda schedule: schedule.value, default=None)
