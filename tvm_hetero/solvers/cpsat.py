"""CP-SAT: exact schedules (latency, energy, cost) and exact placements (throughput).

The answer is never worse than the start: the best schedule known, which also tells CP-SAT where
to begin. Latency is solved in parts where the graph can be cut (`articulation`), else in one
model (`cpsat_batch`); throughput has a model of its own (`cpsat_throughput`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.errors import HeteroError
from tvm_hetero.instance import Instance
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import Schedule
from tvm_hetero.solvers import cpsat_throughput, heft, single
from tvm_hetero.solvers.articulation import Module, Parts, cut
from tvm_hetero.solvers.cpsat_batch import solve_whole
from tvm_hetero.solvers.cpsat_run import Budget
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.timing import make_plan, retime, to_schedule

# The part of the work left that a module may take at its first attempt.
_FIRST_SHARE = 0.2
_ROUNDING = 1 - 1e-12


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve with CP-SAT, from `options.start` or from the better of heft and single.

    Raises
    ------
    InfeasibleError
        If no schedule exists (proven, for one element), or none was found by any means.
    SolverError
        If the time ran out before the first schedule.
    """
    began = time.monotonic()
    return improve(problem, options, options.start or best_start(problem, options), began)


def improve(
    problem: Problem, options: Options, start: Schedule | None, began: float
) -> Schedule:
    """Solve from `start`; the time limit counts from `began` (of `time.monotonic`) on."""
    budget = Budget.of(options, began)
    if problem.objective.kind == "throughput":
        return cpsat_throughput.solve(problem, options, start, budget)
    instance = Instance(problem)
    modules = cut(instance) if problem.objective.kind == "latency" else None
    if modules is not None:
        return _by_parts(instance, modules, options, start, budget)
    return solve_whole(instance, options, start, budget)


def _by_parts(
    instance: Instance,
    modules: Sequence[Module],
    options: Options,
    start: Schedule | None,
    budget: Budget,
) -> Schedule:
    """Solve module by module (see `articulation`)."""
    problem = instance.problem

    def solve_entry(module: Problem, known: Schedule, attempt: int) -> Schedule:
        share = 1.0 if attempt else _FIRST_SHARE
        return solve_whole(Instance(module), options, known, budget, share)

    parts = Parts(instance, modules, lambda p: heft.solve(p, options), _entry_bound)
    parts.close(solve_entry, budget.exhausted)
    bound, _ = parts.best_path(low=True)
    placement, times, hops = parts.join()
    plan = make_plan(instance, placement)
    keys = [*times, *(hops[hop] for hop in plan.hops)]
    executions, copies = to_schedule(plan, retime(plan, keys))
    found = make_schedule(
        problem, "cpsat", executions, copies, lower_bound=bound * _ROUNDING, seed=options.seed
    )
    return found if start is None or found.value < start.value else _bounded(start, found)


def _entry_bound(module: Problem, value: float) -> float:
    """A bound of a module; the linear program only where the critical path leaves a gap."""
    from tvm_hetero.bounds import critical_path, latency_bound

    instance = Instance(module)
    bound = critical_path(instance)
    return bound if bound >= value * _ROUNDING else latency_bound(instance)


def _bounded(start: Schedule, found: Schedule) -> Schedule:
    """The start with the bound that was proven, under this solver's name."""
    return replace(start, solver="cpsat", lower_bound=found.lower_bound, seed=found.seed)


def best_start(problem: Problem, options: Options) -> Schedule | None:
    """The better of single and heft; None if neither finds a schedule."""
    found = []
    for other in (single.solve, heft.solve):
        try:
            found.append(other(problem, options))
        except HeteroError:
            continue
    return min(found, key=lambda schedule: schedule.value, default=None)
