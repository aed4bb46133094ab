"""The default: the quick solvers first, then the exact one from the best of them.

The answer bears the name of the solver that found it, as ``auto:cpsat``. CP-SAT may find nothing
better than its start; then the start's solver is named, and CP-SAT's bound goes with it.
"""

from __future__ import annotations

import time
from dataclasses import replace

from tvm_hetero.errors import HeteroError, InfeasibleError
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers import cpsat, heft, single
from tvm_hetero.solvers.options import Options


def solve(problem: Problem, options: Options) -> Schedule:
    """Best of single, heft and cpsat within the time limit.

    Raises
    ------
    InfeasibleError, SolverError
        If none of them finds a schedule: the reason that the exact solver gives.
    """
    from tvm_hetero.bounds import lower_bound

    began = time.monotonic()
    found = [options.start] if options.start is not None else []
    for other in (single.solve, heft.solve):
        try:
            found.append(other(problem, options))
        except InfeasibleError:
            continue
    start = min(found, key=lambda schedule: schedule.value, default=None)
    bound = lower_bound(problem)
    if start is not None and start.value - bound <= OPTIMAL_GAP * start.value:
        return _named(start, start.solver, bound)
    try:
        exact = cpsat.improve(problem, options, start, began)
    except HeteroError:
        if start is None:
            raise
        return _named(start, start.solver, bound)
    if start is not None and start.value <= exact.value:
        return _named(start, start.solver, max(bound, exact.lower_bound))
    return _named(exact, exact.solver, exact.lower_bound)


def _named(schedule: Schedule, solver: str, bound: float) -> Schedule:
    name = solver.removeprefix("auto:")
    return replace(schedule, solver=f"auto:{name}", lower_bound=bound)
