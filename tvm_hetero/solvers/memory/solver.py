"""Where memory binds: placements by the price of memory, then annealing from them.

Annealing pays for what it moves one part at a time; where memory is short, a better placement is
many moves away, each of which overflows some device. So (latency, one element)

    start     the best of `Options.start`, list schedules, annealing, and for many devices
              `counting.solver`; where none fits, annealing from placements that do not fit yet
                                                                                    -> `_start`
    ways      the modules' placements are chosen together, by prices of memory and labels of what
              is taken, for all chains that may be better than the start
                                                         (`bounds.memory.prices_and_labels`)
    schedules each way is annealed a little with memory as it really is (copies, waiting), the best
              one for longer                                                       -> `_follow`

and the bound that the ways came with is the answer's, for it holds for the problem. Both are
repeated once with the better start. Other objectives, divided batches and modules that are too
large for this have the start and annealing alone. Throughput goes to `throughput`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_hetero.bounds.memory.prices_and_labels import (
    WORK_A_SECOND,
    MemoryBoundSearch,
    MemoryChain,
    memory_chain,
)
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.counting import solver as count_dp
from tvm_hetero.solvers.lists import best_single, greedy, heft
from tvm_hetero.solvers.lists.ranks import rank_order
from tvm_hetero.solvers.memory.spread_weights import roomiest, shortage
from tvm_hetero.solvers.native.library import NativeAnswer, NativeSearch
from tvm_hetero.solvers.native.start import divided_as, start_of
from tvm_hetero.solvers.search.annealing import AnnealingEffort, improve, schedule_of
from tvm_hetero.solvers.throughput import solver as throughput
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance, instance_of

NAME = "memory"
# Steps of annealing, and work of the bounds, for each second of the limit and stage.
_STEPS = 20e6
_WORK = 0.24 * WORK_A_SECOND
# Of a stage's steps, what following all ways together may take; the rest polishes the best.
_FOLLOW = 0.5
_COLD = 0.02
# Devices with short memories above which they are counted by type first.
_MANY = 4
# Of the time limit; what the bounds of `run_solver` take comes after it.
_NET = 0.9
_MOST_STEPS = 10_000_000


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve with an eye on memory.

    Raises
    ------
    InfeasibleError
        If it is proven that no placement fits (latency, energy and cost, one element).
    SolverError
        If no plan was found that fits; says which device lacks how much at the best one.
    """
    if problem.objective.kind == "throughput":
        return replace(throughput.solve(problem, options), solver=NAME)
    run = _MemoryRun(problem, options)
    best = _start(run)
    bound = 0.0
    for _ in range(2):
        best = run.annealed(best, 1.0)
        chain = _chain(run, best)
        if chain is None or run.late():
            break
        search = MemoryBoundSearch(chain, best.value, int(_WORK * options.time_limit), run.deadline)
        bound = max(bound, search.run())
        if best.value - bound <= OPTIMAL_GAP * best.value:
            break
        best = _follow(run, chain, search, best)
    bound = min(bound, best.value)
    return replace(best, solver=NAME, lower_bound=bound, seed=options.seed)


@dataclass
class _MemoryRun:
    """A call: what is to be solved, how long it may still take, and what annealing makes of it."""

    problem: Problem
    options: Options

    def __post_init__(self) -> None:
        self.instance = instance_of(self.problem)
        self.deadline = now() + _NET * self.options.wall_limit
        self._seed = self.options.seed * 64

    def late(self) -> bool:
        """Whether the wall clock's net has caught it."""
        return now() > self.deadline

    def effort(self, search: NativeSearch, share: float) -> AnnealingEffort:
        """Steps for a share of a stage, with a seed of their own."""
        self._seed += 1
        steps = min(self.options.time_limit * _STEPS, _MOST_STEPS * search.items)
        left = max(0.01, self.deadline - now())
        return AnnealingEffort(max(1, int(share * steps)), left, self._seed, self.options.workers)

    def annealed(self, start: Schedule, share: float) -> Schedule:
        """The better of a schedule and what annealing makes of it."""
        search = NativeSearch(divided_as(self.problem, start))
        placement, sequence = start_of(search.instance, start)
        found = improve(search, placement, sequence, self.effort(search, share))
        return min(start, self.schedule(search, found) or start, key=lambda one: one.value)

    def schedule(self, search: NativeSearch, found: NativeAnswer) -> Schedule | None:
        """What was found, exactly timed; None if it breaks a limit then."""
        answer = schedule_of(search, found, self.options)
        if answer is None:
            return None
        peaks = memory_peaks(self.problem, answer.executions, answer.copies)
        devices = self.problem.platform.devices
        fits = all(d.memory is None or peaks[d.name] <= d.memory for d in devices)
        return answer if fits else None


def _start(run: _MemoryRun) -> Schedule:
    """The best that is quickly found; else what annealing finds where nothing fits."""
    if run.options.start is not None:
        return run.options.start
    found: list[Schedule] = []
    others = [heft.solve, greedy.solve, best_single.solve]
    if run.problem.objective.kind == "latency" and sum(run.instance.memory_binds) > _MANY:
        others.append(count_dp.solve)
    for other in others:
        try:
            found.append(other(run.problem, run.options))
        except HeteroError:
            continue
    if found:
        return min(found, key=lambda one: one.value)
    ways, hopeless = _ways_of_any_length(run)
    search = NativeSearch(run.instance)
    best: NativeAnswer | None = None
    for placement in [*ways, roomiest(run.instance)]:
        tried = improve(search, placement, rank_order(run.instance), run.effort(search, 1.0))
        answer = run.schedule(search, tried)
        if answer is not None:
            return answer
        if best is None or (tried.excess, tried.value) < (best.excess, best.value):
            best = tried
        if run.late() or hopeless:
            break
    assert best is not None, "there is always a placement to begin from"
    lack = shortage(search, best)
    if hopeless:
        raise InfeasibleError(
            f"no placement fits, whatever the order (proven): {lack}",
            proven=run.problem.batch == 1,
        )
    raise SolverError(f"memory found no plan that fits: {lack}")


def _ways_of_any_length(run: _MemoryRun) -> tuple[list[list[int]], bool]:
    """Placements that fit as far as the chain knows, and whether it is proven that none does."""
    upper = 2 * _longest(run.instance)
    if run.problem.objective.kind == "throughput" or not 0 < upper < math.inf:
        return [], False
    chain = memory_chain(run.instance, upper)
    if chain is None:
        return [], False
    search = MemoryBoundSearch(chain, upper, int(_WORK * run.options.time_limit), run.deadline)
    search.run()
    return [chain.placement(way) for way in search.ways[:2]], search.closed


def _longest(instance: Instance) -> float:
    """What no chain of the modules exceeds: everything one after the other at its slowest, s."""
    seconds = [max(s for s in row if s < math.inf) for row in instance.seconds]
    used = sorted({d for row in instance.devices for d in row})
    for flow in instance.tensors:
        times = [instance.copy_seconds(j, k, flow.nbytes) for j in used for k in used if j != k]
        slowest = max((s for s in times if s < math.inf), default=0.0)
        seconds += [slowest] * len(flow.readers)
    return math.fsum(seconds)


def _chain(run: _MemoryRun, best: Schedule) -> MemoryChain | None:
    if run.problem.objective.kind != "latency" or not best.value > 0:
        return None
    return memory_chain(run.instance, best.value)


def _follow(
    run: _MemoryRun, chain: MemoryChain, search: MemoryBoundSearch, best: Schedule
) -> Schedule:
    """The better of `best` and the schedules along the ways below it."""
    native = NativeSearch(run.instance)
    ways = [way for way in search.ways if way.seconds < best.value]
    order = rank_order(run.instance)
    for way in ways:
        if run.late():
            break
        effort = run.effort(native, _FOLLOW / len(ways))
        found = native.anneal(
            chain.placement(way),
            order,
            work=effort.work,
            seed=effort.seed,
            heat=_COLD,
            deadline=effort.deadline,
        )
        best = min(best, run.schedule(native, found) or best, key=lambda one: one.value)
    return best
