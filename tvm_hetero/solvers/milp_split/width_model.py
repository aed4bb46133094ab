"""Teams of alike cores by width alone: a bound of a module, and an order from which to build it.

Sixteen cores have 31 buddies, and which of those that are alike a task runs on hardly matters. Let
C be the classes of devices that symmetries carry into each other (`views.symmetry`), w(c) the cores
that one of class c keeps busy, P all cores that teams keep busy:

    x[v, c]   v runs on some device of class c          s[v]   its start          T   makespan

    minimise T  subject to
      one class a task; one class a color                           `_add_part`; `_add_groups`
      at every moment the widths of all that runs add up to P at most      `_add_cores`
      s[w] >= e[u] + the least copy from class to class                    `_add_reads`
      heads and tails by class                                             `_add_part`
      all that precedes w, in core-seconds, fits into P s[w]; all that
      follows it into P (T - e[w]); all there is into P T                  `_add_areas`

A schedule of the module is one of this model, so its bound is one of the module: positions are
forgotten, copies cost what the nearest devices of two classes take (nothing within one class), and
hops keep nothing busy. Durations are rounded down, with starts rounded down the order and what
overlaps stay, so the bound needs no correction.

What it finds is no schedule, since widths may not fit together where positions are fixed; it is an
order and a width for every task, from which a list schedule is made             -> `search_widths`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tvm_hetero.bounds.latency.heads_tails import heads_and_tails
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler
from tvm_hetero.solvers.lists.partial_schedule import Solution, of_scheduler
from tvm_hetero.solvers.milp_split.valid_inequalities import ancestors, descendants, members
from tvm_hetero.views.instance import Instance

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_TICKS = 2.0**26
# Parts above which core-seconds before and after each one are left out.
_MOST_CUT = 300
# Devices from which on widths say more than devices do, for the work.
MANY = 15


class WidthModel:
    """The model at the head of this file, for makespans up to `most` (s)."""

    def __init__(self, instance: Instance, kinds: Sequence[int], most: float) -> None:
        from ortools.sat.python import cp_model

        self.instance, self.kinds = instance, kinds
        self.per_second = _TICKS / most if most > 0 else 1.0
        self.horizon = math.ceil(most * self.per_second)
        self.model = cp_model.CpModel()
        self.makespan = self.model.new_int_var(0, self.horizon, "T")
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self.s: list[cp_model.IntVar] = []
        self.e: list[cp_model.LinearExpr] = []
        self._running: list[tuple[cp_model.IntervalVar, int]] = []
        self._area: dict[int, list[cp_model.LinearExpr]] = {}
        self._copies: dict[tuple[int, int, int], int] = {}
        used = {d for devices in instance.devices for d in devices}
        self.cores = len({r for d in used for r in instance.cores[d]})
        head, tail = heads_and_tails(
            instance,
            lambda v, d: instance.seconds[v][d],
            lambda t: instance.copies(instance.tensors[t].nbytes),
        )
        for v in range(len(instance)):
            self._add_part(v, head[v], tail[v])
        self._add_groups()
        for v in range(len(instance)):
            self._add_reads(v)
        self._add_cores()
        self._add_areas()

    def _whole(self, seconds: float) -> int:
        return math.floor(seconds * self.per_second)

    def classes(self, v: int) -> dict[int, list[int]]:
        """The classes on which a part can run, and their devices."""
        return by_class(self.instance.devices[v], self.kinds)

    def _add_part(self, v: int, head: Sequence[float], tail: Sequence[float]) -> None:
        model, instance = self.model, self.instance
        start = model.new_int_var(0, self.horizon, f"s{v}")
        self.s.append(start)
        runs = {}
        for c, devices in self.classes(v).items():
            x = model.new_bool_var(f"x{v},{c}")
            self.x[v, c] = x
            seconds = min(instance.seconds[v][d] for d in devices)
            runs[c] = self._whole(seconds)
            begin = self._whole(min(head[d] - instance.seconds[v][d] for d in devices))
            rest = runs[c] + self._whole(min(tail[d] for d in devices))
            model.add(start >= begin).only_enforce_if(x)
            model.add(self.makespan >= start + rest).only_enforce_if(x)
            if runs[c]:
                interval = model.new_optional_fixed_size_interval_var(start, runs[c], x, "")
                width = min(len(instance.cores[d]) for d in devices)
                self._running.append((interval, width))
                self._area.setdefault(v, []).append(width * runs[c] * x)
        model.add_exactly_one([self.x[v, c] for c in runs])
        self.e.append(start + sum(runs[c] * self.x[v, c] for c in runs))

    def _add_groups(self) -> None:
        for group in self.instance.groups:
            for v in group[1:]:
                for c in self.classes(v):
                    self.model.add(self.x[v, c] == self.x[group[0], c])

    def _add_reads(self, w: int) -> None:
        """A reader waits for the maker, and for the nearest way from class to class."""
        for t in self.instance.inputs[w]:
            flow = self.instance.tensors[t]
            u = flow.maker
            self.model.add(self.s[w] >= self.e[u])
            for a in self.classes(u):
                for b in self.classes(w):
                    delay = self._copy(a, b, flow.nbytes)
                    if delay > 0:
                        both = [self.x[u, a], self.x[w, b]]
                        self.model.add(self.s[w] >= self.e[u] + delay).only_enforce_if(both)

    def _copy(self, a: int, b: int, nbytes: int) -> int:
        """The least time from a device of one class to one of another, ticks."""
        key = a, b, nbytes
        if key not in self._copies:
            times = self.instance.copies(nbytes)
            here = [d for d, kind in enumerate(self.kinds) if kind == a]
            there = [d for d, kind in enumerate(self.kinds) if kind == b]
            least = min(float(times[j, k]) for j in here for k in there)
            self._copies[key] = min(self._whole(min(least, 1e300)), self.horizon + 1)
        return self._copies[key]

    def _add_cores(self) -> None:
        intervals = [interval for interval, _ in self._running]
        self.model.add_cumulative(intervals, [width for _, width in self._running], self.cores)

    def _add_areas(self) -> None:
        """Core-seconds before and after every part, as `valid_inequalities` has seconds."""
        instance, model, cores = self.instance, self.model, self.cores
        model.add(cores * self.makespan >= sum(self._areas(range(len(instance)))))
        if len(instance) > _MOST_CUT:
            return
        before = ancestors(instance)
        after = descendants(before)
        for w in range(len(instance)):
            ahead, behind = self._areas(members(before[w])), self._areas(members(after[w]))
            if ahead:
                model.add(cores * self.s[w] >= sum(ahead))
            if behind:
                model.add(cores * (self.makespan - self.e[w]) >= sum(behind))

    def _areas(self, parts: Iterable[int]) -> list[cp_model.LinearExpr]:
        return [term for v in parts for term in self._area.get(v, [])]

    def charge(self, prices: Mapping[tuple[int, int], float]) -> None:
        """Minimise T and the prices of parts on devices (s)."""
        extra = [self._whole(prices[v, c]) * x for (v, c), x in self.x.items() if (v, c) in prices]
        self.model.minimize(self.makespan + sum(extra))

    def hint(self, best: Solution) -> None:
        """Tell CP-SAT a solution of the module."""
        for (v, c), x in self.x.items():
            self.model.add_hint(x, int(self.kinds[best.placement[v]] == c))
        for v, start in enumerate(self.s):
            self.model.add_hint(start, self._whole(best.times[v][0]))

    def read(self, value: Callable[[cp_model.IntVar], int]) -> tuple[list[int], list[int]]:
        """Starts (ticks) and classes."""
        chosen = [-1] * len(self.s)
        for (v, c), x in self.x.items():
            if value(x):
                chosen[v] = c
        return [value(start) for start in self.s], chosen


def by_class(devices: Iterable[int], kinds: Sequence[int]) -> dict[int, list[int]]:
    """The classes of some devices, and those of each."""
    found: dict[int, list[int]] = {}
    for d in devices:
        found.setdefault(kinds[d], []).append(d)
    return found


def helps_by_width(instance: Instance, kinds: Sequence[int]) -> bool:
    """Whether there are many devices of few classes."""
    return instance.teams and len(kinds) >= MANY and len(set(kinds)) < len(kinds)


def search_widths(
    instance: Instance,
    kinds: Sequence[int],
    best: Solution,
    options: Options,
    budget: CpsatBudget,
    prices: Mapping[tuple[int, int], float] | None = None,
) -> tuple[Solution | None, float]:
    """A solution (better or not), and a bound of the makespan (s); nothing without budget.

    With `prices` (s) of parts on devices, equal within a class, the bound is one of the makespan
    with the prices of where these parts are (see `module_cpsat`).
    """
    if budget.exhausted():
        return None, 0.0
    paid = prices or {}
    # No better solution takes longer than what the cheapest ends would leave for it.
    most = best.value + sum(paid.get((v, d), 0.0) for v, d in enumerate(best.placement))
    least = {v: min(p for (w, _), p in paid.items() if w == v) for v, _ in paid}
    model = WidthModel(instance, kinds, max(best.value, most - sum(least.values())))
    model.charge(paid)
    model.hint(best)
    outcome = run(model.model, options, budget, linear=1, prove=True)
    bound = max(0.0, outcome.bound) / model.per_second
    if not outcome.found:
        return None, bound
    starts, chosen = model.read(outcome.solver.value)
    position = {v: i for i, v in enumerate(instance.order)}
    order = sorted(range(len(starts)), key=lambda v: (starts[v], position[v]))
    return lay_out(instance, kinds, order, chosen), bound


def lay_out(
    instance: Instance, kinds: Sequence[int], order: Sequence[int], chosen: Sequence[int]
) -> Solution | None:
    """The list schedule of an order, each part on the device of its class where it ends first."""
    late = 2 * math.fsum(max(s for s in row if s < math.inf) for row in instance.seconds) + 1.0

    def score(v: int, d: int, end: float) -> float:
        return end if kinds[d] == chosen[v] else end + late

    scheduler = ListScheduler(instance, set(range(len(instance.names))), score)
    try:
        scheduler.run(order, by_space=False)
    except InfeasibleError:
        return None
    return of_scheduler(scheduler)
