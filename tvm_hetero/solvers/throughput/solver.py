"""Throughput by the whole ladder: balance, stages, annealing, CP-SAT; and the bound of shares.

    1. bound      the linear program of `views.task_classes`, and where copies or memory are in the
                  way that of `share_program`; done where a value meets it. Along chains `chain`
                  raises it, given the best value so far, along modules `identical_devices`, and
                  `covering` by what one device can hold (all of `bounds.throughput`)
    2. starts     the shares of classes rounded (`class_rounding`), which is nearly all where copies
                  are in no one's way; else also greedy balancing, contiguous stages along an
                  order, which copy little, the shares of groups cut at a threshold
                  (`threshold_rounding`)
    3. annealing  of blocks of neighbours and of groups in turns (`level_annealing`), from the best;
                  then of the starts in C++ (without the library: moves of single groups); some
                  times from the cut shares, as the values of such runs are a percent apart. What
                  that finds is tidied: moves that save copied bytes and do not raise the value
                  (`join_neighbours`)
    4. CP-SAT     from the best, where the model is small enough to be searched

With contiguous stages as the objective `stages` has a ladder of its own. A batch may be divided:
each task in as many equal parts as there are devices (`divide_evenly`), so that devices can share
the elements of a task; the annealer then places parts instead of tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from tvm_hetero.bounds.throughput.chain import chain_bound
from tvm_hetero.bounds.throughput.covering import covering_bound
from tvm_hetero.bounds.throughput.identical_devices import MOST, run_bound
from tvm_hetero.bounds.throughput.share_program import (
    ALL_ROWS,
    QUICK_ROWS,
    hub_bound,
    rates,
    share_program,
)
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.cpsat import throughput as cpsat_throughput
from tvm_hetero.solvers.lists.load_balancing import balance_loads
from tvm_hetero.solvers.search.load_annealing import MOST_PLACES, anneal_loads, annealed_cut, places
from tvm_hetero.solvers.stage_dp.ideals_dp import all_ideals
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.stage_dp.stage_dp import best_plan, check_kind
from tvm_hetero.solvers.stages import solver as stages
from tvm_hetero.solvers.throughput.class_rounding import share_plan
from tvm_hetero.solvers.throughput.join_neighbours import join_neighbours
from tvm_hetero.solvers.throughput.level_annealing import anneal_in_levels
from tvm_hetero.solvers.throughput.threshold_rounding import share_cut
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import placement_of, write_period
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.division_patterns import even_counts, ranges_of
from tvm_hetero.views.instance import Division, Instance, instance_of
from tvm_hetero.views.task_classes import shares_of

# Starts that are annealed, and how much worse than the best one they may be.
_MOST_STARTS, _FAR = 2, 1.5
# Parts up to which greedy balancing takes a few seconds.
_MOST_MOVED = 5_000
# Parts up to which greedy balancing is tried although there is another start.
_MOST_BALANCED = 500
# Parts of a divided batch above which it is not searched.
_MOST_PARTS = 20_000
# Parts that greedy balancing and the DP over ideals go through in a second, about, and those for
# which the DP along an order is a part of it; rows of the linear program with all copies for each
# second of the time limit (30,000 took three seconds); and the limit (s) from which on it fits well
# for each kind of device once more.
_MOVED_A_SECOND = 100
_CUT_A_SECOND = 500
_ROWS_A_SECOND = 2_000
# The part of the clock after which starts are cut, those along an order.
_STARTING = 0.9
_PATIENT = 30.0
# Of the limit, what the work of prices and sets stands for; and of the clock, when no table of
# theirs is begun any more.
_COVERING, _COVERED = 0.3, 0.5
# Placements of one module that are listed for each second of the limit.
_LISTED_A_SECOND = 15_000


@dataclass(frozen=True)
class _LevelRounds:
    """How much blocks are annealed: steps a second of the limit, share of the clock, the turn."""

    steps: int
    share: float
    turn: int


# Before the bound that is the better for a better value, and after it.
_FIRST_ROUNDS, _MORE_ROUNDS = _LevelRounds(2_000_000, 0.3, 0), _LevelRounds(8_000_000, 0.8, 1)


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
    budget = CpsatBudget.of(options, now())
    instance = instance_of(problem)
    rows = rows_within(options.time_limit)
    bound, weights, cut = _share(instance, rows, options)
    starts = _starts(instance, options, budget) + ([] if cut is None else [cut])
    best = options.start
    for plan in starts:
        best = _better(instance, best, plan, options)
    best = _anneal_blocks(instance, best, bound, options, budget, _FIRST_ROUNDS)
    if best is not None and _goes_on(best, bound, options, budget):
        work, until = _COVERING * options.time_limit, _at(budget, _COVERED)
        bound = max(bound, covering_bound(instance, best.value, weights, work, until))
    best = _anneal_blocks(instance, best, bound, options, budget, _MORE_ROUNDS)
    best = _search(instance, best, bound, options, budget, starts, cut)
    if best is not None and problem.batch > 1 and _goes_on(best, bound, options, budget):
        best = _search_parts(problem, best, bound, options, budget)
    if best is not None and instance.contended and _goes_on(best, bound, options, budget):
        bound = max(bound, chain_bound(instance, best.value, weights))
        most = min(MOST, int(options.time_limit * _LISTED_A_SECOND))
        bound = max(bound, run_bound(instance, best.value, weights, most))
        hub_rows = rows if options.time_limit >= _PATIENT else QUICK_ROWS
        bound = max(bound, hub_bound(instance, bound, hub_rows))
    closed = best is not None and not _goes_on(best, bound, options, budget)
    if best is None or (not closed and places(instance) <= MOST_PLACES):
        best = _close(problem, best, options, budget)
    return replace(best, solver="throughput", lower_bound=max(best.lower_bound, bound))


def _goes_on(best: Schedule, bound: float, options: Options, budget: CpsatBudget) -> bool:
    """Whether there is something to gain, and time for it."""
    return not options.within_gap(best.value, bound) and now() < budget.deadline


def rows_within(seconds: float) -> int:
    """Rows for copies that the linear program of shares may have in a limit of so many seconds."""
    return min(ALL_ROWS, max(QUICK_ROWS, int(seconds * _ROWS_A_SECOND)))


def _share(
    instance: Instance, rows: int, options: Options
) -> tuple[float, FloatArray, list[int] | None]:
    """The bound of shares, the weights of devices' loads in it, and a plan cut from the shares."""
    bound = shares_of(instance, rates(instance)).value
    if not instance.contended:
        return bound, np.zeros(len(instance.names)), None
    shares = share_program(instance, rows)
    small = len(instance) <= options.time_limit * _MOVED_A_SECOND
    cut = share_cut(instance, shares) if small else None
    return max(bound, shares.value), shares.weights, cut


def _at(budget: CpsatBudget, part: float) -> float:
    """The moment when a part of what is left of the clock has gone."""
    began = now()
    return began + part * (budget.deadline - began)


def _anneal_blocks(
    instance: Instance,
    best: Schedule | None,
    bound: float,
    options: Options,
    budget: CpsatBudget,
    rounds: _LevelRounds,
) -> Schedule | None:
    """The best, and what blocks of neighbours make of it where copies are in the way."""
    small = len(instance) <= options.time_limit * _MOVED_A_SECOND
    if best is None or not instance.contended or not small:
        return best
    if options.within_gap(best.value, bound):
        return best
    plan = placement_of(instance, best)
    if plan is None:
        return best
    steps = int(rounds.steps * options.time_limit)
    seconds = rounds.share * (budget.deadline - now())
    found = anneal_in_levels(instance, plan, bound, options, steps, seconds, rounds.turn)
    return best if found is None else _better(instance, best, found, options)


def _starts(instance: Instance, options: Options, budget: CpsatBudget) -> list[list[int]]:
    """Placements to begin from; none if all means fail.

    The programs along an order are cut by the clock, which that of a divided batch on many kinds of
    devices would overrun.
    """
    began = now()
    deadline = began + _STARTING * (budget.deadline - began)
    found = []
    plan = share_plan(instance, shares_of(instance, rates(instance)))
    if plan is not None and (not instance.contended or exact_value(instance, plan) < math.inf):
        found.append(plan)
    if found and not instance.contended:
        return found
    moved = _MOST_BALANCED if found else _MOST_MOVED
    if len(instance) <= min(moved, options.time_limit * _MOVED_A_SECOND):
        with suppress(InfeasibleError):
            found.append(balance_loads(instance, options.ends))
    if not found or len(instance) <= options.time_limit * _CUT_A_SECOND:
        with suppress(SolverError):
            plan = linear_plan(instance, deadline=deadline)
            if plan is not None:
                found.append(plan)
    if len(instance) > options.time_limit * _MOVED_A_SECOND:
        return found
    with suppress(SolverError):
        plan, _ = best_plan(instance, all_ideals(instance), math.inf, deadline)
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
    return make_schedule(instance.problem, "throughput", executions, copies, seed=options.seed)


def _search(
    instance: Instance,
    best: Schedule | None,
    bound: float,
    options: Options,
    budget: CpsatBudget,
    starts: Sequence[list[int]],
    cut: list[int] | None = None,
) -> Schedule | None:
    """The best of all, and of what annealing makes of the starts where the bound is not met."""
    for plan in starts:
        best = _better(instance, best, plan, options)
    valued = sorted(((exact_value(instance, plan), plan) for plan in starts), key=itemgetter(0))
    starts = [plan for value, plan in valued if value <= _FAR * valued[0][0]][:_MOST_STARTS]
    for i, plan in enumerate(starts):
        if best is not None and options.within_gap(best.value, bound):
            break
        share = 0.7 * (budget.deadline - now()) / (len(starts) - i)
        anneal = annealed_cut if plan is cut else anneal_loads
        found = anneal(instance, plan, bound, options, share)
        if found is not None:
            best = _better(instance, best, join_neighbours(instance, found), options)
    return best


def divide_evenly(problem: Problem) -> Division:
    """The batch of every uncolored task in equal parts, one a device that can run it."""
    division = {}
    for task in problem.tasks:
        count = min(problem.batch, len(problem.devices_for(task.id)))
        if task.color is None and count > 1:
            division[task.id] = ranges_of(even_counts(problem.batch, count))
    return division


def _search_parts(
    problem: Problem, best: Schedule, bound: float, options: Options, budget: CpsatBudget
) -> Schedule:
    """The same search with divided batches; the better answer."""
    instance = Instance(problem, divide_evenly(problem))
    if len(instance) > _MOST_PARTS or not instance.divided:
        return best
    found = _search(instance, best, bound, options, budget, _starts(instance, options, budget))
    return best if found is None else found


def _close(
    problem: Problem, best: Schedule | None, options: Options, budget: CpsatBudget
) -> Schedule:
    """CP-SAT from the best placement; what it proves goes with the answer."""
    try:
        return cpsat_throughput.solve(problem, options, best, budget)
    except HeteroError:
        if best is None:
            raise
        return best
