"""MILP-SPLIT: latency by modules, exact where cutting is, with a true gap everywhere.

After Y. Zhou et al., DiviML: a module-based heuristic for mapping neural networks onto
heterogeneous platforms, ICCAD 2023, doi:10.1109/ICCAD57390.2023.10323837, who split a network into
modules, solve an exact model for each, and put the answers together. Here:

Cut       The graph is cut at articulations; equal modules are found    -> `tvm_hetero.modules`.
          Let a, b be consecutive cuts and

              M(i, j)   the least time from the end of a on i to the end of b on j
              D_b(j)  = min over i of D_a(i) + M(i, j)

          Then the least D of the last cut is the optimum, since at a cut every device is idle.
Table     Each entry M(i, j) is a small problem. Most are never solved: entries begin with a
          bound, and only those on the best chain are looked at       -> `split_table.Chain`.
Entry     List schedule, annealing, CP-SAT, neighbourhood search      -> `split_entry.Entry`.
Whole     Where the chain is not proven when the work is used up, the joined schedule is improved
          by neighbourhoods that reach across the cuts               -> `_polish`.

What is claimed: the chain's bound is a bound of the problem for one element. For a larger batch
it is one of this division of the batch only, so nothing is claimed (`tvm_hetero.bounds` is used).
Where memory binds or not everything is connected, cutting is not exact and the whole graph goes
to CP-SAT (`cpsat`). Throughput, energy and cost do too: their values do not add up along a chain.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from tvm_hetero.instance import Instance
from tvm_hetero.modules import cut_is_exact, modules_of
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers import cpsat, split_throughput
from tvm_hetero.solvers.cpsat_run import Budget
from tvm_hetero.solvers.neighbourhood import improve_by_windows
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.solution import Solution, list_schedule, of_schedule, solution
from tvm_hetero.solvers.split_cost import least_cost
from tvm_hetero.solvers.split_energy import energy_chain
from tvm_hetero.solvers.split_spending import MOST_DEVICES, least_energy
from tvm_hetero.solvers.split_table import Chain
from tvm_hetero.solvers.timing import to_schedule

# The bound is a sum of many entries, each rounded.
_ROUNDING = 1 - 1e-12
# Of the work, what is kept back to improve the joined schedule.
_KEPT = 0.1
# Of the work on energy and cost, what is kept back for CP-SAT on the whole graph.
_KEPT_FOR_WHOLE = 0.3
NAME = "milp-split"


@dataclass(frozen=True)
class Answer:
    """The best solution of an instance, and a bound of all solutions of this instance (s)."""

    best: Solution
    low: float
    modules: int
    distinct: int


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by modules, from `options.start` if there is one.

    Raises
    ------
    InfeasibleError
        If no schedule exists, or none was found by any means.
    SolverError
        If the time ran out before the first schedule.
    """
    return improve(problem, options, options.start, time.monotonic())


def improve(
    problem: Problem, options: Options, start: Schedule | None, began: float
) -> Schedule:
    """Solve from `start`; the time limit counts from `began` (of `time.monotonic`) on."""
    if problem.objective.kind == "latency":
        instance = Instance(problem)
        if cut_is_exact(instance):
            return _by_modules(instance, options, start, Budget.of(options, began))
    if problem.objective.kind == "throughput":
        found = split_throughput.solve(problem, options, start)
        if found is not None:
            return replace(found, solver=NAME)
    start = start or cpsat.best_start(problem, options)
    low = 0.0
    if problem.objective.kind in ("energy", "cost"):
        start, low = _spending(problem, options, start, began)
        if start is not None and start.value - low <= OPTIMAL_GAP * start.value:
            return replace(start, solver=NAME, lower_bound=min(low, start.value), seed=options.seed)
    found = cpsat.improve(problem, options, start, began)
    return replace(found, solver=NAME, lower_bound=min(max(low, found.lower_bound), found.value))


def _spending(
    problem: Problem, options: Options, start: Schedule | None, began: float
) -> tuple[Schedule | None, float]:
    """The best schedule for energy or cost by modules, and a bound; the start where none helps."""
    instance, budget = Instance(problem), Budget.of(options, began)
    used = {d for row in instance.devices for d in row}
    if len(used) > MOST_DEVICES or not cut_is_exact(instance):
        return start, 0.0
    budget.work *= 1 - _KEPT_FOR_WHOLE
    if problem.objective.kind == "cost":
        best, low = least_cost(instance, options, budget, start)
    else:
        chain = energy_chain(instance)
        if chain is None:
            return start, 0.0
        best, low = least_energy(chain, options, budget, start)
    return best, low if problem.batch == 1 else 0.0


def _by_modules(
    instance: Instance, options: Options, start: Schedule | None, budget: Budget
) -> Schedule:
    problem = instance.problem
    known = None if start is None else of_schedule(instance, start)
    answer = solve_instance(instance, options, budget, known)
    bound = min(answer.low * _ROUNDING, answer.best.value) if problem.batch == 1 else 0.0
    if start is not None and start.value <= answer.best.value:
        return replace(start, solver=NAME, lower_bound=min(bound, start.value), seed=options.seed)
    executions, copies = to_schedule(answer.best.plan, [s for s, _ in answer.best.times])
    return make_schedule(
        problem, NAME, executions, copies, lower_bound=bound, seed=options.seed
    )


def solve_instance(
    instance: Instance, options: Options, budget: Budget, known: Solution | None = None
) -> Answer:
    """The least latency of an instance, divided or not, for which `cut_is_exact`.

    `known` is a solution to begin from; the answer is no worse.
    """
    chain = Chain(instance, modules_of(instance))
    kept = _KEPT * budget.work if len(chain.modules) > 1 else 0.0
    budget.work -= kept
    chain.close(options, budget, math.inf if known is None else known.value)
    budget.work += kept
    low, _ = chain.best(low=True)
    best = solution(instance, *chain.join())
    if best.value - low > OPTIMAL_GAP * best.value:
        found = [best, list_schedule(instance), *([] if known is None else [known])]
        best = _polish(instance, min(found, key=lambda one: one.value), options, budget)
    elif known is not None and known.value < best.value:
        best = known
    return Answer(best, low, len(chain.modules), chain.distinct)


def _polish(instance: Instance, best: Solution, options: Options, budget: Budget) -> Solution:
    """Neighbourhoods that reach across the cuts, with what work is left."""
    if instance.contended:
        return best
    return improve_by_windows(instance, best, options, budget, 1.0) or best
