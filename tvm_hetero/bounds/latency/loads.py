"""Loads: no device can have more work than the time there is.

Let y(g, d) be the share of the batch for which group g (tasks of one color; mostly one task) runs
on d, in(t, d) and out(t, d) the shares of tensor t that arrive at and leave d. A device without a
copy engine is busy with all of them:

    minimise T  subject to                                                      -> `with_moves`
      sum over d of y(g, d)                     = 1
      in(t, d)  >= y(reader, d) - y(maker, d)       for every reader
      out(t, d) >= y(maker, d) - y(reader, d)       for every reader
      sum over v of rate(v, d) y(v, d) + sum over t of hop(t, d) (in + out) <= T    for every d

with hop(t, d) the least time of B elements over any link at d. T bounds the largest load, and
the makespan, which is no less.

Without copies the dual has one price p(d) for each device, of sum 1, and the value

    sum over g of min over d of p(d) rate(g, d)                                     ->
    `maximize_prices`

which is a bound for any prices. The best ones are found by cutting planes (J. E. Kelley, J. SIAM
8, 1960, doi:10.1137/0108053) with one walk over the tasks a step, so that 100,000 tasks take
a fraction of a second. Where the program with copies would be too big, this is the bound.

Teams. Where devices share cores, prices are those of cores, and a device has the sum of its cores':
equal prices make it the *work area*, for each task the least core-seconds, over the number of
cores. Copies are left out: between two teams they would count twice on a core of both.
"""

from __future__ import annotations

import math

import numpy as np

from tvm_hetero.bounds.core.linear import LinearProgram
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.arrays import Figures

# Copies (reader x device) above which the program leaves them out, to stay within a second.
_MOST_MOVES = 7_000
_PLANES = 60
_CLOSE = 1e-9


def load_of(figures: Figures) -> float:
    """The bound by loads, s."""
    if figures.instance.teams:
        return maximize_prices(group_rates(figures), cores_of(figures))
    best = maximize_prices(group_rates(figures.merged))
    hops = hops_of(figures)
    if hops and len(figures.src) * len(hops) <= _MOST_MOVES:
        best = max(best, with_moves(figures, hops))
    return best


def group_rates(figures: Figures) -> FloatArray:
    """(groups, devices): all elements of the tasks of a group, s; inf where not allowed."""
    return sum_groups(figures, figures.rate)


def sum_groups(figures: Figures, each: FloatArray) -> FloatArray:
    """(groups, devices): sums of a figure of tasks (topological order) over those of a group."""
    groups = np.array([figures.instance.group_of[v] for v in figures.tasks], dtype=np.int64)
    _, place = np.unique(groups, return_inverse=True)
    sums = np.zeros((int(place.max()) + 1, each.shape[1]))
    np.add.at(sums, place, each)
    return sums


def cores_of(figures: Figures) -> FloatArray | None:
    """(devices, resources): 1 where an execution on a device keeps a core busy; None: no teams."""
    instance = figures.instance
    if not instance.teams:
        return None
    found = np.zeros((len(instance.names), instance.resource_count))
    for d, row in enumerate(instance.cores):
        found[d, list(row)] = 1.0
    return found


def maximize_prices(rates: FloatArray, cores: FloatArray | None = None) -> float:
    """max over prices p >= 0 of sum 1: sum over groups of min over d of p(d) rates[g, d].

    With `cores` (see `cores_of`) p(d) is the sum of the prices of what d keeps busy.
    """
    from scipy.optimize import linprog

    k = rates.shape[1]
    used = np.flatnonzero(np.isfinite(rates).any(axis=0))
    rates = rates[:, used]
    finite = np.isfinite(rates)
    engaged = None if cores is None else _of_use(cores[used])
    count = len(used) if engaged is None else engaged.shape[1]
    price = np.full(count, 1.0 / count)
    planes: list[FloatArray] = []
    best = 0.0
    for _ in range(_PLANES if k > 1 else 1):
        mine = price if engaged is None else engaged @ price
        costs = np.where(finite, mine * np.where(finite, rates, 0.0), math.inf)
        choice = costs.argmin(axis=1)
        chosen = rates[np.arange(len(rates)), choice]
        best = max(best, math.fsum((mine[choice] * chosen).tolist()))
        counted = np.bincount(choice, weights=chosen, minlength=len(used))
        loads: FloatArray = np.asarray(counted, dtype=np.float64)
        planes.append(loads if engaged is None else loads @ engaged)
        scale = max(float(np.max(planes)), 1e-300)
        rows = np.column_stack([-np.array(planes) / scale, np.ones(len(planes))])
        result = linprog(
            np.append(np.zeros(count), -1.0),
            A_ub=rows,
            b_ub=np.zeros(len(planes)),
            A_eq=[[1.0] * count + [0.0]],
            b_eq=[1.0],
            method="highs",
        )
        if result.status != 0:
            break
        # Prices of a little less than 1 in sum keep the bound on the safe side of rounding.
        price = np.maximum(result.x[:-1], 0.0)
        price /= price.sum() * (1 + 1e-14)
        if -result.fun * scale <= best * (1 + _CLOSE):
            break
    return best


def _of_use(cores: FloatArray) -> FloatArray:
    """Without the columns of resources that no device of use keeps busy."""
    found: FloatArray = cores[:, cores.any(axis=0)]
    return found


def hops_of(figures: Figures) -> dict[int, FloatArray]:
    """For each device without a copy engine: the least time of each tensor over a link at it, s."""
    instance = figures.instance
    platform, names = instance.problem.platform, instance.names
    sizes = figures.nbytes * figures.batch
    found: dict[int, FloatArray] = {}
    for d, name in enumerate(names):
        if platform.devices[d].overlap:
            continue
        links = [platform.link(name, other) for other in names if other != name]
        links += [platform.link(other, name) for other in names if other != name]
        times = [link.latency + sizes / link.bandwidth for link in links if link is not None]
        if times:
            found[d] = np.minimum.reduce(times)
    return found


def with_moves(figures: Figures, hops: dict[int, FloatArray]) -> float:
    """The linear program at the head of this file, s."""
    rates = figures.rate
    allowed = np.isfinite(rates)
    # Every placement on the least devices has at most this load on any of them.
    most = float(np.where(allowed, rates, math.inf).min(axis=1).sum())
    most += 2 * math.fsum(float(row.sum()) for row in hops.values())
    scale = most or 1.0
    program = LinearProgram()
    makespan = program.variable(1.0, 1.0)
    loads: dict[int, list[tuple[int, float]]] = {}
    shares = _add_shares(program, figures, scale, loads)
    for d, times in hops.items():
        for t, (u, readers) in _tensors(figures).items():
            seconds = float(times[t]) / scale
            if seconds > 0:
                _add_moves(program, shares, (u, readers, d), seconds, loads.setdefault(d, []))
    for _, row in sorted(loads.items()):
        program.at_most([*row, (makespan, -1.0)], 0.0)
    return max(0.0, program.solve().bound) * scale


def _tensors(figures: Figures) -> dict[int, tuple[int, list[int]]]:
    """Maker and readers of every tensor."""
    found: dict[int, tuple[int, list[int]]] = {}
    edges = zip(figures.src.tolist(), figures.dst.tolist(), figures.tensor.tolist(), strict=True)
    for u, w, t in edges:
        found.setdefault(t, (u, []))[1].append(w)
    return found


def _add_shares(
    program: LinearProgram,
    figures: Figures,
    scale: float,
    loads: dict[int, list[tuple[int, float]]],
) -> dict[tuple[int, int], int]:
    """One share a group and device; the variable of every (task, device)."""
    groups: dict[int, list[int]] = {}
    for i, v in enumerate(figures.tasks):
        groups.setdefault(figures.instance.group_of[v], []).append(i)
    place: dict[tuple[int, int], int] = {}
    for group in groups.values():
        row = []
        total = figures.rate[group].sum(axis=0)
        for d in np.flatnonzero(np.isfinite(total)).tolist():
            share = program.variable()
            row.append((share, 1.0))
            place.update({(i, d): share for i in group})
            loads.setdefault(d, []).append((share, float(total[d]) / scale))
        program.equal(row, 1.0)
    return place


def _add_moves(
    program: LinearProgram,
    shares: dict[tuple[int, int], int],
    what: tuple[int, list[int], int],
    seconds: float,
    load: list[tuple[int, float]],
) -> None:
    """What of a tensor arrives at and leaves a device."""
    u, readers, d = what
    made = shares.get((u, d), -1)
    read = sorted({shares.get((w, d), -1) for w in readers} - {made})
    arriving = [share for share in read if share >= 0]
    if arriving:
        moved = program.variable()
        load.append((moved, seconds))
        for share in arriving:
            minus = [(made, -1.0)] if made >= 0 else []
            program.at_most([(share, 1.0), *minus, (moved, -1.0)], 0.0)
    if made >= 0 and read:
        moved = program.variable()
        load.append((moved, seconds))
        for share in read:
            minus = [(share, -1.0)] if share >= 0 else []
            program.at_most([(made, 1.0), *minus, (moved, -1.0)], 0.0)
