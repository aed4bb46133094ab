"""CP-SAT on the whole graph: exact schedules (latency, energy, cost) and placements (throughput).

One model for everything (`batch`; throughput: `throughput`): what `milp_split` is measured
against, and what it uses where a graph cannot be cut. The answer is never worse than the start:
the best schedule known, which also tells CP-SAT where to begin.
"""

from __future__ import annotations

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.cpsat import throughput as cpsat_throughput
from tvm_hetero.solvers.cpsat.batch import solve_whole
from tvm_hetero.solvers.lists.best_start import best_start
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import instance_of


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve with CP-SAT, from `options.start` or from the better of heft and single.

    Raises
    ------
    InfeasibleError
        If no schedule exists (proven, for one element), or none was found by any means.
    SolverError
        If the time ran out before the first schedule.
    """
    began = now()
    return improve(problem, options, options.start or best_start(problem, options), began)


def improve(problem: Problem, options: Options, start: Schedule | None, began: float) -> Schedule:
    """Solve from `start`; the time limit counts from `began` (of `now`) on."""
    budget = CpsatBudget.of(options, began)
    if problem.objective.kind == "throughput":
        return cpsat_throughput.solve(problem, options, start, budget)
    return solve_whole(instance_of(problem), options, start, budget)
