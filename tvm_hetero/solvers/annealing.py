"""Simulated annealing over devices and priorities, with a list decoder, in C++.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by Simulated Annealing, Science 220(4598),
1983, doi:10.1126/science.220.4598.671; for task graphs on unlike machines it is one of the eleven
heuristics that T. Braun et al. compare (JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714).

The state is the device of every part and the order in which parts and copies are decided; the
value is that of the list schedule which this order gives (src/search/annealer.h, moves.h,
fast_decoder.h, general_decoder.h). For throughput it is the devices alone (loads.h).

Start: the best of HEFT, the best single device and `Options.start`; batches stay divided as they
are there. Then several runs with seeds of their own, side by side on `Options.workers` cores, and
one that goes on, colder, from the best of them. How long they last is counted in steps of the
search, so the same seed gives the same schedule; the clock only stops what a slow machine drags
out. Annealing proves nothing: the bound beside its answer is somebody else's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tvm_hetero.errors import HeteroError, InfeasibleError
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers import heft, single
from tvm_hetero.solvers.native import Found, NativeSearch
from tvm_hetero.solvers.native_start import divided_as, exact_schedule, start_of
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.period import write_period

RUNS = 3
# Steps of the search that take a second on a slow machine; ours make 110 to 220 million.
STEPS_PER_SECOND = 50e6
# Part of the work that goes into the last, cold run.
_POLISH = 0.25
# Steps for each item of the sequence after which a longer search gains next to nothing.
_MOST_STEPS = 20_000_000
_COLD = 0.002


@dataclass(frozen=True)
class Effort:
    """Work of all runs together, and the wall seconds that are left."""

    work: int
    deadline: float
    seed: int
    workers: int


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by simulated annealing.

    Raises
    ------
    InfeasibleError
        If no heuristic finds a place to start from.
    SolverError
        If the search library is missing.
    """
    began = time.monotonic()
    start = _start(problem, options)
    instance = divided_as(problem, start)
    search = NativeSearch(instance)
    placement, sequence = start_of(instance, start)
    work = min(options.time_limit * STEPS_PER_SECOND, _MOST_STEPS * search.items)
    left = options.time_limit - (time.monotonic() - began)
    effort = Effort(int(work), max(0.01, left), options.seed, options.workers)
    found = improve(search, placement, sequence, effort)
    answer = schedule_of(search, found, options)
    return answer if answer is not None and answer.value < start.value else start


def _start(problem: Problem, options: Options) -> Schedule:
    """The best of what is quickly found."""
    found = [options.start] if options.start is not None else []
    reasons: list[HeteroError] = []
    for other in (heft.solve, single.solve):
        try:
            found.append(other(problem, options))
        except InfeasibleError as error:
            reasons.append(error)
    if not found:
        raise reasons[0]
    return min(found, key=lambda schedule: schedule.value)


def improve(
    search: NativeSearch, placement: Sequence[int], sequence: Sequence[int], effort: Effort
) -> Found:
    """Several runs from one start, then a cold one from the best of them."""
    throughput = search.instance.problem.objective.kind == "throughput"
    began = time.monotonic()

    def run(start: Found | None, seed: int, work: float, heat: float) -> Found:
        places = placement if start is None else start.placement
        left = max(0.01, effort.deadline - (time.monotonic() - began))
        if throughput:
            return search.anneal_loads(
                places, work=max(1, int(work)), seed=seed, heat=heat, deadline=left
            )
        order = sequence if start is None else start.sequence
        return search.anneal(
            places, order, work=max(1, int(work)), seed=seed, heat=heat, deadline=left
        )

    share = effort.work * (1 - _POLISH) / RUNS
    seeds = [effort.seed * (RUNS + 1) + i for i in range(RUNS)]
    runs = [_task(run, None, seed, share, 0.0) for seed in seeds]
    # Threads are enough: the library runs without Python's lock.
    with ThreadPoolExecutor(min(effort.workers, RUNS)) as pool:
        results = [future.result() for future in [pool.submit(task) for task in runs]]
    best = min(results, key=_rank)
    return min(best, run(best, seeds[-1] + 1, effort.work * _POLISH, _COLD), key=_rank)


def _rank(found: Found) -> tuple[float, float]:
    return (found.excess, found.value)


def _task(
    run: Callable[[Found | None, int, float, float], Found],
    start: Found | None, seed: int, work: float, heat: float,
) -> Callable[[], Found]:  # fmt: skip
    return lambda: run(start, seed, work, heat)


def schedule_of(search: NativeSearch, found: Found, options: Options) -> Schedule | None:
    """What was found, exactly timed; None if it breaks a limit."""
    if not found.feasible:
        return None
    problem = search.instance.problem
    executions: Sequence[Execution]
    copies: Sequence[Copy]
    if problem.objective.kind == "throughput":
        executions, copies = write_period(search.instance, found.placement)
    else:
        executions, copies = exact_schedule(search, found)
    return make_schedule(problem, "annealing", executions, copies, seed=options.seed)
