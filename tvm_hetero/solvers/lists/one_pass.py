"""A list schedule in one pass, for graphs that leave no time for more: nothing is filled in later.

As `heft`: tasks by falling upward rank, each where it ends first. But whatever is placed comes
after all that its device, and every link on its way, has been given before; no gap is looked for,
and nothing is taken back. A device's memory is then a running sum: what is put in comes no earlier
than what was put in before, and what is given back lies in a heap by its time. Who finds no room
waits until enough of that has been given back. Time in proportion to tasks, edges and devices
(`python -m benchmarks.limits` has up to 100,000 tasks).

A copy counts as held until all readers of its tensor have ended, which is longer than rule 6 asks.
If ranks lead to where nothing fits, the topological order is tried. Of throughput there is nothing
to time, so stages are filled in one pass (`next_fit`).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.lists.next_fit import next_fit
from tvm_hetero.solvers.lists.ranks import rank_order
from tvm_hetero.solvers.timing.unused_devices import UnusedDevices
from tvm_hetero.views.instance import Hop, Instance, instance_of

NAME = "one-pass"


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve in one pass.

    Raises
    ------
    InfeasibleError
        If a task finds no room where it comes, or the latency limit is not kept.
    """
    if problem.objective.kind == "throughput":
        return next_fit(problem, options, NAME)
    instance = instance_of(problem)
    for order in (rank_order(instance), instance.order):
        made = _Pass(instance)
        stuck = next((v for v in order if not made.place(v)), None)
        if stuck is None and within_limit(problem, made.executions):
            executions = sorted(made.executions, key=lambda e: (e.start, e.end))
            return make_schedule(problem, NAME, executions, made.copies, seed=options.seed)
        if stuck is None:
            raise InfeasibleError(f"{NAME}: the latency limit is not kept; raise it")
    raise InfeasibleError(
        f"{NAME}: task {instance.tasks[stuck or 0]!r} finds no room after those placed before it; "
        "add memory"
    )


@dataclass
class _OnePassWay:
    """How a task would run on a device: its end, what comes before it, what the memories hold."""

    end: float
    start: float
    hops: list[tuple[int, Hop, float, float]]


@dataclass
class _Room:
    """A device's memory: weights, and bytes of tensors since something was last put in."""

    limit: int | None
    weights: int = 0
    used: int = 0
    peak: int = 0
    last: float = 0.0
    freed: list[tuple[float, int]] = field(default_factory=list)

    def when(self, nbytes: int, earliest: float, weights: int = 0) -> float:
        """From when on so many bytes more fit; infinite if they never will.

        Weights are there from the beginning, beside the most that was ever in use.
        """
        start = max(earliest, self.last)
        if self.limit is None:
            return start
        left = self.limit - self.weights - weights
        if self.peak > left:
            return math.inf
        over = self.used + nbytes - left
        if over <= 0:
            return start
        for time, back in sorted(self.freed):
            over -= back
            if over <= 0:
                return max(start, time)
        return math.inf

    def put(self, nbytes: int, start: float) -> None:
        """Hold bytes from then on."""
        self.used += nbytes
        self.last = start
        while self.freed and self.freed[0][0] <= start:
            self.used -= heapq.heappop(self.freed)[1]
        self.peak = max(self.peak, self.used)


class _Pass:
    """What has been placed so far."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.executions: list[Execution] = []
        self.copies: list[Copy] = []
        self._fresh = UnusedDevices(instance.problem)
        self._rooms = [_Room(limit) for limit in instance.capacity]
        self._free: dict[int, float] = {}  # when each resource is free for good, s
        self._there: list[dict[int, float]] = [{} for _ in instance.tensors]
        self._last_read = [0.0] * len(instance.tensors)
        self._unread = [len(flow.readers) for flow in instance.tensors]
        self._homes: dict[int, int] = {}
        self._place: list[int] = [-1] * len(instance)

    def place(self, v: int) -> bool:
        """Run a task where it ends first; False if it has no room anywhere."""
        instance, group = self.instance, self.instance.group_of[v]
        home = self._homes.get(group)
        best: tuple[float, int, _OnePassWay] | None = None
        devices = instance.devices[v] if home is None else (home,)
        for d in self._fresh.representatives(devices):
            way = self._way(v, d)
            if way is not None and (best is None or way.end < best[0]):
                best = way.end, d, way
        if best is None:
            return False
        self._take(v, best[1], best[2])
        return True

    def _way(self, v: int, d: int) -> _OnePassWay | None:
        """How `v` would run on `d`; None if there is no path or never room."""
        instance = self.instance
        weights = 0 if instance.group_of[v] in self._homes else self._weights(v)
        need = instance.unread[v]
        need += sum(instance.tensors[t].nbytes for t in instance.outputs[v])
        coming = [t for t in instance.inputs[v] if d not in self._there[t]]
        arrive = sum(instance.tensors[t].nbytes for t in coming)
        room = self._rooms[d]
        # What comes and what is made is there at once in the end: for all of it there must be room.
        begin = room.when(need + arrive, 0.0, weights)
        if begin == math.inf:
            return None
        ready = begin if room.limit is not None else 0.0
        hops: list[tuple[int, Hop, float, float]] = []
        free: dict[int, float] = {}
        passing: dict[int, int] = {}
        for t in instance.inputs[v]:
            if d in self._there[t]:
                ready = max(ready, self._there[t][d])
                continue
            there = self._bring(t, d, begin, hops, free, passing)
            if there is None:
                return None
            ready = max(ready, there)
        start = max([ready, *(free.get(r, self._free.get(r, 0.0)) for r in instance.cores[d])])
        return _OnePassWay(start + instance.seconds[v][d], start, hops)

    def _bring(
        self,
        t: int,
        d: int,
        begin: float,
        hops: list[tuple[int, Hop, float, float]],
        free: dict[int, float],
        passing: dict[int, int],
    ) -> float | None:
        """When a tensor would be on a device; its hops, what they occupy and hold, are noted."""
        instance, flow = self.instance, self.instance.tensors[t]
        home = self._place[flow.maker]
        route = instance.route(home, d, flow.nbytes)
        if route is None:
            return None
        there = self._there[t][home]
        for hop in route:
            if hop[1] in self._there[t]:
                there = self._there[t][hop[1]]
                continue
            if hop[1] == d:
                start = max(there, begin)
            else:
                passing[hop[1]] = passing.get(hop[1], 0) + flow.nbytes
                start = self._rooms[hop[1]].when(passing[hop[1]], there)
            resources = instance.resources(hop)
            start = max([start, *(free.get(r, self._free.get(r, 0.0)) for r in resources)])
            if start == math.inf:
                return None
            there = start + instance.hop_seconds(hop, flow.nbytes)
            free.update(dict.fromkeys(resources, there))
            hops.append((t, hop, start, there))
        return there

    def _take(self, v: int, d: int, way: _OnePassWay) -> None:
        instance, names = self.instance, self.instance.names
        group = instance.group_of[v]
        if group not in self._homes:
            self._homes[group] = d
            self._rooms[d].weights += self._weights(v)
        for t, (a, b), start, end in sorted(way.hops, key=lambda hop: hop[2]):
            flow = instance.tensors[t]
            elements = instance.elements[flow.maker]
            self.copies.append(Copy(flow.name, elements, names[a], names[b], start, end))
            self._rooms[b].put(flow.nbytes, start)
            self._there[t][b] = end
            self._last_read[t] = max(self._last_read[t], end)
            for r in instance.resources((a, b)):
                self._free[r] = max(self._free.get(r, 0.0), end)
        self._place[v] = d
        self._free.update(dict.fromkeys(instance.cores[d], way.end))
        self._fresh.use({d, *(end for _, hop, _, _ in way.hops for end in hop)})
        self.executions.append(
            Execution(instance.tasks[v], names[d], instance.elements[v], way.start, way.end)
        )
        made = instance.unread[v] + sum(instance.tensors[t].nbytes for t in instance.outputs[v])
        self._rooms[d].put(made, way.start)
        for t in instance.outputs[v]:
            self._there[t][d] = way.end
        for t in instance.inputs[v]:
            self._unread[t] -= 1
            self._last_read[t] = max(self._last_read[t], way.end)
            if self._unread[t] == 0:
                for place in self._there[t]:
                    back = (self._last_read[t], instance.tensors[t].nbytes)
                    heapq.heappush(self._rooms[place].freed, back)

    def _weights(self, v: int) -> int:
        """Bytes of the weights that come with a task: those of its whole group."""
        instance = self.instance
        return sum(instance.weights[w] for w in instance.groups[instance.group_of[v]])
