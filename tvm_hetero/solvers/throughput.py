"""Throughput by the whole ladder: balance, stages, annealing, CP-SAT; and the bound of shares.

    1. starts     greedy balancing, and contiguous stages along an order (few copies)
    2. bound      the linear program of `throughput_bounds`; done where a value meets it. Along
                  chains `chain_bounds` raises it, given the best value so far
    3. annealing  of the best starts in C++ (without the library: moves of single groups)
    4. CP-SAT     from the best, where the model is small enough to be searched
    5. tidying    moves that save copied bytes and do not raise the value

With contiguous stages as the objective `stages` has a ladder of its own. A batch may be divided:
each task in as many equal parts as there are devices (`divided`), so that devices can share the
elements of a task; the annealer then places parts instead of tasks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from tvm_hetero.chain_bounds import chain_bound
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.instance import Division, Instance
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers import cpsat_throughput, stages
from tvm_hetero.solvers.balance import balanced, improve
from tvm_hetero.solvers.cpsat_run import Budget
from tvm_hetero.solvers.ideals_dp import all_ideals, check_kind
from tvm_hetero.solvers.linear_dp import linear_plan
from tvm_hetero.solvers.loads import Loads, exact_value
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.period import write_period
from tvm_hetero.solvers.stage_dp import best_plan
from tvm_hetero.throughput_bounds import ALL_ROWS, QUICK_ROWS, share_bound

# Evaluations of the annealer per second of the time limit: a tenth of what one core does, for two
# starts, and the most that were seen to help.
_EVALUATIONS = 150_000
_MOST_EVALUATIONS = 8_000_000
# Places (part, device) up to which CP-SAT gets a share of the time.
_MOST_PLACES = 3_000
# Parts up to which greedy balancing and single moves in Python take a few seconds.
_MOST_MOVED = 5_000
_MOST_PARTS = 20_000
# Parts that greedy balancing and the DP over ideals go through in a second, about; and the time
# limit (s) from which on the linear program with all copies, some ten seconds, fits well.
_MOVED_A_SECOND = 100
_PATIENT = 30.0


def solve(problem: Problem, options: Options) -> Schedule:
    """Place for throughput, free or in contiguous stages.

    Raises
    ------
    UsageError
        If the objective is not throughput.
    InfeasibleError
        If memory or missing links leave no placement.
    SolverError
        If none was found in the time.
    """
    check_kind(problem, "throughput")
    if problem.objective.contiguous:
        return replace(stages.solve(problem, options), solver="throughput")
    budget = Budget.of(options, time.monotonic())
    instance = Instance(problem)
    bound, weights = share_bound(
        instance, ALL_ROWS if options.time_limit >= _PATIENT else QUICK_ROWS
    )
    best = _search(instance, options.start, bound, options, budget)
    if best is not None and problem.batch > 1 and not _closed(best, bound):
        best = _search_parts(problem, best, options, budget)
    if best is not None and not _closed(best, bound):
        bound = max(bound, chain_bound(instance, best.value, weights))
    if best is None or (not _closed(best, bound) and _places(instance) <= _MOST_PLACES):
        best = _close(problem, best, options, budget)
    return replace(best, solver="throughput", lower_bound=max(best.lower_bound, bound))


def _closed(best: Schedule, bound: float) -> bool:
    return best.value - bound <= OPTIMAL_GAP * best.value


def _places(instance: Instance) -> int:
    return sum(len(instance.devices[group[0]]) for group in instance.groups)


def _starts(instance: Instance, options: Options) -> list[list[int]]:
    """Placements to begin from; none if all means fail."""
    found = []
    if len(instance) <= min(_MOST_MOVED, options.time_limit * _MOVED_A_SECOND):
        with suppress(InfeasibleError):
            found.append(balanced(instance))
    with suppress(SolverError):
        plan = linear_plan(instance)
        if plan is not None:
            found.append(plan)
    if len(instance) > options.time_limit * _MOVED_A_SECOND:
        return found
    with suppress(SolverError):
        plan, _ = best_plan(instance, all_ideals(instance), math.inf)
        if plan is not None:
            found[-1:] = [plan]
    return found


def _better(
    instance: Instance, best: Schedule | None, plan: Sequence[int], options: Options
) -> Schedule | None:
    """The better of a schedule and a placement."""
    value = exact_value(instance, plan)
    if value == math.inf or (best is not None and value >= best.value):
        return best
    executions, copies = write_period(instance, plan)
    return make_schedule(
        instance.problem, "throughput", executions, copies, seed=options.seed
    )


def _search(
    instance: Instance,
    best: Schedule | None,
    bound: float,
    options: Options,
    budget: Budget,
) -> Schedule | None:
    """The best of all starts, and of what annealing makes of them where the bound is not met."""
    starts = _starts(instance, options)
    for plan in starts:
        best = _better(instance, best, plan, options)
    for plan in starts:
        if best is not None and _closed(best, bound):
            break
        for found in _annealed(instance, plan, options, budget):
            best = _better(instance, best, found, options)
    return best


def _annealed(
    instance: Instance, plan: Sequence[int], options: Options, budget: Budget
) -> list[list[int]]:
    """Placements by the C++ annealer; by single moves where the library is missing."""
    from tvm_hetero.solvers.native import NativeSearch

    count = min(_MOST_EVALUATIONS, max(1, int(options.time_limit * _EVALUATIONS)))
    try:
        found = NativeSearch(instance).anneal_loads(
            plan,
            evaluations=count,
            seed=options.seed,
            deadline=max(0.01, 0.6 * (budget.deadline - time.monotonic())),
        )
        return [tidied(instance, list(found.placement))] if found.feasible else []
    except SolverError:
        if len(instance) > _MOST_MOVED:
            return []
    loads = Loads(instance)
    for group in instance.groups:
        loads.move(group, plan[group[0]])
    improve(loads)
    return [tidied(instance, loads.placement())]


def tidied(instance: Instance, plan: list[int]) -> list[int]:
    """The placement with fewer copied bytes at no larger value: groups join their neighbours."""
    if len(instance) > _MOST_PARTS:
        return plan
    loads = Loads(instance)
    for group in instance.groups:
        loads.move(group, plan[group[0]])
    top = loads.profile()[0]
    for group in instance.groups:
        home = loads.home[group[0]]
        near = _neighbours(instance, loads, group)
        for device in sorted(near - {home}):
            before = _copied(loads, group)
            loads.move(group, device)
            fits = loads.profile()[0] <= top and not loads.overflow() and loads.reachable(group)
            if fits and _copied(loads, group) < before:
                home = device
            else:
                loads.move(group, home)
    return loads.placement()


def _neighbours(instance: Instance, loads: Loads, group: Sequence[int]) -> set[int]:
    """Devices of what a group reads from and of its readers, of those that can run it."""
    near = {loads.home[instance.tensors[t].maker] for v in group for t in instance.inputs[v]}
    readers = (w for v in group for t in instance.outputs[v] for w in instance.tensors[t].readers)
    near |= {loads.home[w] for w in readers}
    return set(instance.devices[group[0]]).intersection(near)


def _copied(loads: Loads, group: Sequence[int]) -> int:
    """Bytes that the tensors at a group move, over all hops."""
    instance = loads.instance
    touched = {t for v in group for t in (*instance.inputs[v], *instance.outputs[v])}
    return sum(instance.tensors[t].nbytes * len(loads.hops_of(t)) for t in touched)


def divided(problem: Problem) -> Division:
    """The batch of every uncolored task in equal parts, one a device that can run it."""
    division = {}
    for task in problem.tasks:
        count = min(problem.batch, len(problem.devices_for(task.id)))
        if task.color is None and count > 1:
            ends = [problem.batch * i // count for i in range(count + 1)]
            division[task.id] = [tuple(range(a, b)) for a, b in pairwise(ends)]
    return division


def _search_parts(
    problem: Problem, best: Schedule, options: Options, budget: Budget
) -> Schedule:
    """The same search with divided batches; the better answer."""
    instance = Instance(problem, divided(problem))
    if len(instance) > _MOST_PARTS or not instance.divided:
        return best
    found = _search(instance, best, 0.0, options, budget)
    return best if found is None else found


def _close(
    problem: Problem, best: Schedule | None, options: Options, budget: Budget
) -> Schedule:
    """CP-SAT from the best placement; what it proves goes with the answer."""
    try:
        return cpsat_throughput.solve(problem, options, best, budget)
    except HeteroError:
        if best is None:
            raise
        return best
