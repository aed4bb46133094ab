"""The exact model of one batch for CP-SAT: where, when, and what moves.

Notation: tasks v, devices d, tensors t with maker u(t); p(v, d) duration; all in whole ticks.

    x[v, d]     v runs on d                       s[v]       start of v
    y[t, a, b]  t makes the hop a -> b            h[t, a, b] its start
    T           makespan

==============================================================  =========================
constraints                                                     added by
==============================================================  =========================
one device a task, one device a color                           `_add_placement`
hops follow from placements; readers wait for the last hop      `_add_tensor`
devices, shared cores and exclusive links do one thing at once  `_add_resources`
weights + live tensors <= memory at every moment (cumulative)   `memory`
heads and tails; load + least head + least tail <= T            `_add_cuts`
==============================================================  =========================

Hops get variables only where they can be in the way or have to wait: if they occupy a device or
an exclusive link, if memory binds on some device, or if the objective asks which devices are in
use. All other routes are delays: if u(t) is on j and a reader on k, it starts no earlier than
the end of u(t) plus the time of the route.

What is exact: everything in the class "the whole batch of a task in one execution", with two
exceptions that `exact` tells of: sizes that had to be rounded (up, so schedules stay valid) to
keep the cumulative constraint within 63 bits, and platforms whose routes do not form trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tvm_hetero.bounds.latency.critical_path import critical_path
from tvm_hetero.bounds.latency.heads_tails import heads_and_tails
from tvm_hetero.solvers.core.integer_scaling import Ticks
from tvm_hetero.solvers.cpsat.memory import MemoryIntervals
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.instance import Hop, Instance

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class BatchModel:
    """The model; `horizon` (ticks) bounds the makespan from above.

    Attributes
    ----------
    hops : of each tensor the hops that have variables.
    exact : whether a bound of this model is one of the problem (in the class of whole batches).
    """

    def __init__(self, instance: Instance, ticks: Ticks, horizon: int) -> None:
        from ortools.sat.python import cp_model

        self.instance = instance
        self.ticks = ticks
        self.horizon = horizon
        self.model = cp_model.CpModel()
        self.exact = instance.routes_form_trees
        counts_devices = instance.problem.objective.kind in ("energy", "cost")
        self._all_hops = counts_devices or any(instance.memory_binds)
        self._copies: dict[int, FloatArray] = {}
        self.head, self.tail = heads_and_tails(instance, self.run, self.copies)
        least = math.floor(min(horizon, critical_path(self.head, self.tail)))
        self.makespan = self.model.new_int_var(least, horizon, "T")
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self.s: list[cp_model.IntVar] = []
        self.e: list[cp_model.LinearExpr] = []
        self.y: dict[tuple[int, Hop], cp_model.IntVar] = {}
        self.h: dict[tuple[int, Hop], cp_model.IntVar] = {}
        self.hops: list[list[Hop]] = [[] for _ in instance.tensors]
        self._intervals: dict[int, list[cp_model.IntervalVar]] = {}
        self._loads: dict[int, list[cp_model.LinearExpr]] = {}
        self._on: dict[int, list[int]] = {}
        for d, row in enumerate(instance.cores):
            for resource in row:
                self._on.setdefault(resource, []).append(d)
        self._add_placement()
        for t in range(len(instance.tensors)):
            self._add_tensor(t)
        self._add_resources()
        self._memory = MemoryIntervals(self)
        self._add_cuts()

    def run(self, v: int, d: int) -> int:
        """p(v, d), ticks."""
        return self.ticks.ticks(self.instance.seconds[v][d])

    def hop(self, t: int, hop: Hop) -> int:
        """Time of a hop, ticks."""
        return self.ticks.ticks(self.instance.hop_seconds(hop, self.instance.tensors[t].nbytes))

    def copy(self, t: int, j: int, k: int) -> float:
        """Time of the route of `t` from `j` to `k`, ticks; inf if there is none."""
        route = self.instance.route(j, k, self.instance.tensors[t].nbytes)
        return math.inf if route is None else sum(self.hop(t, hop) for hop in route)

    def copies(self, t: int) -> FloatArray:
        """`copy` from every device to every device."""
        nbytes = self.instance.tensors[t].nbytes
        if nbytes not in self._copies:
            places = range(len(self.instance.names))
            self._copies[nbytes] = np.array([[self.copy(t, j, k) for k in places] for j in places])
        return self._copies[nbytes]

    def _add_placement(self) -> None:
        """x, s and e, within heads and tails; those that no schedule within the horizon has
        are left out."""
        model, instance = self.model, self.instance
        for v in range(len(instance)):
            devices = instance.devices[v]
            fits = [d for d in devices if self.head[v][d] + self.tail[v][d] <= self.horizon]
            first = min((self.head[v][d] - self.run(v, d) for d in fits), default=0)
            self.s.append(model.new_int_var(math.floor(first), self.horizon, f"s{v}"))
            for d in fits:
                x = model.new_bool_var(f"x{v},{d}")
                self.x[v, d] = x
                begin, rest = self.head[v][d] - self.run(v, d), self.run(v, d) + self.tail[v][d]
                model.add(self.s[v] >= math.floor(begin)).only_enforce_if(x)
                model.add(self.makespan >= self.s[v] + math.floor(rest)).only_enforce_if(x)
            model.add_exactly_one([self.x[v, d] for d in fits])
            self.e.append(self.s[v] + sum(self.run(v, d) * self.x[v, d] for d in fits))
        for group in instance.groups:
            for v in group[1:]:
                for d in instance.devices[v]:
                    if (v, d) in self.x and (group[0], d) in self.x:
                        model.add(self.x[v, d] == self.x[group[0], d])
                    elif (v, d) in self.x or (group[0], d) in self.x:
                        model.add(self._place(v, d) == self._place(group[0], d))

    def _place(self, v: int, d: int) -> cp_model.IntVar | int:
        return self.x.get((v, d), 0)

    def _add_tensor(self, t: int) -> None:
        """Readers wait for the maker, and for delays or hops where they are on other devices."""
        instance, model = self.instance, self.model
        flow = instance.tensors[t]
        for reader in flow.readers:
            model.add(self.s[reader] >= self.e[flow.maker])
        for j in instance.devices[flow.maker]:
            for k in range(len(instance.names)):
                readers = [w for w in flow.readers if (w, k) in self.x]
                if j == k or not readers or (flow.maker, j) not in self.x:
                    continue
                route = instance.route(j, k, flow.nbytes)
                if route is None or self.copy(t, j, k) > self.horizon:
                    for w in readers:
                        model.add_bool_or(~self.x[flow.maker, j], ~self.x[w, k])
                elif self._all_hops or any(instance.resources(hop) for hop in route):
                    self._add_route(t, j, k, route, readers)
                else:
                    self._add_delay(t, j, k, readers)

    def _add_delay(self, t: int, j: int, k: int, readers: Sequence[int]) -> None:
        """A route that nothing can be in the way of."""
        maker = self.instance.tensors[t].maker
        seconds = int(self.copy(t, j, k))
        for w in readers if seconds > 0 else ():
            both = [self.x[maker, j], self.x[w, k]]
            self.model.add(self.s[w] >= self.e[maker] + seconds).only_enforce_if(both)

    def _add_route(
        self, t: int, j: int, k: int, route: Sequence[Hop], readers: Sequence[int]
    ) -> None:
        """A route whose hops are scheduled: hop after hop, then the readers."""
        model = self.model
        maker = self.instance.tensors[t].maker
        for hop in route:
            self._add_hop(t, hop)
        for w in readers:
            both = [self.x[maker, j], self.x[w, k]]
            for hop in route:
                model.add_bool_or(~both[0], ~both[1], self.y[t, hop])
            end = self.h[t, route[-1]] + self.hop(t, route[-1])
            model.add(self.s[w] >= end).only_enforce_if(both)
        for before, after in pairwise(route):
            both = [self.x[maker, j], self.y[t, after]]
            end = self.h[t, before] + self.hop(t, before)
            model.add(self.h[t, after] >= end).only_enforce_if(both)

    def _add_hop(self, t: int, hop: Hop) -> None:
        """y and h of a hop, and what it occupies."""
        if (t, hop) in self.y:
            return
        model, seconds = self.model, self.hop(t, hop)
        present = model.new_bool_var(f"y{t},{hop}")
        start = model.new_int_var(0, self.horizon, f"h{t},{hop}")
        self.y[t, hop], self.h[t, hop] = present, start
        self.hops[t].append(hop)
        model.add(start >= self.e[self.instance.tensors[t].maker])
        resources = self.instance.resources(hop)
        if resources:
            interval = model.new_optional_fixed_size_interval_var(start, seconds, present, "")
            for resource in resources:
                self._intervals.setdefault(resource, []).append(interval)
                self._loads.setdefault(resource, []).append(seconds * present)

    def _add_resources(self) -> None:
        """Executions join the hops on their devices, or on each core of a team; nothing overlaps
        there."""
        for (v, d), x in self.x.items():
            seconds = self.run(v, d)
            interval = self.model.new_optional_fixed_size_interval_var(self.s[v], seconds, x, "")
            for resource in self.instance.cores[d]:
                self._intervals.setdefault(resource, []).append(interval)
                self._loads.setdefault(resource, []).append(seconds * x)
        for _, intervals in sorted(self._intervals.items()):
            self.model.add_no_overlap(intervals)

    def _add_cuts(self) -> None:
        """A used device works its load, after its least head and before its least tail."""
        model = self.model
        for resource, load in sorted(self._loads.items()):
            model.add(sum(load) <= self.makespan)
            mine = self.runs_on(resource)
            if not mine:
                continue
            early = min(self.head[v][d] - self.run(v, d) for v, d in mine)
            late = min(self.tail[v][d] for v, d in mine)
            if early + late <= 0:
                continue
            # A device that is not used has neither head nor tail.
            used = model.new_bool_var(f"used{resource}")
            model.add_max_equality(used, [self.x[key] for key in mine])
            work = sum(self.run(*key) * self.x[key] for key in mine)
            model.add(work + math.floor(early + late) * used <= self.makespan)

    def runs_on(self, resource: int) -> list[tuple[int, int]]:
        """(part, device) of all executions that would keep a device or a shared core busy."""
        parts = range(len(self.instance))
        return [key for v in parts for key in self.runs_of(v, resource)]

    def runs_of(self, v: int, resource: int) -> list[tuple[int, int]]:
        """The same of one part."""
        return [(v, d) for d in self._on.get(resource, ()) if (v, d) in self.x]

    def hint(
        self,
        placement: Sequence[int],
        starts: Sequence[int],
        hops: dict[tuple[int, Hop], int],
    ) -> None:
        """Tell CP-SAT a whole solution: devices, starts of tasks and of hops (ticks)."""
        model = self.model
        for (v, d), x in self.x.items():
            model.add_hint(x, int(placement[v] == d))
        self._memory.hint(placement)
        ends = [starts[v] + self.run(v, placement[v]) for v in range(len(starts))]
        for v, start in enumerate(self.s):
            model.add_hint(start, starts[v])
        for key, present in self.y.items():
            model.add_hint(present, int(key in hops))
            if key in hops:
                model.add_hint(self.h[key], hops[key])
        model.add_hint(self.makespan, max(ends))

    def read(
        self, value: Callable[[cp_model.IntVar], int]
    ) -> tuple[list[int], list[int], dict[tuple[int, Hop], int]]:
        """Placement, starts of tasks and starts of hops (ticks) of a solution."""
        placement = [-1] * len(self.instance)
        for (v, d), x in self.x.items():
            if value(x):
                placement[v] = d
        starts = [value(start) for start in self.s]
        hops = {key: value(start) for key, start in self.h.items()}
        return placement, starts, hops
