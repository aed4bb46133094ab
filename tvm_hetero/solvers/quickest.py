"""The schedule of the least latency, as an answer for energy and cost.

Whether there is any schedule within the memories does not depend on the objective, and whether any
keeps a latency limit is what the least latency says. So where heuristics for energy or cost are
stuck, this finds a schedule if the solvers of latency do; and where these prove that there is none,
or none as quick, there is none for energy and cost.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.registry import solver_of
from tvm_hetero.util.units import format_seconds

# A bound is off by rounding, and so may a limit be.
_ROUNDING = 1e-6


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve for latency, and say what that costs.

    Raises
    ------
    InfeasibleError
        If there is no schedule at all, or none within the latency limit: a proof.
    SolverError
        If the objective is another, or none is found in time.
    """
    if problem.objective.kind not in ("energy", "cost"):
        raise SolverError("quickest is for energy and cost; for latency use auto")
    limit = problem.objective.latency_limit
    timed = replace(problem, objective=Objective("latency", problem.batch))
    found = solver_of("auto")(timed, replace(options, start=None))
    if limit is None or within_limit(problem, found.executions):
        plan = (found.executions, found.copies)
        return make_schedule(problem, "quickest", *plan, seed=options.seed)
    least = format_seconds(found.lower_bound)
    if found.lower_bound > limit * (1 + _ROUNDING):
        raise InfeasibleError(
            f"no schedule is as quick as the latency limit of {format_seconds(limit)}: the least "
            f"is {least}; raise the limit",
            proven=True,
        )
    raise SolverError(
        f"quickest found nothing within the latency limit of {format_seconds(limit)}; at least "
        f"{least} is needed; raise the limit, or the time"
    )
