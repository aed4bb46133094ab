"""Lower bounds: what no schedule of a problem can beat, whatever solver made it.

Notation: B elements a batch; c(v, d, n) seconds of n elements of task v on device d. For any
division of the batch over executions hold

    rate(v, d)  = B min over n of c(v, d, n) / n    all elements of v on d take at least this
    least(v, d) = min over n of c(v, d, n)          the execution that holds an element, likewise

(costs are linear between the points of their table, so both minima are at a point, 1 or B). For
B = 1 both are the cost. A copy of any number of elements takes no less than that of one.

Critical path (latency): each element passes through every task, so heads and tails with `least`
and copies of one element bound the makespan (`solvers.heads`)              -> `critical_path`

Loads (latency and throughput): let y(g, d) be the share of the batch for which group g (tasks
of one color; mostly one task) runs on d, in(t, d) and out(t, d) the shares of tensor t that
arrive at and leave d. A device without a copy engine is busy with all of them:

    minimise T  subject to                                                    -> `load_bound`
      sum over d of y(g, d)                     = 1
      in(t, d)  >= y(reader, d) - y(maker, d)       for every reader
      out(t, d) >= y(maker, d) - y(reader, d)       for every reader
      sum over v of rate(v, d) y(v, d) + sum over t of hop(t, d) (in + out) <= T    for every d

with hop(t, d) the least time of B elements over any link at d. T bounds the largest load, and
the makespan, which is no less. Floating-point optima of linear programs are not proofs; the
duals are: with multipliers m and reduced costs r = c - A'm, the objective is at least
b'm + sum over variables in [0, 1] of min(0, r) (Neumaier and Shcherbina, Math. Programming 99,
2004, doi:10.1007/s10107-003-0433-3)                                          -> `_safe_value`

Energy: watts x busy time, each task on its cheapest device (idle power only adds). Cost: price x
busy time likewise, or the cheapest device for as long as the latency bound says.

Memory is not looked at. All bounds are lowered by 1e-12 of themselves for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.heads import critical_path as longest_path
from tvm_hetero.heads import heads_and_tails
from tvm_hetero.instance import Instance
from tvm_hetero.problem import Problem
from tvm_hetero.units import format_seconds

_ROUNDING = 1 - 1e-12
# Rows of the linear program above which it leaves out the copies, to stay within a second.
_MOST_ROWS = 20_000


def lower_bound(problem: Problem) -> float:
    """A proven lower bound of the objective: s, s per batch, J per batch, or money per batch."""
    kind = problem.objective.kind
    instance = Instance(problem)
    if kind == "latency":
        return latency_bound(instance)
    if kind == "throughput":
        return load_bound(instance)
    devices = problem.platform.devices
    if kind == "energy":
        return _by_task(instance, lambda d: devices[d].watts or 0.0)
    prices = [(device.price or 0.0) / 3600 for device in devices]
    used = [prices[d] for d in range(len(devices)) if any(d in row for row in instance.devices)]
    return max(_by_task(instance, prices.__getitem__), min(used) * latency_bound(instance))


def check_latency_limit(problem: Problem) -> None:
    """Refuse a latency limit that no schedule can keep.

    Raises
    ------
    InfeasibleError
        If the lower bound of the latency exceeds the limit; says by how much.
    """
    limit = problem.objective.latency_limit
    if limit is None:
        return
    bound = latency_bound(Instance(problem))
    if bound > limit:
        raise InfeasibleError(
            f"latency limit {format_seconds(limit)}: no schedule takes less than "
            f"{format_seconds(bound)}; raise the limit by at least {format_seconds(bound - limit)}"
        )


def latency_bound(instance: Instance) -> float:
    """The better of critical path and largest load, s."""
    return max(critical_path(instance), load_bound(instance))


def critical_path(instance: Instance) -> float:
    """The critical path that knows devices and copies, s."""
    least = _table(instance, _least)
    batch = instance.problem.batch
    head, tail = heads_and_tails(
        instance,
        lambda v, d: least[v][d],
        lambda t, j, k: instance.copy_seconds(j, k, instance.tensors[t].nbytes // batch),
    )
    path = longest_path(instance, head, tail)
    return path * _ROUNDING if path < math.inf else 0.0


def _by_task(instance: Instance, price: Callable[[int], float]) -> float:
    """Every group on the device where rate x price is least, summed."""
    rate = _table(instance, _rate)
    groups = (
        min(price(d) * math.fsum(rate[v][d] for v in g) for d in instance.devices[g[0]])
        for g in instance.groups
    )
    return math.fsum(groups) * _ROUNDING


def _table(instance: Instance, best: Callable[[Problem, str, str], float]) -> list[list[float]]:
    """A figure for every task and device that can run it; inf elsewhere."""
    return [
        [
            best(instance.problem, task, name) if d in instance.devices[v] else math.inf
            for d, name in enumerate(instance.names)
        ]
        for v, task in enumerate(instance.tasks)
    ]


def _sizes(problem: Problem, task: str, device: str) -> list[int]:
    """The numbers of elements at which a minimum over all divisions can lie."""
    points = (n for n, _ in problem.costs[task][device].points)
    return sorted({1, problem.batch, *(n for n in points if n < problem.batch)})


def _rate(problem: Problem, task: str, device: str) -> float:
    sizes = _sizes(problem, task, device)
    return problem.batch * min(problem.seconds(task, device, n) / n for n in sizes)


def _least(problem: Problem, task: str, device: str) -> float:
    return min(problem.seconds(task, device, n) for n in _sizes(problem, task, device))


def load_bound(instance: Instance) -> float:
    """The linear program at the head of this file, s."""
    rate = _table(instance, _rate)
    scale = max(s for row in rate for s in row if s < math.inf)
    hops = _hop_seconds(instance)
    if scale <= 0:
        return 0.0
    program = _Program(len(instance.names))
    place = _add_shares(program, instance, rate, scale)
    if sum(2 * len(f.readers) for f in instance.tensors) * len(hops) <= _MOST_ROWS:
        for d, row in hops.items():
            for t, seconds in enumerate(row):
                if seconds > 0:
                    _add_moves(program, instance, place, t, d, seconds / scale)
    return program.solve() * scale * _ROUNDING


def _hop_seconds(instance: Instance) -> dict[int, list[float]]:
    """For each device without a copy engine: the least time of each tensor over a link at it, s."""
    platform = instance.problem.platform
    result: dict[int, list[float]] = {}
    for d, name in enumerate(instance.names):
        if platform.devices[d].overlap:
            continue
        links = [platform.link(name, other) for other in instance.names if other != name]
        links += [platform.link(other, name) for other in instance.names if other != name]
        there = [link for link in links if link is not None]
        if there:
            result[d] = [min(link.seconds(f.nbytes) for link in there) for f in instance.tensors]
    return result


@dataclass
class _Program:
    """min T, all other variables in [0, 1]; loads[d] are the rows `load(d) <= T`."""

    devices: int
    variables: int = 0
    loads: list[tuple[int, int, float]] = field(default_factory=list)
    equal: list[list[int]] = field(default_factory=list)
    order: list[tuple[int, int, int]] = field(default_factory=list)

    def variable(self) -> int:
        self.variables += 1
        return self.variables - 1

    def solve(self) -> float:
        """A safe lower bound of the optimum."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        n = self.variables + 1
        cost = np.zeros(n)
        cost[-1] = 1.0
        rows = [(d, j, a) for d, j, a in self.loads]
        rows += [(d, n - 1, -1.0) for d in range(self.devices)]
        for i, (plus, minus, moved) in enumerate(self.order, start=self.devices):
            # y(plus) - y(minus) - moved <= 0; -1 stands for a share that is always 0.
            rows += [(i, j, a) for j, a in ((plus, 1.0), (minus, -1.0), (moved, -1.0)) if j >= 0]
        upper = _sparse(csr_array, rows, (self.devices + len(self.order), n))
        ones = [(i, j, 1.0) for i, row in enumerate(self.equal) for j in row]
        exact = _sparse(csr_array, ones, (len(self.equal), n))
        box = np.ones(n)
        box[-1] = np.inf
        result = linprog(
            cost,
            A_ub=upper,
            b_ub=np.zeros(upper.shape[0]),
            A_eq=exact,
            b_eq=np.ones(exact.shape[0]),
            bounds=np.column_stack([np.zeros(n), box]),
            method="highs",
        )
        if result.status != 0:
            return 0.0
        return _safe_value(
            upper, exact, result.ineqlin.marginals, result.eqlin.marginals, self.devices
        )


def _sparse(make: Any, rows: list[tuple[int, int, float]], shape: tuple[int, int]) -> Any:
    i, j, a = zip(*rows, strict=True) if rows else ((), (), ())
    return make((np.array(a, dtype=float), (np.array(i, int), np.array(j, int))), shape=shape)


def _safe_value(
    upper: Any, exact: Any, marginals_le: np.ndarray, marginals_eq: np.ndarray, loads: int
) -> float:
    """The bound that the duals prove, whatever their rounding (see the head of this file).

    The multipliers of the load rows are scaled so that T has no negative reduced cost.
    """
    below = np.minimum(0.0, marginals_le)
    total = -float(below[:loads].sum())
    factor = 1.0 / total if total > 1.0 else 1.0
    below, equal = below * factor, marginals_eq * factor
    reduced = -(upper.T @ below) - (exact.T @ equal)
    slack = np.minimum(0.0, reduced[:-1])
    return max(0.0, math.fsum(equal) + math.fsum(slack))


def _add_shares(
    program: _Program, instance: Instance, rate: list[list[float]], scale: float
) -> dict[tuple[int, int], int]:
    """One share a group and device; the variable of every (task, device)."""
    place: dict[tuple[int, int], int] = {}
    for group in instance.groups:
        row = []
        for d in instance.devices[group[0]]:
            share = program.variable()
            row.append(share)
            place.update({(v, d): share for v in group})
            work = math.fsum(rate[v][d] for v in group)
            program.loads.append((d, share, work / scale))
        program.equal.append(row)
    return place


def _add_moves(
    program: _Program,
    instance: Instance,
    place: dict[tuple[int, int], int],
    t: int,
    d: int,
    seconds: float,
) -> None:
    """What of a tensor arrives at and leaves a device."""
    flow = instance.tensors[t]
    made = place.get((flow.maker, d), -1)
    read = [place.get((w, d), -1) for w in flow.readers]
    arriving = [share for share in read if share >= 0 and share != made]
    if arriving:
        moved = program.variable()
        program.loads.append((d, moved, seconds))
        program.order += [(share, made, moved) for share in arriving]
    leaving = [share for share in read if share != made]
    if made >= 0 and leaving:
        moved = program.variable()
        program.loads.append((d, moved, seconds))
        program.order += [(made, share, moved) for share in leaving]
