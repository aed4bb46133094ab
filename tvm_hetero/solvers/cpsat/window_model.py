"""CP-SAT's model of one window of an order: all that lies around it is kept.

    x[v, d]   v runs on d          s[v]   start of v, in ticks           T   makespan

==================================================================  =================
constraints                                                         added by
==================================================================  =================
one device; release and ready before, tail and T behind             `_add_part`
parts of one color share a device                                   `_add_groups`
readers in the window wait for makers in it, and for the delay      `_add_tensor`
one thing at a time on a device (or core of teams); what is not
free keeps its order                                                `_add_order`
==================================================================  =================

Only the order is taken from the answer, so durations are rounded down: see `large_neighbourhood`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tvm_hetero.solvers.core.integer_scaling import Ticks
from tvm_hetero.solvers.timing.orders import Delays, Order, Row, Window
from tvm_hetero.views.instance import Instance

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_TICKS = 2.0**30


class WindowModel:
    """CP-SAT's model of one window."""

    def __init__(
        self, instance: Instance, delays: Delays, now: Order, tail: Row, window: Window
    ) -> None:
        from ortools.sat.python import cp_model

        self.instance, self.delays, self.now, self.window = instance, delays, now, window
        self.ticks = Ticks(_TICKS / (now.makespan or 1.0), 0.0)
        self.model = cp_model.CpModel()
        self.inside = set(window.parts)
        self._surroundings(tail)
        self.horizon = self._whole(now.makespan)
        self.makespan = self.model.new_int_var(0, self.horizon, "T")
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self.s: dict[int, cp_model.IntVar] = {}
        self.e: dict[int, cp_model.LinearExpr] = {}
        self._lines: dict[int, list[cp_model.IntervalVar]] = {}
        for v in window.parts:
            self._add_part(v)
        self._add_groups()
        for v in window.parts:
            for t in instance.inputs[v]:
                if instance.tensors[t].maker in self.inside:
                    self._add_tensor(t, v)
        self._add_order()
        self.model.minimize(self.makespan)

    def _whole(self, seconds: float) -> int:
        return math.floor(seconds * self.ticks.per_second)

    def _surroundings(self, tail: Row) -> None:
        """`ready` and `behind` of every device: what lies before the window, and behind it."""
        now, first = self.now, self.window.first
        last = first + len(self.window.parts)
        self.tail = tail
        instance = self.instance
        before = self._nearest(reversed(now.parts[:first]))
        after = self._nearest(now.parts[last:])
        ready = {r: now.end[v] for r, v in before.items()}
        behind = {r: instance.seconds[v][now.place[v]] + tail[v] for r, v in after.items()}
        self.ready = [max(ready.get(r, 0.0) for r in row) for row in instance.cores]
        self.behind = [max(behind.get(r, 0.0) for r in row) for row in instance.cores]

    def _nearest(self, parts: Iterable[int]) -> dict[int, int]:
        """For each device, or core of teams, the first of `parts` on it."""
        found: dict[int, int] = {}
        count = len({r for row in self.instance.cores for r in row})
        for v in parts:
            for resource in self.instance.cores[self.now.place[v]]:
                found.setdefault(resource, v)
            if len(found) == count:
                break
        return found

    def _release(self, v: int, d: int) -> float:
        instance, now = self.instance, self.now
        at = self.ready[d]
        for t in instance.inputs[v]:
            u = instance.tensors[t].maker
            if u not in self.inside:
                at = max(at, now.end[u] + self.delays.copy(t, now.place[u], d))
        return at

    def _rest(self, v: int, d: int) -> float:
        """What follows v on d, outside the window."""
        instance, place = self.instance, self.now.place
        longest = self.behind[d]
        for t in instance.outputs[v]:
            for w in instance.tensors[t].readers:
                if w not in self.inside:
                    there = instance.seconds[w][place[w]] + self.tail[w]
                    longest = max(longest, self.delays.copy(t, d, place[w]) + there)
        return longest

    def _choices(self, v: int) -> list[int]:
        if v not in self.window.free or not self._group_moves(v):
            return [self.now.place[v]]
        return [
            d
            for d in self.instance.devices[v]
            if d == self.now.place[v]
            or self._release(v, d) + self.instance.seconds[v][d] + self._rest(v, d)
            <= self.now.makespan
        ]

    def _group_moves(self, v: int) -> bool:
        """Whether all parts of the color of v are free."""
        group = self.instance.groups[self.instance.group_of[v]]
        return all(w in self.window.free for w in group)

    def _add_part(self, v: int) -> None:
        model, now = self.model, self.now
        choices = self._choices(v)
        run = {d: self._whole(self.instance.seconds[v][d]) for d in choices}
        start = model.new_int_var(0, self.horizon, "")
        self.s[v] = start
        for d in choices:
            x = model.new_bool_var("")
            self.x[v, d] = x
            model.add(start >= self._whole(self._release(v, d))).only_enforce_if(x)
            rest = run[d] + self._whole(self._rest(v, d))
            model.add(self.makespan >= start + rest).only_enforce_if(x)
            line = model.new_optional_fixed_size_interval_var(start, run[d], x, "")
            for resource in self.instance.cores[d]:
                self._lines.setdefault(resource, []).append(line)
            model.add_hint(x, int(d == now.place[v]))
        model.add_exactly_one([self.x[v, d] for d in choices])
        model.add_hint(start, self._whole(now.start[v]))
        self.e[v] = start + sum(run[d] * self.x[v, d] for d in choices)

    def _add_groups(self) -> None:
        for v in self.window.parts:
            first = self.instance.groups[self.instance.group_of[v]][0]
            if v == first or not self._group_moves(v):
                continue
            for d in self.instance.devices[v]:
                one, other = self.x.get((v, d), 0), self.x.get((first, d), 0)
                self.model.add(one == other)

    def _add_tensor(self, t: int, w: int) -> None:
        model, u = self.model, self.instance.tensors[t].maker
        model.add(self.s[w] >= self.e[u])
        for j in self.instance.devices[u]:
            for k in self.instance.devices[w]:
                if j == k or (u, j) not in self.x or (w, k) not in self.x:
                    continue
                both = [self.x[u, j], self.x[w, k]]
                delay = self.delays.copy(t, j, k)
                if delay > self.now.makespan:
                    model.add_bool_or(~both[0], ~both[1])
                elif delay > 0:
                    wait = self._whole(delay)
                    model.add(self.s[w] >= self.e[u] + wait).only_enforce_if(both)

    def _add_order(self) -> None:
        """Devices do one thing at a time; what is not free keeps its order."""
        for _, lines in sorted(self._lines.items()):
            self.model.add_no_overlap(lines)
        last: dict[int, int] = {}
        for v in self.window.parts:
            if v in self.window.free:
                continue
            for resource in self.instance.cores[self.now.place[v]]:
                if resource in last:
                    self.model.add(self.s[v] >= self.e[last[resource]])
                last[resource] = v

    def read(self, value: Callable[[cp_model.IntVar], int]) -> Order:
        """The order with the window as CP-SAT wants it, with exact times."""
        now, window = self.now, self.window
        place = list(now.place)
        for (v, d), x in self.x.items():
            if value(x):
                place[v] = d
        rank = {v: p for p, v in enumerate(self.instance.order)}
        run = {v: self._whole(self.instance.seconds[v][place[v]]) for v in window.parts}
        sorted_window = sorted(window.parts, key=lambda v: (value(self.s[v]), run[v], rank[v]))
        behind = now.parts[window.first + len(window.parts) :]
        parts = [*now.parts[: window.first], *sorted_window, *behind]
        return self.delays.timed(parts, place)
