"""The loads of a placement for throughput, kept up to date as groups of parts move.

The load of a device is its executions, and the hops that occupy it (of a team, on each of its
cores); that of an exclusive link is the hops over it (rule 7). In steady state a device holds the
weights of its parts and every tensor made on or copied to it (rule 6); what a memory holds that
several teams see is counted with the device that names it.

A move changes the loads only through the group's executions, the tensors that it makes and those
that it reads, so only these are taken out and put back (`Loads.shift`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tvm_hetero.views.instance import Hop, Instance


def exact_value(instance: Instance, placement: Sequence[int]) -> float:
    """The largest load of a placement, s; inf if links, memory or rule 8 forbid it."""
    count = len(instance.names)
    seconds = dict.fromkeys(range(count), 0.0)
    held, memory_of = [0] * count, instance.memory_of
    for v, d in enumerate(placement):
        for resource in instance.cores[d]:
            seconds[resource] = seconds.get(resource, 0.0) + instance.seconds[v][d]
        held[memory_of[d]] += instance.unread[v]
    homes = [memory_of[d] for d in placement]
    for v, m in {(instance.task_of[v], m): (v, m) for v, m in enumerate(homes)}.values():
        held[m] += instance.weights[v]
    for flow in instance.tensors:
        home = placement[flow.maker]
        held[memory_of[home]] += flow.nbytes
        hops: dict[Hop, None] = {}
        for there in dict.fromkeys(placement[w] for w in flow.readers):
            route = instance.route(home, there, flow.nbytes) if there != home else ()
            if route is None:
                return math.inf
            hops.update(dict.fromkeys(route))
        lies = {memory_of[home]}
        for hop in hops:
            memory = memory_of[hop[1]]
            if memory not in lies or not instance.shares_memory[memory]:
                held[memory] += flow.nbytes
            lies.add(memory)
            for resource in instance.resources(hop):
                busy = seconds.get(resource, 0.0)
                seconds[resource] = busy + instance.hop_seconds(hop, flow.nbytes)
    limits = zip(held, instance.capacity, strict=True)
    if any(limit is not None and own > limit for own, limit in limits):
        return math.inf
    if instance.problem.objective.contiguous and not is_pipeline(instance, placement):
        return math.inf
    return max(seconds.values())


def is_pipeline(instance: Instance, placement: Sequence[int]) -> bool:
    """Whether no cycle leads from device to device over what they read (rule 8)."""
    after: dict[int, set[int]] = {}
    for maker, reader in instance.stage_reads:
        after.setdefault(placement[maker], set()).add(placement[reader])
    fed = {d: {a for a, row in after.items() if d in row and a != d} for d in set(placement)}
    while fed:
        free = [d for d, makers in fed.items() if not makers]
        if not free:
            return False
        for d in free:
            del fed[d]
        fed = {d: makers.difference(free) for d, makers in fed.items()}
    return True


class Loads:
    """A partial placement with the load (s) of every resource and the bytes on every device."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.home: list[int | None] = [None] * len(instance)
        self.seconds: dict[int, float] = dict.fromkeys(range(len(instance.names)), 0.0)
        self.bytes = [0] * len(instance.names)
        # Parts of a task in a memory, which share its weights.
        self.holders: dict[tuple[int, int], int] = {}
        # Ways in which a tensor came into a memory that several devices see: it lies there once.
        self.comings: dict[tuple[int, int], int] = {}

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
                for resource in self.instance.cores[d]:
                    seconds = sign * self.instance.seconds[v][d]
                    self.seconds[resource] = self.seconds.get(resource, 0.0) + seconds
                self.bytes[self.instance.memory_of[d]] += sign * self.instance.unread[v]
                self._hold(v, self.instance.memory_of[d], sign)
        for t in tensors:
            home = self.home[self.instance.tensors[t].maker]
            nbytes = self.instance.tensors[t].nbytes
            if home is not None:
                self._lie(t, home, sign)
            for hop in self.hops_of(t):
                self._lie(t, hop[1], sign)
                for resource in self.instance.resources(hop):
                    seconds = sign * self.instance.hop_seconds(hop, nbytes)
                    self.seconds[resource] = self.seconds.get(resource, 0.0) + seconds

    def _hold(self, v: int, memory: int, sign: int) -> None:
        """Weights come with the first part of a task and leave with the last."""
        key = (self.instance.task_of[v], memory)
        before = self.holders.get(key, 0)
        self.holders[key] = before + sign
        if min(before, before + sign) == 0:
            self.bytes[memory] += sign * self.instance.weights[v]

    def _lie(self, t: int, d: int, sign: int) -> None:
        """A tensor is made on a device, or comes to it."""
        memory, nbytes = self.instance.memory_of[d], self.instance.tensors[t].nbytes
        if self.instance.shares_memory[d]:
            before = self.comings.get((t, memory), 0)
            self.comings[t, memory] = before + sign
            nbytes *= min(before, before + sign) == 0
        self.bytes[memory] += sign * nbytes

    def _touched(self, v: int) -> Iterable[int]:
        return (*self.instance.inputs[v], *self.instance.outputs[v])

    def hops_of(self, tensor: int) -> list[Hop]:
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

    def best_place(
        self, group: Sequence[int], allows: Callable[[int], bool] = lambda d: True
    ) -> tuple[int | None, list[int]]:
        """The device where the largest load grows least for a group that has no place.

        None if there is none; then also the bytes that lack, of each device without the memory.
        """
        best: tuple[list[float], int] | None = None
        short: list[int] = []
        for device in self.instance.devices[group[0]]:
            self.move(group, device)
            over = self.overflow()
            if over:
                short.append(over)
            elif self.reachable(group) and allows(device):
                option = (self.profile(), device)
                best = option if best is None else min(best, option)
            self.move(group, None)
        return (None if best is None else best[1]), short
