"""Placements for throughput by the C++ annealer, from one start or some times from cut shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.load_balancing import improve
from tvm_hetero.solvers.timing.device_loads import Loads, exact_value
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance

# Steps of the annealer (some 20 ns on a shared core) per second of the time limit, for each
# start; fewer where it only has to mend. More than the most were not seen to help.
_STEPS, _MENDING_STEPS = 8_000_000, 1_000_000
_MOST_STEPS = 600_000_000
_SHORT = 0.2
# Steps a second of the time limit for runs from cut shares where nothing comes after them, steps
# of a run, how many runs, and their temperatures in parts of the bound: of six runs on 2,000
# tasks and three serial devices values were 0.5 to 1.7 % above the bound, and the best
# temperature was another for each platform; more steps a run than 200 million gained nothing.
_CUT_STEPS, _RUN, _MOST_RUN, _MOST_RUNS = 20_000_000, 100_000_000, 200_000_000, 6
_CUT_HEATS = (1e-3, 3e-4, 7e-3)
# First temperatures in parts of the bound: found by trying, on layered graphs of 2,000 tasks on 3
# and 8 devices without copy engines, and on zoo problems.
_WARM, _COLD = 7e-3, 1e-4
# Places (part, device) up to which CP-SAT gets a share of the time.
MOST_PLACES = 3_000
# Parts up to which single moves in Python take a few seconds.
_MOST_MOVED = 5_000


def annealed_cut(
    instance: Instance, cut: Sequence[int], bound: float, options: Options, seconds: float
) -> list[int] | None:
    """The best of some runs of the C++ annealer, each with a temperature and a seed of its own."""
    from tvm_hetero.solvers.native.library import NativeSearch

    searched = places(instance) <= MOST_PLACES
    steps = options.time_limit * (_STEPS if searched else _CUT_STEPS)
    runs = max(1, min(_MOST_RUNS, int(steps / _RUN)))
    until = now() + seconds
    first = exact_value(instance, cut)
    best, least = list(cut), first
    try:
        search = NativeSearch(instance)
    except SolverError:
        return anneal_loads(instance, cut, bound, options, seconds)
    for i in range(runs):
        left = until - now()
        if left <= 0 or options.within_gap(least, bound):
            break
        run = search.anneal_loads(
            cut,
            work=max(1, int(min(steps / runs, _MOST_RUN))),
            seed=options.seed + i // len(_CUT_HEATS),
            heat=_CUT_HEATS[i % len(_CUT_HEATS)] * bound / first,
            deadline=max(0.01, left / (runs - i)),
        )
        value = exact_value(instance, run.placement) if run.feasible else math.inf
        if value < least:
            best, least = list(run.placement), value
    return best


def anneal_loads(
    instance: Instance, plan: Sequence[int], bound: float, options: Options, seconds: float
) -> list[int] | None:
    """A placement by the C++ annealer; by single moves where the library is missing."""
    from tvm_hetero.solvers.native.library import NativeSearch

    rate = _STEPS if instance.contended else _MENDING_STEPS
    steps = min(_MOST_STEPS, options.time_limit * rate)
    began, found = now(), None
    try:
        search = NativeSearch(instance)
        # A short run first: what the clock cuts off in its heat is worth little.
        for part, warmth in ((_SHORT, 1.0), (1 - _SHORT, 0.5)):
            run = search.anneal_loads(
                plan,
                work=max(1, int(part * steps)),
                seed=options.seed,
                heat=warmth * _heat(instance, plan, bound),
                deadline=max(0.01, seconds - (now() - began)),
            )
            if run.feasible:
                plan = found = list(run.placement)
        return found
    except SolverError:
        if len(instance) > _MOST_MOVED:
            return None
    loads = Loads(instance)
    for group in instance.groups:
        loads.move(group, plan[group[0]])
    improve(loads)
    return loads.placement()


def _heat(instance: Instance, plan: Sequence[int], bound: float) -> float:
    """First temperature in parts of the plan's value; 0 (the annealer's own) where none is known.

    Plans of shares that nothing stands in the way of are nearly optimal: only mended, in the cold.
    """
    value = exact_value(instance, plan)
    if value == math.inf or bound <= 0:
        return 0.0
    return (_WARM if instance.contended else _COLD) * bound / value


def places(instance: Instance) -> int:
    """Pairs of a group and a device that may run it."""
    return sum(len(instance.devices[group[0]]) for group in instance.groups)
