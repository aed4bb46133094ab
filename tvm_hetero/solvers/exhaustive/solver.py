"""Exhaustive: every division, every placement, and of each every order that can be best.

For small problems of every kind. Python lists the divisions of the batch, one of each kind
(`divisions`); C++ looks at all placements of a division and at all orders of a placement that can
be best, and cuts off what cannot be better than the best known (src/search/complete.h and
order_search.h say how, and why nothing is lost). Divisions into few parts come first: they are
searched soonest, and what they find cuts off the others.

Once everything has been looked at, the value is proven, but for the part of 1e-9 within which
nothing better is looked for; and if nothing was found, there is nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.exhaustive.divisions import count_divisions, divisions, placements
from tvm_hetero.solvers.lists.best_start import best_start
from tvm_hetero.solvers.native.complete import CompleteAnswer, search_all
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.solvers.timing.timing import make_plan, to_schedule
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.symmetry import find_symmetry

# The largest problem that is taken on: tasks, elements, and placements (before any are cut off).
MOST_TASKS = 20
MOST_BATCH = 5
MOST_PLACEMENTS = 1e9
# Placements and divisions up to which a problem is small: most are closed at once.
SMALL, FEW = 1e8, 5e3
# Nodes of a search in a second of time limit, fewer than an idle core looks at.
NODES_A_SECOND = 1_000_000
# What it costs to prepare a division, in nodes.
_DIVISION = 500
# Nothing is looked for that is better by less than this part of the value (src/search/complete.cc).
_WORTHWHILE = 1 - 1e-9


def solve(problem: Problem, options: Options) -> Schedule:
    """The best of all schedules.

    Raises
    ------
    InfeasibleError
        If there is none: a proof.
    SolverError
        If the problem is too large, or the time limit too short to find anything.
    """
    began = options.clock()
    _check_size(problem)
    best = _start(problem, options)
    work, complete = int(options.time_limit * NODES_A_SECOND), True
    for divided in sorted(divisions(problem), key=lambda d: sum(map(len, d.parts.values()))):
        left = options.wall_limit - (options.clock() - began)
        if work <= 0 or left <= 0:
            complete = False
            break
        instance = Instance(problem, divided.parts)
        found = search_all(
            NativeSearch(instance), divided.images(instance), find_symmetry(problem),
            cutoff=math.inf if best is None else best.value, work=work, deadline=left,
        )  # fmt: skip
        work -= found.work + _DIVISION
        complete = complete and found.finished
        if found.value < math.inf:
            best = _schedule_of(instance, found)
    if best is None:
        raise _nothing(complete)
    proven = best.value * _WORTHWHILE if complete else 0.0
    return replace(best, solver="exhaustive", lower_bound=proven, seed=options.seed)


def is_small(problem: Problem) -> bool:
    """Whether a problem is so small that looking at everything may be the quickest way."""
    if len(problem.tasks) > MOST_TASKS or problem.batch > MOST_BATCH:
        return False
    if count_divisions(problem) > FEW:
        return False
    return placements(problem, instance_of(problem)) <= SMALL


def _check_size(problem: Problem) -> None:
    size = placements(problem, instance_of(problem))
    if len(problem.tasks) <= MOST_TASKS and problem.batch <= MOST_BATCH and size <= MOST_PLACEMENTS:
        return
    raise SolverError(
        f"exhaustive takes at most {MOST_TASKS} tasks, batches of {MOST_BATCH} and "
        f"{MOST_PLACEMENTS:.0e} placements; this problem has {len(problem.tasks)} tasks, a batch "
        f"of {problem.batch} and {size:.3g} placements"
    )


def _start(problem: Problem, options: Options) -> Schedule | None:
    """The best of what is given, HEFT and the best single device."""
    found = [each for each in (options.start, best_start(problem, options)) if each is not None]
    return min(found, key=lambda schedule: schedule.value, default=None)


def _schedule_of(instance: Instance, found: CompleteAnswer) -> Schedule:
    if instance.problem.objective.kind == "throughput":
        timed = write_period(instance, found.placement)
    else:
        plan = make_plan(instance, found.placement)
        timed = to_schedule(plan, [*found.starts, *(found.hops[hop] for hop in plan.hops)])
    return make_schedule(instance.problem, "exhaustive", *timed)


def _nothing(complete: bool) -> SolverError | InfeasibleError:
    if not complete:
        return SolverError("exhaustive found no schedule within its time limit; raise it")
    return InfeasibleError(
        "there is no schedule, however the batch is divided: no placement keeps memory, latency "
        "limit and links; add memory or links, or raise the limit",
        proven=True,
    )
