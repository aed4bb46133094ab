"""A list scheduler: tasks in a given order, each where it ends first, everything undoable.

It keeps what has been decided (places, starts, hops, busy intervals, lives in memory) and an undo
log, so that a task can be tried on every device before it is placed on one. `heft` gives it its
order. Rules 3 and 4 of the schedule format are in `ListScheduler.bring`, rule 2 in `place`, rule
6 in `hold`, `use` and `try_place`, colors in `candidates` and `settle`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.instance import Hop, Instance
from tvm_hetero.schedule import Copy, Execution
from tvm_hetero.solvers.state import Life, Memory, Timeline, earliest
from tvm_hetero.units import format_bytes

# Times at which a placement that overflows is tried again.
_DELAYS = 8


class ListScheduler:
    """Places tasks one after the other; every placement can be taken back."""

    def __init__(self, instance: Instance, allowed: set[int]) -> None:
        n, k = len(instance), len(instance.names)
        self.instance = instance
        self.allowed = allowed
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
        self.watched = [d for d in range(k) if instance.memory_binds[d]]

    def run(
        self, order: Sequence[int], *, by_space: bool
    ) -> tuple[list[Execution], list[Copy]]:
        """Place every task, in the given (topological) order unless memory stops one of them.

        With `by_space` a task goes to the device with the most memory left, not to the fastest.
        """
        left = list(order)
        while left:
            reasons: list[InfeasibleError] = []
            for v in left:
                if not self.ready(v):
                    continue
                try:
                    self.place_best(v, by_space=by_space)
                except InfeasibleError as error:
                    # Another task may go first and give memory back.
                    reasons.append(error)
                    continue
                left.remove(v)
                break
            else:
                raise reasons[0]
        return self.result()

    def ready(self, v: int) -> bool:
        """Whether everything that `v` reads has a place."""
        tensors = self.instance.tensors
        return all(self.place_of[tensors[t].maker] is not None for t in self.instance.inputs[v])

    def place_best(self, v: int, *, by_space: bool) -> None:
        """Place one task for good.

        Raises
        ------
        InfeasibleError
            If it fits nowhere.
        """
        options = []
        short: list[tuple[int, int]] = []
        for d in self.candidates(v):
            found = self.try_place(v, d)
            if isinstance(found, int):
                short.append((found, d))
            elif found is not None:
                wait, end = found
                options.append((-self.space(d) if by_space else 0.0, end, d, wait))
        if not options:
            raise self.stuck(v, short)
        _, _, device, wait = min(options)
        self.place(v, device, wait)
        self.undo.clear()

    def candidates(self, v: int) -> list[int]:
        """The devices that may run `v`, given where the tasks of its color are."""
        home = self.group_home.get(self.instance.group_of[v])
        devices = self.instance.devices[v] if home is None else (home,)
        return [d for d in devices if d in self.allowed]

    def space(self, device: int) -> float:
        """Bytes that are not yet taken for good on a device."""
        memory = self.memory[device]
        return math.inf if memory.limit is None else memory.limit - memory.permanent

    def try_place(self, v: int, device: int) -> tuple[float, float] | int | None:
        """(delay, end) of the best way to run `v` there; bytes that lack; None if unreachable."""
        short = 0
        for wait in self.delays(device):
            end = self.place(v, device, wait)
            over = max((self.memory[d].overflow() for d in self.watched), default=0)
            self.roll_back()
            if end is None:
                return None
            if over == 0:
                return wait, end
            short = min(short, over) if short else over
        return short

    def delays(self, device: int) -> list[float]:
        """Times before which nothing new is begun: 0, then when memory is given back."""
        if device not in self.watched:
            return [0.0]
        times = self.memory[device].releases()
        step = max(1, math.ceil(len(times) / _DELAYS))
        return [0.0, *reversed(times[::-1][::step])]

    def place(self, v: int, device: int, wait: float) -> float | None:
        """Run `v` on a device as early as it goes from `wait` on; its end, None if unreachable."""
        ready = wait
        for t in self.instance.inputs[v]:
            there = self.bring(t, device, wait)
            if there is None:
                return None
            ready = max(ready, there)
        seconds = self.instance.seconds[v][device]
        line = self.line(device)
        start = earliest([line], ready, seconds)
        self.occupy([line], start, seconds)
        self.settle(v, device, start, start + seconds)
        return start + seconds

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
        """The timeline of a device or an exclusive link."""
        return self.lines.setdefault(resource, Timeline())

    def occupy(self, lines: Sequence[Timeline], start: float, seconds: float) -> None:
        """Mark an interval busy on all of `lines`."""
        for line in lines:
            line.add(start, start + seconds)
            self.undo.append(partial(line.remove, start, start + seconds))

    def settle(self, v: int, device: int, start: float, end: float) -> None:
        """Book an execution: its place, its weights, what it reads and what it writes."""
        instance, group = self.instance, self.instance.group_of[v]
        self.place_of[v] = device
        self.starts[v] = start
        self.undo.append(lambda: self.place_of.__setitem__(v, None))
        if group not in self.group_home:
            self.group_home[group] = device
            self.undo.append(lambda: self.group_home.pop(group))
            for w in instance.groups[group]:
                self.load_weights(w, device)
        for t in instance.inputs[v]:
            self.unplaced[t] -= 1
            self.undo.append(partial(self.unplaced.__setitem__, t, self.unplaced[t] + 1))
            self.use(t, device, end)
            home = self.place_of[instance.tensors[t].maker]
            if home is not None and home != device:
                self.use(t, home, 0.0)
        for t in instance.outputs[v]:
            self.arrive(t, device, start, end)
        if instance.unread[v]:
            self.hold((v, True), device, Life(start, math.inf, instance.unread[v]))

    def arrive(self, tensor: int, device: int, start: float, whole: float) -> None:
        """A tensor is written on a device from `start` on and can be read from `whole` on."""
        self.arrival[tensor][device] = whole
        self.undo.append(lambda: self.arrival[tensor].pop(device))
        self.last_use[tensor][device] = whole
        self.undo.append(lambda: self.last_use[tensor].pop(device))
        at_home = self.place_of[self.instance.tensors[tensor].maker] == device
        end = math.inf if at_home else whole
        self.hold((tensor, False), device, Life(start, end, self.instance.tensors[tensor].nbytes))

    def use(self, tensor: int, device: int, until: float) -> None:
        """A tensor is in use on a device until that time; it ends with its last use."""
        before = self.last_use[tensor][device]
        self.last_use[tensor][device] = max(before, until)
        self.undo.append(lambda: self.last_use[tensor].__setitem__(device, before))
        if device not in self.watched:
            return
        at_home = self.place_of[self.instance.tensors[tensor].maker] == device
        waiting = at_home and self.unplaced[tensor] > 0
        life = self.memory[device].lives[tensor, False]
        end = life.end
        life.end = math.inf if waiting else self.last_use[tensor][device]
        self.undo.append(lambda: setattr(life, "end", end))

    def hold(self, key: tuple[int, bool], device: int, life: Life) -> None:
        """Put a tensor, or the unread output of a task, into a device's memory."""
        if device not in self.watched:
            return
        memory = self.memory[device]
        memory.lives[key] = life
        memory.total += life.nbytes
        self.undo.append(lambda: memory.lives.pop(key))
        self.undo.append(lambda: setattr(memory, "total", memory.total - life.nbytes))

    def load_weights(self, v: int, device: int) -> None:
        """Put the weights of a part on a device, unless another part of its task did."""
        key = (self.instance.task_of[v], device)
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

    def stuck(self, v: int, short: Sequence[tuple[int, int]]) -> InfeasibleError:
        """Why `v` can be placed nowhere."""
        task = self.instance.tasks[v]
        if not short:
            return InfeasibleError(
                f"heft: no path of links brings what task {task!r} reads to a device that can "
                "run it; add a link, or use solver cpsat, which searches all placements"
            )
        over, device = min(short)
        return InfeasibleError(
            f"heft: after the tasks placed before it, task {task!r} fits on no device: "
            f"{self.instance.names[device]!r} lacks {format_bytes(over)}; add memory, or use "
            "solver cpsat, which searches all placements"
        )

    def result(self) -> tuple[list[Execution], list[Copy]]:
        """Executions and copies, each in order of start."""
        instance, names = self.instance, self.instance.names
        elements = instance.elements
        executions = []
        for v in instance.order:
            d = self.place_of[v]
            assert d is not None, "every task was placed"
            end = self.starts[v] + instance.seconds[v][d]
            execution = Execution(instance.tasks[v], names[d], elements[v], self.starts[v], end)
            executions.append(execution)
        executions.sort(key=lambda e: (e.start, e.end))
        copies = []
        for t, (a, b), start, end in self.hops:
            flow = instance.tensors[t]
            copies.append(Copy(flow.name, elements[flow.maker], names[a], names[b], start, end))
        copies.sort(key=lambda c: (c.start, c.end, c.tensor, c.elements, c.src, c.dst))
        return executions, copies
