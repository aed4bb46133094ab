"""Contiguous stages by the whole ladder: DP along orders, DP over ideals, CP-SAT.

    1. `linear_dp`   any graph, in a second                    a plan
    2. `ideals_dp`   where the ideals are few                  a bound, and mostly the same value
    3. CP-SAT        `pipeline_model`, from the best plan      what they leave open

Each rung stops the climb when its value meets the bound. For throughput without contiguous
stages the plan is found in the same way, but only CP-SAT's rung of `cpsat_throughput` bounds it.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.instance import Instance
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers import cpsat_throughput
from tvm_hetero.solvers.cpsat_run import Budget
from tvm_hetero.solvers.ideals_dp import all_ideals, check_kind, stage_bound
from tvm_hetero.solvers.linear_dp import linear_plan
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.period import write_period
from tvm_hetero.solvers.stage_dp import best_plan

# Executions x devices above which CP-SAT would not even load the model in its time.
_MOST_PLACES = 30_000


def solve(problem: Problem, options: Options) -> Schedule:
    """Place contiguous stages; proven where the objective asks for them.

    Raises
    ------
    UsageError
        If the objective is not throughput.
    InfeasibleError
        If no contiguous stages fit (proven).
    SolverError
        If the time ran out before the first plan.
    """
    check_kind(problem, "stages")
    began = time.monotonic()
    contiguous = replace(problem.objective, contiguous=True)
    staged = problem.with_objective(contiguous)
    own = options.start if problem.objective.contiguous else None
    answer = _climb(staged, replace(options, start=own), Budget.of(options, began))
    if problem.objective.contiguous:
        return answer
    return replace(answer, problem=problem.digest, lower_bound=0.0)


def _climb(problem: Problem, options: Options, budget: Budget) -> Schedule:
    """The ladder at the head of this file."""
    instance = Instance(problem)
    best, bound = options.start, 0.0
    plan = linear_plan(instance)
    best = _better(problem, instance, best, plan, options.seed)
    try:
        family = all_ideals(instance)
        plan, chain = best_plan(instance, family, math.inf if best is None else best.value)
        bound = stage_bound(problem, family, chain)
        best = _better(problem, instance, best, plan, options.seed)
    except SolverError:
        pass  # Too many ideals: CP-SAT is next.
    if best is not None:
        best = replace(best, lower_bound=bound)
        if best.value - bound <= OPTIMAL_GAP * best.value:
            return best
        if len(instance) * len(instance.names) > _MOST_PLACES:
            return best
    try:
        exact = cpsat_throughput.solve(problem, options, best, budget)
    except HeteroError:
        if best is None:
            raise
        return best
    return replace(exact, solver="stages", lower_bound=max(bound, exact.lower_bound))


def _better(
    problem: Problem,
    instance: Instance,
    best: Schedule | None,
    plan: list[int] | None,
    seed: int,
) -> Schedule | None:
    """The better of a schedule and a plan."""
    if plan is None:
        return best
    executions, copies = write_period(instance, plan)
    found = make_schedule(problem, "stages", executions, copies, seed=seed)
    return found if best is None or found.value < best.value else replace(best, solver="stages")
