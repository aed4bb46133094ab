"""Energy and cost: what is spent on busy and idle devices while a batch is worked on.

Let D be the devices that run anything in some schedule, T its makespan, W(d) the busy time of d,
w its watts, i its idle watts (or w, where that is less: then idling cannot be worse than it is
counted), p its price a second. The schedule spends at least

    energy   sum over d in D of (w - i) W(d)  +  sum over d in D of i  x  T       J
    cost     sum over d in D of p  x  T                                            money

*By sets.* With few devices every set D is looked at: T is no less than the latency of the problem
in which only D runs anything (the ladder), and the least of all sets is the bound; sets that
cannot keep the latency limit drop out. For energy, W and T are those of the precedence program
of D with makespans up to the limit (`precedence`), whose T costs sum of i a second and whose
work on d costs w - i; or every task is where (w - i) x rate is least             -> `by_sets`

*By tasks.* With many devices: energy is at least w x rate of every group on its cheapest device,
cost p x rate likewise, or that of the cheapest device for as long as the latency    -> `by_tasks`
This holds for devices that share cores, too: each core pays the largest share of those in use.

*Energies of tasks.* An execution of n elements whose task says its own energy e(n) on d draws that
instead of w c(n). Then the least of e(n) - i c(n) for an element (at least 0: the format sees to
that) stands for (w - i) x rate, and the least of e(n) for w x rate; the program of D is left out.
                                                                             -> `joules_above`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations

import numpy as np

from tvm_hetero.bounds.core.linear import ROUNDING
from tvm_hetero.bounds.core.time_is_up import Late, TimeIsUp, check_late, never
from tvm_hetero.bounds.ladder import climb
from tvm_hetero.bounds.latency.critical_path import limit_of
from tvm_hetero.bounds.latency.loads import group_rates, sum_groups
from tvm_hetero.bounds.latency.precedence import PrecedenceModel, work_of
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.problem.cost import Cost
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.arrays import Figures

# Devices up to which all their sets are looked at.
_MOST_DEVICES = 5

Latency = Callable[[Figures], float]


def spending(figures: Figures, work: int, late: Late = never) -> float:
    """A lower bound of the energy (J) or cost of a batch; when `late`, that by tasks alone."""
    used = np.flatnonzero(np.isfinite(figures.rate).any(axis=0)).tolist()

    def latency(own: Figures) -> float:
        share = work // 2 ** len(used) if len(used) <= _MOST_DEVICES else work
        rungs = climb(own, share, late=late)
        return max(rung.value for rung in rungs)

    # Of sets of teams prices are no sums. By tasks they are: a core's share is paid all the time.
    if len(used) > _MOST_DEVICES or figures.instance.teams:
        return by_tasks(figures, latency) * ROUNDING
    best = by_tasks(figures, None)
    with suppress(TimeIsUp):
        best = max(best, by_sets(figures, used, latency, work, late))
    return best * ROUNDING


def by_tasks(figures: Figures, latency: Latency | None) -> float:
    """Every group on its cheapest device; for cost also the cheapest device all the time."""
    busy, idle = _rates(figures)
    energy = figures.instance.problem.objective.kind == "energy"
    spent = _least_of_groups(figures, busy, idle, np.zeros_like(idle))
    if energy or latency is None:
        return spent
    used = np.isfinite(figures.rate).any(axis=0)
    return max(spent, float(idle[used].min()) * latency(figures))


def by_sets(
    figures: Figures, used: Sequence[int], latency: Latency, work: int, late: Late = never
) -> float:
    """The least over all sets of devices; 0 if none seems to keep the limit.

    Raises
    ------
    TimeIsUp
        If it is `late` before all sets have been looked at.
    """
    busy, idle = _rates(figures)
    limit = figures.instance.problem.objective.latency_limit or math.inf
    own_energies = figures.instance.problem.has_energies
    best = math.inf
    for own, devices in _sets(figures, used):
        check_late(late)
        time = latency(own)
        if time > limit:
            continue
        spent = _least_of_groups(own, busy, idle, idle) + float(idle[devices].sum()) * time
        if (
            spent < best
            and busy.any()
            and not own_energies
            and _affordable(own, work // 2 ** len(used))
        ):
            spent = max(spent, _program(own, devices, limit))
        best = min(best, spent)
    return best if best < math.inf else 0.0


def _affordable(figures: Figures, work: int) -> bool:
    return work_of(figures, len(figures), len(figures.src)) <= work


def _sets(figures: Figures, used: Sequence[int]) -> Iterator[tuple[Figures, list[int]]]:
    """All sets of devices that can run everything, and the figures with them alone."""
    for size in range(1, len(used) + 1):
        for devices in combinations(used, size):
            rest = [d for d in range(figures.rate.shape[1]) if d not in devices]
            own = figures.without(rest)
            if own.feasible and np.isfinite(group_rates(own)).any(axis=1).all():
                yield own, list(devices)


def _program(figures: Figures, devices: Sequence[int], limit: float) -> float:
    """The precedence program with energy as its cost, J."""
    busy, idle = _rates(figures)
    part = Subgraph.whole(figures)
    least = float((part.head + part.tail).min(axis=1).max())
    if not 0 < least < math.inf:
        return 0.0
    total = float(idle[list(devices)].sum())
    assumed = min(limit, limit_of(figures, least))
    model = PrecedenceModel(part, assumed, least).build()
    if model.makespan < 0:
        return 0.0
    model.charge(total, busy)
    value = max(0.0, model.program.solve().bound * model.scale)
    if assumed == limit:
        return value
    # What takes longer than was assumed spends at least this.
    return min(value, _cheapest(group_rates(figures), busy) + total * assumed)


def _rates(figures: Figures) -> tuple[FloatArray, FloatArray]:
    """What each device spends a second: busy beyond idle, and idle (price: all the time)."""
    problem = figures.instance.problem
    devices = problem.platform.devices
    if problem.objective.kind == "cost":
        price = np.array([(device.price or 0.0) / 3600 for device in devices])
        return np.zeros(len(devices)), price
    watts = np.array([device.watts or 0.0 for device in devices])
    idle = np.minimum(watts, [device.idle_watts for device in devices])
    return watts - idle, idle


def _least_of_groups(
    figures: Figures, busy: FloatArray, idle: FloatArray, off: FloatArray
) -> float:
    """Every group where it spends least, without the watts `off`, which are counted otherwise."""
    problem = figures.instance.problem
    if problem.objective.kind != "energy" or not problem.has_energies:
        return _cheapest(group_rates(figures), busy + idle - off)
    each = joules_above(figures, busy + idle, off)
    return _cheapest(sum_groups(figures, each), np.ones_like(idle))


def joules_above(figures: Figures, watts: FloatArray, off: FloatArray) -> FloatArray:
    """(tasks, devices): the least that all elements of a task draw above `off` watts, J."""
    instance, able = figures.instance, np.isfinite(figures.rate)
    found = np.where(able, np.where(able, figures.rate, 0.0) * (watts - off), math.inf)
    for i, v in enumerate(figures.tasks):
        row = instance.problem.costs[instance.tasks[v]]
        for d, name in enumerate(instance.names):
            cost = row.get(name)
            if cost is not None and cost.energy and able[i, d]:
                found[i, d] = _least_of_sizes(cost, len(instance.elements[v]), figures, off[d])
    return found


def _least_of_sizes(cost: Cost, elements: int, figures: Figures, off: float) -> float:
    """Of a part of so many elements; `figures.batch` 1 says that it is not divided any more."""
    points = (*cost.points, *cost.energy)
    sizes = sorted({1, elements, *(n for n, _ in points if n < elements)})
    if figures.batch == 1:
        sizes = [elements]
    least = min((cost.joules(n, None) - off * cost.seconds(n)) / n for n in sizes)
    return max(0.0, elements * least)


def _cheapest(rates: FloatArray, price: FloatArray) -> float:
    """Sum over the groups of the least price x rate."""
    finite = np.isfinite(rates)
    costs = np.where(finite, np.where(finite, rates, 0.0) * price, math.inf)
    return math.fsum(costs.min(axis=1).tolist())
