"""The one way in: run a solver, verify, compare with the best single device, bound.

Whatever a solver answers goes through `check.verified`, whose counters no solver uses; so a
solver's own value and its claim to be optimal are never believed.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from tvm_hetero.errors import (
    LIST_LINE,
    BackendError,
    HeteroError,
    InfeasibleError,
    SolverError,
    SolverFault,
)
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule, SingleDevice
from tvm_hetero.solvers.core.deadline import Deadline, time_is_up
from tvm_hetero.solvers.core.feasibility import check_links, check_memory
from tvm_hetero.solvers.core.options import BOUND_SHARE, MOST_ASIDE, Options
from tvm_hetero.solvers.core.verified_call import (
    Solver,
    drop_false_bound,
    solve_verified,
    warn,
    warn_of_less,
)
from tvm_hetero.solvers.other_solvers import with_others
from tvm_hetero.solvers.registry import (
    bounds_itself,
    check_energies,
    check_shared_memory,
    check_teams,
    knows_teams,
    makes_one_plan,
    solver_of,
)
from tvm_hetero.util.few_collections import few_collections
from tvm_hetero.util.search_clock import is_stopped
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import instance_of

# Seconds that the judge takes for a task or edge, and that an answer takes to be read again.
_JUDGED = 20e-6
# The share of its time after which a search is said to have used it.
_UP = 0.9
# Behind a solver's name where the best single device is the answer.
_SINGLE = " (single)"


def solve(problem: Problem, solver: str = "auto", options: Options | None = None) -> Schedule:
    """Solve a problem.

    Parameters
    ----------
    problem : what to schedule.
    solver : one of `names()`.
    options : time limit (s), seed, start; see `Options`.

    Returns
    -------
    A schedule that `check.verified` has passed, with a proven lower bound and the best single
    device beside it; never worse than the start. Where the best single device is better than
    the solver's answer, or the solver finds none, it is the answer, under the name
    ``"<solver> (single)"``. Where the solver crashes or its answer is not valid, the next best
    answer is given with a `SolverWarning`.

    Raises
    ------
    UsageError
        If there is no such solver.
    InfeasibleError
        If no placement can keep the limits; says by how much memory is too small, or which
        devices no link joins.
    SolverError
        If the solver finds nothing in its time; if it fails and no one else finds anything; if
        the backend that was asked for refuses the model.
    """
    with few_collections():
        told = Options() if options is None else options
        began = told.clock()
        told = replace(told, ends=_ends_of(problem, told, began))
        late = began + _UP * (told.until(began) - began)
        answer = _solve(problem, solver, told)
        told.say(f"stopped: {_why(answer, solver, told, late=told.clock() >= late)}")
        return answer


def _why(answer: Schedule, solver: str, options: Options, *, late: bool) -> str:
    """Why nobody searches on."""
    if answer.gap <= OPTIMAL_GAP:
        return "value and bound meet: proven optimal"
    if options.within_gap(answer.value, answer.lower_bound):
        return f"within the asked gap of {options.gap:.2%} of the bound"
    if is_stopped():
        return "it was told to stop"
    limit = format_seconds(options.time_limit)
    if late:
        return f"the time limit of {limit} is up"
    if answer.solver.endswith(_SINGLE):
        return f"{solver} has nothing better; a gap of {answer.gap:.2%} is left"
    if makes_one_plan(solver):
        return f"{solver} makes one plan and does not search; a gap of {answer.gap:.2%} is left"
    return (
        f"the work that a time limit of {limit} stands for is done (after "
        f"{format_seconds(answer.seconds)} here), a gap of {answer.gap:.2%} is left; raise "
        "--time-limit for more work"
    )


def _solve(problem: Problem, solver: str, options: Options) -> Schedule:
    from tvm_hetero.bounds import check_latency_limit, lower_bound, round_up
    from tvm_hetero.check.checker import verified
    from tvm_hetero.solvers.lists.best_single import main_device

    # Not the searches' clock, which is moved where they are told to stop.
    began = time.perf_counter()
    chosen = solver_of(solver)
    check_teams(problem.platform, problem.objective, solver)
    check_shared_memory(problem, solver)
    check_energies(problem, solver)
    check_memory(instance_of(problem))
    check_links(instance_of(problem))
    check_latency_limit(problem)
    if options.start is not None:
        start = verified(problem, options.start)
        options = replace(options, start=start)
        options.keep(start)
    single, is_certain = _find_single(problem, options)
    best = None
    if single is not None and is_certain:
        best = SingleDevice(main_device(single), single.value)
    if single is not None and options.best is not None:
        known = replace(single, solver=solver + _SINGLE)
        if best is None:
            options.best.offer(known)
        else:
            options.best.offer_single(known, best.device)
    answer, bound_is_final = _answer(problem, chosen, solver, options, single)
    values = [other.value for other in (single, options.start) if other is not None]
    answer = drop_false_bound(answer, values, solver)
    if options.start is not None and options.start.value < answer.value:
        answer = replace(options.start, lower_bound=answer.lower_bound)
    bound = min(round_up(problem, answer.lower_bound), answer.value)
    answer = replace(answer, lower_bound=bound)
    # What is proven needs no other bound, and what is late gets none beside one that it has.
    late = bound > 0 and time_is_up(options.ends)
    if answer.gap > OPTIMAL_GAP and not bound_is_final and not late:
        quick, is_late = BOUND_SHARE * options.time_limit, partial(time_is_up, options.ends)
        bound = max(bound, lower_bound(problem, answer.value, quick, is_late))
    return verified(
        problem,
        replace(
            answer,
            lower_bound=bound,
            best_single_device=best,
            status="feasible",
            seed=options.seed,
            seconds=time.perf_counter() - began,
        ),
    )


def _ends_of(problem: Problem, options: Options, began: float) -> Deadline:
    """When searches are to be over, so that judge and bound are through within the limit."""
    whole = options.ends or Deadline(options.until(began), options.clock)
    size = len(problem.tasks) + len(problem.graph.edges)
    return whole.sooner(min(_JUDGED * size, 0.5 * max(0.0, whole.left())))


def _find_single(problem: Problem, options: Options) -> tuple[Schedule | None, bool]:
    """As `find_single`, verified; with a warning where there may be a better one."""
    from tvm_hetero.check.checker import verified
    from tvm_hetero.solvers.lists.best_single import find_single

    single, is_certain = find_single(problem, options)
    if not is_certain:
        warn_of_less(
            "the time is up before it is clear which device alone is the best: none is stated "
            "beside the answer; raise the time limit",
            options,
        )
    return None if single is None else verified(problem, single), is_certain


class _Solved(NamedTuple):
    """An answer, and whether the ladder of bounds has nothing to add to its bound."""

    schedule: Schedule
    bound_is_final: bool = False


def _answer(
    problem: Problem, chosen: Solver, name: str, options: Options, single: Schedule | None
) -> _Solved:
    """The solver's answer, or the best single device where that is better or all there is.

    Of a solver that fails, the next best answer, with a warning that names it.
    """
    try:
        told = _without_bound(options, itself=bounds_itself(name))
        answer = solve_verified(problem, name, chosen, told)
    except SolverFault as fault:
        return _Solved(_next_best(problem, fault, options, single))
    except (InfeasibleError, SolverError) as error:
        if isinstance(error, BackendError):
            raise
        if single is None or time_is_up(options.ends):
            return _Solved(_in_time(problem, name, options, error, single))
        reason = str(error).split("\n")[0]
        text = f"solver {name!r} found nothing: {reason}; the answer is the best single device"
        warn_of_less(text, options)
        return _Solved(replace(single, solver=name + _SINGLE))
    if single is not None and single.value < answer.value:
        answer = replace(single, solver=name + _SINGLE, lower_bound=answer.lower_bound)
        return _Solved(answer)
    return _Solved(answer, bound_is_final=bounds_itself(name))


def _in_time(
    problem: Problem, name: str, options: Options, error: HeteroError, single: Schedule | None
) -> Schedule:
    """What one pass finds where the time was too short for anything else: never no answer.

    The schedule of a single device where that is better. `auto`, which asks everybody in turn and
    keeps a part of the time for what comes after, found nothing because the time is too short
    wherever it has no proof.

    Raises
    ------
    HeteroError
        The solver's error, if there was time, or one pass finds nothing either.
    """
    short = time_is_up(options.ends) or (name == "auto" and not _is_proof(error))
    if not short:
        raise with_others(error, problem, options, name) from None
    quickest = "one-pass" if knows_teams("one-pass", problem) else "heft"
    found = [] if single is None else [(single.value, 1, replace(single, solver=name + _SINGLE))]
    with suppress(HeteroError):
        told = replace(options, ends=None)
        passed = solve_verified(problem, quickest, solver_of(quickest), told)
        found.append((passed.value, 0, replace(passed, solver=f"{name} ({quickest})")))
    if not found:
        raise with_others(error, problem, options, name) from None
    answer = min(found, key=itemgetter(0, 1))[-1]
    whose = "a single device" if answer.solver.endswith(_SINGLE) else quickest
    text = f"solver {name!r}: {str(error).split(LIST_LINE)[0]}; the answer is that of {whose}"
    warn_of_less(text, options)
    return answer


def _is_proof(error: HeteroError) -> bool:
    return isinstance(error, InfeasibleError) and error.proven


def _without_bound(options: Options, *, itself: bool) -> Options:
    """The options with the time that the bound beside the answer will take put aside.

    Who holds its bound against the ladder `itself` has the clock for that, too.
    """
    aside = min(BOUND_SHARE * options.time_limit, MOST_ASIDE)
    ends = options.ends if itself or options.ends is None else options.ends.sooner(aside)
    return replace(options, time_limit=options.time_limit - aside, ends=ends)


def _next_best(
    problem: Problem, fault: SolverFault, options: Options, single: Schedule | None
) -> Schedule:
    """The best of start, heft and single.

    Raises
    ------
    SolverFault
        The fault, if there is none.
    """
    found = [other for other in (options.start, single) if other is not None]
    with suppress(HeteroError):
        found.append(solve_verified(problem, "heft", solver_of("heft"), options))
    if not found:
        raise fault
    best = min(found, key=lambda schedule: schedule.value)
    warn(f"{fault}; the answer is that of solver {best.solver!r}")
    return best
