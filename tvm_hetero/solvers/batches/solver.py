"""Batches divided over devices and over time, together with model parallelism.

A batch of B elements may be divided for every task otherwise: whole on one device (weights are
read and kernels launched once), in shares over several devices (data parallelism), in rounds that
overlap (a pipeline), or shared for some tasks and whole for others. The search has three levels:

1. A menu of starts: shares by speed in 1 to 8 rounds, and the placement of a good
   schedule of whole batches                                            -> `starts.menu`
2. Annealing in C++ over counts, devices and order, where copies are delays (`range_search`). The
   menu is thinned: all starts with little work, the best few with as much together, and
   one, which may divide tasks further, with most of it     -> `_thinned`, `starts.widened`
   (K. Jamieson, A. Talwalkar: Non-stochastic Best Arm Identification, AISTATS 2016, PMLR 51,
   halve; one long annealing gains more than several shorter ones from as many starts.)
3. The best divisions become instances of parts, and annealing by all rules of the format
   (copies that block, live tensors, shared weights) finds devices and order -> `_timed`
   Where nothing of that occurs, level 2 has four fifths of its time.

Why it is so: docs/method/divided-batches.md.

Between rounds, divisions are compared by their times under all rules, not by the reckoning of
level 2. Work is counted, so the same seed gives the same schedule. A batch that does not fit into
memory whole may fit divided: then rounds of a few elements are on the menu.

The answer is never worse than HEFT's, annealing's and the best single device's for whole batches
(and, of up to 200 tasks and from 10 s on, what `milp_split` finds in a twentieth of the time). Its
bound is that of `tvm_hetero.bounds`, which holds for every division, with more work than the
registry spends on it. `python -m benchmarks.schedule --suite batches` prints the gaps of `auto`,
which asks it, on two platforms with 60 s (`results/schedule_batches.json`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.batches.range_search import Streams, StreamSearch
from tvm_hetero.solvers.batches.starts import menu, widened
from tvm_hetero.solvers.core.deadline import time_is_up
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.lists import best_single, heft
from tvm_hetero.solvers.native.library import NativeAnswer, NativeSearch
from tvm_hetero.solvers.native.start import exact_schedule
from tvm_hetero.solvers.search import annealing
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance

T = TypeVar("T")

# Items that level 2 decodes in a second on a slow machine; ours make 60 to 110 million.
_ITEMS_PER_SECOND = 50e6
# Tasks up to which it does: a change that is kept is copied for all of them.
_TASKS = 125
# Tasks up to which modules of whole batches are solved: copies of large batches may make the
# best division none at all.
_FEW_TASKS = 200
# Seconds of a search from which on loading CP-SAT, about one, is worth it.
_LONG = 10.0
# Parts of the time limit for whole batches (each of three searches), level 2 and level 3.
_WHOLE, _DIVIDE, _TIME = 0.05, 0.5, 0.2
# Part of the time limit for the bound, at most so many seconds of it, and what is left unplanned.
_BOUND, _MOST_BOUND, _SPARE = 0.16, 8.4, 0.1
_LADDER = 0.5
# Decoded items for each task and device after which a longer search gains next to nothing.
_MOST_ITEMS = 10_000_000
# First temperatures of levels 2 and 3, in parts of the value.
_HEAT, _COLD = 0.001, 0.0005
_FINALISTS = 2
# What level 3 leaves to level 2 of its time where copies are delays, as level 2 reckons them.
_LENT = 0.8


@dataclass(frozen=True)
class _Round:
    """A round of level 2: its part of the work, how many it leaves, whether these may widen."""

    part: float
    left: int
    widens: bool = False


_ROUNDS = (_Round(0.2, 3), _Round(0.2, 1, widens=True), _Round(0.6, 1))


@dataclass(frozen=True)
class _BatchEffort:
    """Items that one run of level 2 may decode, its first temperature, its wall seconds."""

    work: int
    heat: float
    patience: float


@dataclass(frozen=True)
class _BatchCandidate:
    """A division as parts, inside the library, with its times under all rules."""

    streams: Streams
    search: NativeSearch
    placement: Sequence[int]
    order: Sequence[int]
    rank: tuple[float, float]


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by dividing the batch (latency, energy, cost; one element is a batch too).

    Raises
    ------
    InfeasibleError
        If nothing is found that keeps the limits.
    SolverError
        If the objective is throughput, or the search library is missing.
    """
    if problem.objective.kind == "throughput":
        raise SolverError(
            "solver batches divides a batch that is there at time 0, but the objective is "
            "throughput; use solver throughput"
        )
    deadline = now() + (1 - _SPARE) * options.wall_limit
    best, reason = _best_whole(problem, options)
    bound = _bound(problem, min(_BOUND * options.time_limit, _MOST_BOUND), deadline, options)
    if best is not None and now() > deadline:
        return replace(best, lower_bound=max(bound, best.lower_bound))
    try:
        search = StreamSearch(Instance(problem))
    except SolverError:
        if best is None:
            raise
        return replace(best, lower_bound=max(bound, best.lower_bound))
    if best is not None and now() > deadline:
        return replace(best, lower_bound=max(bound, best.lower_bound))
    _, seconds = _level_times(search.instance, options)
    for candidate in _thinned(search, best, options, deadline):
        found = _timed(problem, candidate, seconds, options, deadline)
        if found is not None and (best is None or found.value < best.value):
            best = found
        if best is not None and now() > deadline:
            break
    if best is None:
        raise reason or SolverError(f"solver batches found no schedule of {problem.name!r}")
    return replace(best, lower_bound=max(bound, best.lower_bound))


def _bound(problem: Problem, seconds: float, deadline: float, options: Options) -> float:
    """What no division beats, with more work than `run_solver` spends on it."""
    from tvm_hetero.bounds import bound_ladder
    from tvm_hetero.bounds.latency.batch import batch_bound

    alone = problem.objective.kind == "latency" and problem.batch > 1
    # What the program of a batch takes is spent once, below.
    late = partial(time_is_up, options.ends)
    rungs = bound_ladder(problem, min(seconds, _LADDER) if alone else seconds, late=late)
    bound = max(rung.value for rung in rungs)
    if problem.objective.kind == "latency" and now() < deadline:
        until = min(deadline, now() + seconds)
        bound = max(bound, batch_bound(Instance(problem), seconds, until))
    return bound


def _best_whole(problem: Problem, options: Options) -> tuple[Schedule | None, HeteroError | None]:
    """The best of what whole batches (and the start) give; why there is none."""
    found = [] if options.start is None else [options.start]
    reason: HeteroError | None = None
    others = [best_single.solve, heft.solve, annealing.solve]
    if len(problem.tasks) <= _FEW_TASKS and options.time_limit >= _LONG:
        from tvm_hetero.solvers.milp_split import solver as split

        others.append(split.solve)
    for other in others:
        share = replace(options, time_limit=_WHOLE * options.time_limit, start=_least(found))
        try:
            found.append(other(problem, share))
        except HeteroError as error:
            reason = error
    return _least(found), reason


def _least(found: Iterable[Schedule]) -> Schedule | None:
    return min(found, key=lambda schedule: schedule.value, default=None)


def _level_times(instance: Instance, options: Options) -> tuple[float, float]:
    """Seconds that levels 2 and 3 may plan with."""
    lent = 0.0 if instance.contended else _LENT * _TIME
    return (_DIVIDE + lent) * options.time_limit, (_TIME - lent) * options.time_limit


def _thinned(
    search: StreamSearch, whole: Schedule | None, options: Options, deadline: float
) -> list[_BatchCandidate]:
    """The divisions that are left when the menu has been thinned, the best first."""
    field = menu(search, whole)
    most = _MOST_ITEMS * len(search) * len(search.instance.names)
    dividing, timing = _level_times(search.instance, options)
    work = min(dividing * _ITEMS_PER_SECOND * min(1.0, _TASKS / len(search)), most)
    until = deadline - timing
    # Annealing by delays may leave a start behind that is better by all rules: shares of whole
    # networks, which copy nothing, where copies keep devices busy.
    ranked = _valid(search, field, until)
    for r, turn in enumerate(_ROUNDS):
        # Where runs queue for cores, each gets its part of what is left on the clock for a round.
        left = until - now()
        if left <= 0 and ranked:
            break
        left *= turn.part / sum(later.part for later in _ROUNDS[r:])
        patience = max(0.0, left) * min(1.0, options.workers / len(field))
        effort = _BatchEffort(max(1, int(work * turn.part / len(field))), _HEAT, patience)
        seeds = [options.seed * 1000 + 100 * r + i for i in range(len(field))]
        jobs = [
            partial(_annealed, search, start, effort, seed, until if ranked else math.inf)
            for start, seed in zip(field, seeds, strict=True)
        ]
        done = [one for one in _all(jobs, options.workers) if one is not None]
        ranked = sorted([*ranked, *done], key=lambda c: c.rank)
        ranked = ranked[: max(_FINALISTS, turn.left)]
        field = [candidate.streams for candidate in ranked[: turn.left]]
        if turn.widens:
            field = [widened(streams) for streams in field]
    return ranked[:_FINALISTS]


def _annealed(
    search: StreamSearch, start: Streams, effort: _BatchEffort, seed: int, until: float
) -> _BatchCandidate | None:
    """What level 2 makes of a start; nothing after `until`: beginning alone takes its time."""
    if now() > until:
        return None
    found = search.anneal(
        start, work=effort.work, seed=seed, heat=effort.heat, deadline=effort.patience
    )
    return _judged(search, found)


def _valid(search: StreamSearch, starts: Sequence[Streams], until: float) -> list[_BatchCandidate]:
    """Those starts that are divisions already; others tear a group of one colour apart."""
    found: list[_BatchCandidate] = []
    for start in starts:
        if found and now() > until:
            break
        with contextlib.suppress(SolverError):
            found.append(_judged(search, start))
    return found


def _judged(search: StreamSearch, streams: Streams) -> _BatchCandidate:
    """A division and its times under all rules."""
    instance, placement, order = search.divided(streams)
    native = NativeSearch(instance)
    decoded = native.decode(placement, order)
    return _BatchCandidate(streams, native, placement, order, (decoded.excess, decoded.value))


def _all(jobs: Sequence[Callable[[], T]], workers: int) -> list[T]:
    """The results of all jobs, in their order."""
    if workers == 1 or len(jobs) == 1:
        return [job() for job in jobs]
    with ThreadPoolExecutor(min(workers, len(jobs))) as pool:
        return list(pool.map(lambda job: job(), jobs))


def _timed(
    problem: Problem, candidate: _BatchCandidate, seconds: float, options: Options, deadline: float
) -> Schedule | None:
    """A division with the best devices and order that annealing finds; None if it breaks limits.

    `seconds` are those of all finalists that stand for work.
    """
    search = candidate.search
    work = seconds * annealing.STEPS_PER_SECOND / _FINALISTS
    found = search.anneal(
        candidate.placement,
        candidate.order,
        work=max(1, int(work)),
        seed=options.seed,
        heat=_COLD,
        deadline=max(0.01, deadline - now()),
    )
    return _schedule(problem, search, found, options)


def _schedule(
    problem: Problem, search: NativeSearch, found: NativeAnswer, options: Options
) -> Schedule | None:
    if not found.feasible:
        return None
    executions, copies = exact_schedule(search, found)
    if not within_limit(problem, executions):
        return None
    return make_schedule(problem, "batches", executions, copies, seed=options.seed)
