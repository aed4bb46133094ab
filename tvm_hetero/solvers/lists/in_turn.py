"""A schedule in one pass, for when there is no time for any other: one task after the other.

Nothing runs beside anything else, so what lies in every memory is a running sum and no gap is
looked for: time in proportion to tasks, edges and devices, a second for 100,000 tasks. Tasks come
in topological order. Each stays on the device of the one before it, if that has room for it; else
it goes to the device that, of those with room, is the fastest at it and at moving what it reads.
Copies go right before their reader. A copy counts as held until all readers of its tensor are
through, which is longer than rule 6 asks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.views.instance import Hop, Instance, instance_of


def in_turn(problem: Problem, options: Options) -> Schedule | None:
    """The schedule; None if it gets stuck, breaks the latency limit, or for throughput."""
    if problem.objective.kind == "throughput":
        return None
    line = _Line(instance_of(problem))
    for v in line.instance.order:
        if not line.place(v):
            return None
    if not within_limit(problem, line.executions):
        return None
    return make_schedule(problem, "in-turn", line.executions, line.copies, seed=options.seed)


@dataclass
class _Line:
    """What has been placed: where tensors lie, and the bytes of every device now."""

    instance: Instance
    now: float = 0.0
    last: int = -1
    executions: list[Execution] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)

    def __post_init__(self) -> None:
        instance = self.instance
        self.used = [0] * len(instance.names)
        self.where: list[list[int]] = [[] for _ in instance.tensors]
        self.unread = [len(flow.readers) for flow in instance.tensors]
        self.homes: dict[int, int] = {}

    def place(self, v: int) -> bool:
        """Run a task now; False if no device has room for it."""
        instance, group = self.instance, self.instance.group_of[v]
        home = self.homes.get(group)
        allowed = instance.devices[v] if home is None else (home,)
        device = self._choose(v, allowed)
        if device is None:
            return False
        if home is None:
            self.homes[group] = device
            self.used[device] += self._weights(group)
        for t in instance.inputs[v]:
            self._bring(t, device)
        end = self.now + instance.seconds[v][device]
        name, elements = instance.names[device], instance.elements[v]
        self.executions.append(Execution(instance.tasks[v], name, elements, self.now, end))
        self.now, self.last = end, device
        self.used[device] += instance.unread[v]
        for t in instance.outputs[v]:
            self._put(t, device)
        for t in instance.inputs[v]:
            self.unread[t] -= 1
            if self.unread[t] == 0:
                for d in self.where[t]:
                    self.used[d] -= instance.tensors[t].nbytes
        return True

    def _choose(self, v: int, allowed: Sequence[int]) -> int | None:
        """The last device if it can and has room, else the fastest with room."""
        if self.last in allowed and self._seconds(v, self.last) < math.inf:
            return self.last
        best = min(allowed, key=lambda d: (self._seconds(v, d), d))
        return best if self._seconds(v, best) < math.inf else None

    def _seconds(self, v: int, device: int) -> float:
        """What a task and the copies before it take on a device; infinite without room or path."""
        instance = self.instance
        group = instance.group_of[v]
        need = dict.fromkeys([device], instance.unread[v])
        need[device] += sum(instance.tensors[t].nbytes for t in instance.outputs[v])
        need[device] += 0 if group in self.homes else self._weights(group)
        seconds = instance.seconds[v][device]
        for t in instance.inputs[v]:
            hops = self._hops(t, device)
            if hops is None:
                return math.inf
            nbytes = instance.tensors[t].nbytes
            for hop in hops:
                need[hop[1]] = need.get(hop[1], 0) + nbytes
                seconds += instance.hop_seconds(hop, nbytes)
        for d, nbytes in need.items():
            limit = instance.capacity[d]
            if limit is not None and self.used[d] + nbytes > limit:
                return math.inf
        return seconds

    def _hops(self, t: int, device: int) -> list[Hop] | None:
        """The hops that bring a tensor to a device; None if no path does."""
        if device in self.where[t]:
            return []
        route = self.instance.route(self.where[t][0], device, self.instance.tensors[t].nbytes)
        if route is None:
            return None
        return [hop for hop in route if hop[1] not in self.where[t]]

    def _bring(self, t: int, device: int) -> None:
        instance, flow = self.instance, self.instance.tensors[t]
        elements = instance.elements[flow.maker]
        for a, b in self._hops(t, device) or ():
            end = self.now + instance.hop_seconds((a, b), flow.nbytes)
            names = instance.names[a], instance.names[b]
            self.copies.append(Copy(flow.name, elements, *names, self.now, end))
            self.now = end
            self._put(t, b)

    def _put(self, t: int, device: int) -> None:
        self.where[t].append(device)
        self.used[device] += self.instance.tensors[t].nbytes

    def _weights(self, group: int) -> int:
        return sum(self.instance.weights[v] for v in self.instance.groups[group])
