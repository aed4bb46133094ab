"""Simulated annealing over devices and priorities, with a list decoder, in C++.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by Simulated Annealing, Science 220(4598),
1983, doi:10.1126/science.220.4598.671; for task graphs on heterogeneous machines it is one of the
eleven heuristics that T. Braun et al. compare (JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714).

The state is the device of every part and the order in which parts and copies are decided; the
value is that of the list schedule which this order gives (src/search/annealer.h, moves.h,
fast_decoder.h, general_decoder.h). For throughput it is the devices alone (loads.h).

Start: the best of HEFT, the best single device and `Options.start`; batches stay divided as they
are there. Then several runs with seeds of their own, side by side on `Options.workers` cores, and
one that goes on, colder, from the best of them. For throughput, where the way from few devices to
many is steep, the runs begin at different ones of the starts. How long they last is counted in
steps of the search, so the same seed gives the same schedule; the clock only stops what a slow
machine drags out. Annealing proves nothing: the bound beside its answer is someone else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tvm_hetero.errors import HeteroError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.lists import best_single, heft
from tvm_hetero.solvers.native.library import NativeAnswer, NativeSearch
from tvm_hetero.solvers.native.start import divided_as, exact_schedule, start_of
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance

RUNS = 3
# Steps of the search that take a second on a slow machine. Ours makes 110 to 220 million for a
# sequence, 40 to 70 million for loads.
STEPS_PER_SECOND = 50e6
LOAD_STEPS_PER_SECOND = 25e6
# Of these, what is made where copies keep devices busy or memory is looked at.
_BUSY = 0.5
# Part of the work that goes into the last, cold run, and the heat that it begins with.
_POLISH = 0.25
_COLD = 0.002
# Steps for each item of the sequence after which a longer search gains next to nothing.
_MOST_STEPS = 20_000_000


@dataclass(frozen=True)
class AnnealingEffort:
    """Work of all runs together, wall seconds that are left, seed and cores."""

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
    began = options.clock()
    starts = _starts(problem, options)
    instance = divided_as(problem, starts[0])
    search = NativeSearch(instance)
    placement, sequence = start_of(instance, starts[0])
    throughput = problem.objective.kind == "throughput"
    work = min(options.time_limit * steps_per_second(instance), _MOST_STEPS * search.items)
    left = options.until(began) - options.clock()
    effort = AnnealingEffort(int(work), max(0.01, left), options.seed, options.workers)
    others = _other_places(instance, starts[1:]) if throughput else []
    found = improve(search, placement, sequence, effort, others)
    answer = schedule_of(search, found, options)
    return answer if answer is not None and answer.value < starts[0].value else starts[0]


def steps_per_second(instance: Instance) -> float:
    """Steps that stand for a second of a time limit."""
    if instance.problem.objective.kind == "throughput":
        return LOAD_STEPS_PER_SECOND
    busy = instance.contended or any(instance.memory_binds)
    return STEPS_PER_SECOND * (_BUSY if busy else 1.0)


def _starts(problem: Problem, options: Options) -> list[Schedule]:
    """What is quickly found, the best first."""
    found = [options.start] if options.start is not None else []
    reasons: list[HeteroError] = []
    for other in (heft.solve, best_single.solve):
        try:
            found.append(other(problem, options))
        except HeteroError as error:
            reasons.append(error)
    if not found:
        raise reasons[0]
    return sorted(found, key=lambda schedule: schedule.value)


def _other_places(instance: Instance, starts: Sequence[Schedule]) -> list[Sequence[int]]:
    """The placements of the starts that divide the batch as `instance` does."""
    wanted = set(zip(instance.tasks, instance.elements, strict=True))
    return [
        start_of(instance, start)[0]
        for start in starts
        if {(e.task, e.elements) for e in start.executions} == wanted
    ]


def improve(
    search: NativeSearch,
    placement: Sequence[int],
    sequence: Sequence[int],
    effort: AnnealingEffort,
    others: Sequence[Sequence[int]] = (),
) -> NativeAnswer:
    """Several runs, then a cold one from the best of them.

    `others` are placements at which some of the runs for throughput begin.
    """
    kind = search.instance.problem.objective.kind
    places = [placement, *others] if kind == "throughput" else [placement]
    ends = now() + effort.deadline

    def run(
        i: int, start: Sequence[int], order: Sequence[int], work: float, heat: float
    ) -> NativeAnswer:
        seed, steps = effort.seed * (RUNS + 1) + i, max(1, int(work))
        left = max(0.01, ends - now())
        if kind == "throughput":
            return search.anneal_loads(start, work=steps, seed=seed, heat=heat, deadline=left)
        return search.anneal(start, order, work=steps, seed=seed, heat=heat, deadline=left)

    share = effort.work * (1 - _POLISH) / RUNS
    # Threads are enough: the library runs without Python's lock.
    with ThreadPoolExecutor(min(effort.workers, RUNS)) as pool:
        runs = [
            pool.submit(run, i, places[i % len(places)], sequence, share, 0.0) for i in range(RUNS)
        ]
        best = min((future.result() for future in runs), key=_rank)
    order = best.sequence or sequence
    return min(best, run(RUNS, best.placement, order, effort.work * _POLISH, _COLD), key=_rank)


def _rank(found: NativeAnswer) -> tuple[float, float]:
    return (found.excess, found.value)


def schedule_of(search: NativeSearch, found: NativeAnswer, options: Options) -> Schedule | None:
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
