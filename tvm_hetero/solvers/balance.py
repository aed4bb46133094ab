"""Throughput by greedy balancing and local search: where every task goes, to even out the loads.

The value is the largest load of a device or exclusive link (rule 7): its executions, and the
hops that occupy it. Groups of tasks that share a device are placed by falling work, each where
the largest load grows least; then single groups are moved as long as that makes the sorted
loads smaller, the largest first. Memory (weights plus every tensor made on or copied to a
device) is a limit that no step may break.

A move changes the loads only through the group's executions, the tensors that it makes and those
that it reads, so only these are taken out and put back (`Loads.shift`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.instance import Hop, Instance
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import Schedule
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.period import write_period
from tvm_hetero.units import format_bytes

# Moves that are looked at in all, times the tensors that a move touches, bound the work.
_MOST_MOVES = 20_000
# A move must gain more than rounding noise, or the search would walk in circles.
_GAIN = 1 - 1e-9


def balance(problem: Problem, options: Options) -> Schedule:
    """Place for throughput.

    Raises
    ------
    InfeasibleError
        If memory or missing links leave some task no place.
    """
    instance = Instance(problem)
    loads = Loads(instance)
    for group in _by_work(instance):
        _place(loads, group)
    improve(loads)
    executions, copies = write_period(instance, loads.placement())
    return make_schedule(problem, "heft", executions, copies, seed=options.seed)


class Loads:
    """A partial placement with the load (s) of every resource and the bytes on every device."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.home: list[int | None] = [None] * len(instance)
        self.seconds: dict[int, float] = dict.fromkeys(range(len(instance.names)), 0.0)
        self.bytes = [0] * len(instance.names)
        # Parts of a task on a device, which share its weights.
        self.holders: dict[tuple[int, int], int] = {}

    def placement(self) -> list[int]:
        """The device of every task."""
        return [-1 if d is None else d for d in self.home]

    def move(self, group: Sequence[int], device: int | None) -> None:
        """Put a group on a device, or take it out."""
        tensors = sorted({t for v in group for t in self._touched(v)})
        self.shift(group, tensors, -1)
        for v in group:
            self.home[v] = device
        self.shift(group, tensors, 1)

    def shift(self, group: Sequence[int], tensors: Sequence[int], sign: int) -> None:
        """Add or take away what a group and the tensors at it load."""
        for v in group:
            d = self.home[v]
            if d is not None:
                self.seconds[d] += sign * self.instance.seconds[v][d]
                self.bytes[d] += sign * self.instance.unread[v]
                self._hold(v, d, sign)
        for t in tensors:
            home = self.home[self.instance.tensors[t].maker]
            nbytes = self.instance.tensors[t].nbytes
            if home is not None:
                self.bytes[home] += sign * nbytes
            for hop in self._hops(t):
                self.bytes[hop[1]] += sign * nbytes
                for resource in self.instance.resources(hop):
                    seconds = sign * self.instance.hop_seconds(hop, nbytes)
                    self.seconds[resource] = self.seconds.get(resource, 0.0) + seconds

    def _hold(self, v: int, d: int, sign: int) -> None:
        """Weights come with the first part of a task and leave with the last."""
        key = (self.instance.task_of[v], d)
        before = self.holders.get(key, 0)
        self.holders[key] = before + sign
        if min(before, before + sign) == 0:
            self.bytes[d] += sign * self.instance.weights[v]

    def _touched(self, v: int) -> Iterable[int]:
        return (*self.instance.inputs[v], *self.instance.outputs[v])

    def _hops(self, tensor: int) -> list[Hop]:
        """The hops to the readers that have a place; none where no path leads."""
        flow = self.instance.tensors[tensor]
        home = self.home[flow.maker]
        found: dict[Hop, None] = {}
        for reader in flow.readers:
            there = self.home[reader]
            if home is not None and there is not None:
                found.update(dict.fromkeys(self.instance.route(home, there, flow.nbytes) or ()))
        return list(found)

    def reachable(self, group: Sequence[int]) -> bool:
        """Whether every tensor at a group has a path to the readers that have a place."""
        for t in sorted({t for v in group for t in self._touched(v)}):
            flow = self.instance.tensors[t]
            home = self.home[flow.maker]
            for reader in flow.readers:
                there = self.home[reader]
                known = home is not None and there is not None
                if known and self.instance.route(home or 0, there or 0, flow.nbytes) is None:
                    return False
        return True

    def overflow(self) -> int:
        """By how many bytes the fullest device exceeds its limit; 0 if none does."""
        limits = zip(self.bytes, self.instance.capacity, strict=True)
        return max(0, *(held - limit for held, limit in limits if limit is not None), 0)

    def profile(self) -> list[float]:
        """All loads, the largest first."""
        return sorted(self.seconds.values(), reverse=True)


def _by_work(instance: Instance) -> list[tuple[int, ...]]:
    """Groups by falling least work; equal ones in topological order."""

    def work(group: tuple[int, ...]) -> float:
        devices = instance.devices[group[0]]
        return min(math.fsum(instance.seconds[v][d] for v in group) for d in devices)

    return sorted(instance.groups, key=lambda group: -work(group))


def _place(loads: Loads, group: Sequence[int]) -> None:
    """Put a group where the largest load grows least."""
    instance = loads.instance
    best: tuple[list[float], int] | None = None
    short: list[int] = []
    for device in instance.devices[group[0]]:
        loads.move(group, device)
        over = loads.overflow()
        if over:
            short.append(over)
        elif loads.reachable(group):
            best = min(best or (loads.profile(), device), (loads.profile(), device))
        loads.move(group, None)
    if best is None:
        task = instance.tasks[group[0]]
        lack = f"{format_bytes(min(short))} of memory lacks" if short else "no links lead there"
        raise InfeasibleError(
            f"heft: after the tasks placed before it, task {task!r} fits on no device: {lack} "
            "at the best of them; add memory or links, or use solver cpsat"
        )
    loads.move(group, best[1])


def improve(loads: Loads) -> None:
    """Move single groups while that makes the sorted loads smaller."""
    instance = loads.instance
    left = _MOST_MOVES
    moved = True
    while moved and left > 0:
        moved = False
        for group in _by_work(instance):
            home = loads.home[group[0]]
            for device in instance.devices[group[0]]:
                if device == loads.home[group[0]]:
                    continue
                left -= 1
                before, home = loads.profile(), loads.home[group[0]]
                loads.move(group, device)
                good = loads.overflow() == 0 and loads.reachable(group)
                if good and _smaller(loads.profile(), before):
                    moved = True
                else:
                    loads.move(group, home)
            if left <= 0:
                return


def _smaller(new: Sequence[float], old: Sequence[float]) -> bool:
    """Whether sorted loads are smaller at the first place where they really differ."""
    for a, b in zip(new, old, strict=False):
        if a < b * _GAIN:
            return True
        if b < a * _GAIN:
            return False
    return False
