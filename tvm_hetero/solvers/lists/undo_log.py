"""What a list scheduler has decided so far, all of which can be taken back.

Places, starts, hops, busy intervals and lives in memory, and an undo log, so that a task can be
tried on a device before it is placed on one. Rules 3 and 4 of the schedule format are in
`Booking.bring`, rule 2 in `place`, rule 6 in `hold` and `use`, colors in `settle`.

Where memory cannot bind, `probe` says when a task would end without booking anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm_hetero.solvers.timing.memory_use import Memory, MemoryLife
from tvm_hetero.solvers.timing.timeline import Timeline, earliest
from tvm_hetero.views.instance import Hop, Instance


class Booking:
    """A partial schedule that grows by `place` and shrinks by `roll_back`."""

    def __init__(self, instance: Instance) -> None:
        n, k = len(instance), len(instance.names)
        self.instance = instance
        self.place_of: list[int | None] = [None] * n
        self.group_home: dict[int, int] = {}
        self.loaded: set[tuple[int, int]] = set()
        self.starts = [0.0] * n
        self.arrival: list[dict[int, float]] = [{} for _ in instance.tensors]
        self.hops: list[tuple[int, Hop, float, float]] = []
        self.lines: dict[int, Timeline] = {}
        self.memory = [Memory(limit) for limit in instance.capacity]
        self.last_use: list[dict[int, float]] = [{} for _ in instance.tensors]
        self.unplaced = [len(flow.readers) for flow in instance.tensors]
        self.undo: list[Callable[[], object]] = []
        # Devices whose memory can run out; nothing is kept about the memory of the others.
        self.watched = frozenset(d for d in range(k) if instance.memory_binds[d])
        # Devices that see one memory share all that is kept about it.
        for d, first in enumerate(instance.memory_of):
            self.memory[d] = self.memory[first]
        # Devices on which anything has happened since the last placement that was kept.
        self.touched: set[int] = set()

    def space(self, device: int) -> float:
        """Bytes that are not yet taken for good on a device."""
        memory = self.memory[device]
        return math.inf if memory.limit is None else memory.limit - memory.permanent

    def place(self, v: int, device: int, wait: float) -> float | None:
        """Run `v` on a device as early as it goes from `wait` on; its end, None if unreachable."""
        ready = wait
        for t in self.instance.inputs[v]:
            there = self.bring(t, device, wait)
            if there is None:
                return None
            ready = max(ready, there)
        seconds = self.instance.seconds[v][device]
        lines = [self.line(r) for r in self.instance.cores[device]]
        start = earliest(lines, ready, seconds)
        self.occupy(lines, start, seconds)
        self.settle(v, device, start, start + seconds)
        return start + seconds

    def probe(self, v: int, device: int) -> float | None:
        """When `v` would end on a device (memory not looked at), None if unreachable.

        The same as the end that `place` gives, without placing anything.
        """
        ready = 0.0
        trial: dict[int, Timeline] = {}
        for t in self.instance.inputs[v]:
            there = self.arrival[t].get(device)
            if there is None:
                there = self._probe_route(t, device, trial)
            if there is None:
                return None
            ready = max(ready, there)
        seconds = self.instance.seconds[v][device]
        lines = self._lines(self.instance.cores[device], trial)
        return earliest(lines, ready, seconds) + seconds

    def _probe_route(self, tensor: int, device: int, trial: dict[int, Timeline]) -> float | None:
        """When a tensor would be on a device; what its hops keep busy goes to `trial`."""
        flow = self.instance.tensors[tensor]
        arrival = self.arrival[tensor]
        home = self.place_of[flow.maker]
        assert home is not None, "makers are placed before readers"
        route = self.instance.route(home, device, flow.nbytes)
        if route is None:
            return None
        there = arrival[home]
        for hop in route:
            if hop[1] in arrival:
                there = arrival[hop[1]]
                continue
            resources = self.instance.resources(hop)
            seconds = self.instance.hop_seconds(hop, flow.nbytes)
            start = earliest(self._lines(resources, trial), there, seconds)
            there = start + seconds
            for resource in resources:
                trial.setdefault(resource, Timeline()).add(start, there)
        return there

    def _lines(self, resources: Sequence[int], trial: dict[int, Timeline]) -> list[Timeline]:
        """What is busy, and would be."""
        return [self.line(r) for r in resources] + [trial[r] for r in resources if r in trial]

    def bring(self, tensor: int, device: int, wait: float) -> float | None:
        """Copy a tensor to a device unless it is there; when it is there, None if unreachable."""
        flow = self.instance.tensors[tensor]
        arrival = self.arrival[tensor]
        home = self.place_of[flow.maker]
        assert home is not None, "makers are placed before readers"
        if device in arrival:
            return arrival[device]
        route = self.instance.route(home, device, flow.nbytes)
        if route is None:
            return None
        for a, b in route:
            if b in arrival:
                continue
            seconds = self.instance.hop_seconds((a, b), flow.nbytes)
            lines = [self.line(r) for r in self.instance.resources((a, b))]
            start = earliest(lines, max(wait, arrival[a]), seconds)
            self.occupy(lines, start, seconds)
            self.hops.append((tensor, (a, b), start, start + seconds))
            self.undo.append(self.hops.pop)
            self.arrive(tensor, b, start, start + seconds)
            self.use(tensor, a, start + seconds)
        return arrival[device]

    def line(self, resource: int) -> Timeline:
        """The timeline of a device, a shared core or an exclusive link."""
        return self.lines.setdefault(resource, Timeline())

    def occupy(self, lines: Sequence[Timeline], start: float, seconds: float) -> None:
        """Mark an interval busy on all of `lines`."""
        for line in lines:
            line.add(start, start + seconds)
            self.undo.append(partial(line.remove, start, start + seconds))

    def settle(self, v: int, device: int, start: float, end: float) -> None:
        """Book an execution: its place, its weights, what it reads and what it writes."""
        instance, group = self.instance, self.instance.group_of[v]
        self.touched.add(device)
        self.place_of[v] = device
        self.starts[v] = start
        self.undo.append(lambda: self.place_of.__setitem__(v, None))
        if group not in self.group_home:
            self.group_home[group] = device
            self.undo.append(lambda: self.group_home.pop(group))
            for w in instance.groups[group]:
                self.load_weights(w, device)
        for t in instance.inputs[v] if self.watched else ():
            self.unplaced[t] -= 1
            self.undo.append(partial(self.unplaced.__setitem__, t, self.unplaced[t] + 1))
            self.use(t, device, end)
            home = self.place_of[instance.tensors[t].maker]
            if home is not None and home != device:
                self.use(t, home, 0.0)
        for t in instance.outputs[v]:
            self.arrive(t, device, start, end)
        if instance.unread[v]:
            self.hold((v, True), device, MemoryLife(start, math.inf, instance.unread[v]))

    def arrive(self, tensor: int, device: int, start: float, whole: float) -> None:
        """A tensor is written on a device from `start` on and can be read from `whole` on."""
        self.touched.add(device)
        self.arrival[tensor][device] = whole
        self.undo.append(lambda: self.arrival[tensor].pop(device))
        if device not in self.watched:
            return
        memory, key = self.instance.memory_of[device], (tensor, False)
        if memory in self.last_use[tensor]:
            # It is there already, by another device that sees this memory.
            self.begin_by(key, memory, start)
            self.use(tensor, device, whole)
            return
        self.last_use[tensor][memory] = whole
        self.undo.append(lambda: self.last_use[tensor].pop(memory))
        end = math.inf if self.made_in(tensor, memory) else whole
        self.hold(key, memory, MemoryLife(start, end, self.instance.tensors[tensor].nbytes))

    def made_in(self, tensor: int, memory: int) -> bool:
        """Whether the maker of a tensor has a place, and works in this memory."""
        home = self.place_of[self.instance.tensors[tensor].maker]
        return home is not None and self.instance.memory_of[home] == memory

    def begin_by(self, key: tuple[int, bool], device: int, start: float) -> None:
        """What lies in a memory is there from this time on, or from an earlier one."""
        memory = self.memory[device]
        before = memory.lives[key].start
        memory.start_at(key, min(before, start))
        self.undo.append(lambda: memory.start_at(key, before))

    def use(self, tensor: int, device: int, until: float) -> None:
        """A tensor is in use on a device until that time; it ends with its last use."""
        if device not in self.watched:
            return
        self.touched.add(device)
        at = self.instance.memory_of[device]
        before = self.last_use[tensor][at]
        self.last_use[tensor][at] = max(before, until)
        self.undo.append(lambda: self.last_use[tensor].__setitem__(at, before))
        waiting = self.made_in(tensor, at) and self.unplaced[tensor] > 0
        memory, key = self.memory[at], (tensor, False)
        end = memory.lives[key].end
        memory.end_at(key, math.inf if waiting else self.last_use[tensor][at])
        self.undo.append(lambda: memory.end_at(key, end))

    def hold(self, key: tuple[int, bool], device: int, life: MemoryLife) -> None:
        """Put a tensor, or the unread output of a task, into a device's memory."""
        if device not in self.watched:
            return
        memory = self.memory[device]
        memory.hold(key, life)
        self.undo.append(lambda: memory.drop(key))

    def load_weights(self, v: int, device: int) -> None:
        """Put the weights of a part on a device, unless another part of its task did."""
        key = (self.instance.task_of[v], self.instance.memory_of[device])
        if key not in self.loaded:
            self.loaded.add(key)
            self.undo.append(lambda: self.loaded.remove(key))
            self.reserve(device, self.instance.weights[v])

    def reserve(self, device: int, nbytes: int) -> None:
        """Take memory for weights."""
        memory = self.memory[device]
        memory.permanent += nbytes
        self.undo.append(lambda: setattr(memory, "permanent", memory.permanent - nbytes))

    def roll_back(self) -> None:
        """Take back everything since the last placement that was kept."""
        while self.undo:
            self.undo.pop()()
        self._settled()

    def keep(self) -> None:
        """What was placed stays."""
        self.undo.clear()
        self._settled()

    def _settled(self) -> None:
        """Nothing is being tried."""
        for d in self.touched & self.watched:
            self.memory[d].since = math.inf
        self.touched.clear()
