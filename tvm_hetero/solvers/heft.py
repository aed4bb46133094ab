"""HEFT: heterogeneous earliest finish time, a list scheduler with insertion.

H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling for
heterogeneous computing, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206.

Notation of the paper: w_i mean time of task i over the devices that can run it, c_ij mean time
of the transfer from i to j over pairs of different devices, and the upward rank

    rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))            -> `upward_ranks`

Tasks are taken by falling rank; each goes to the device on which it finishes first (EFT), into
the earliest gap that is long enough                                        -> `ListScheduler`

What this file adds to the paper:

- copies are made hop by hop, once per tensor and link, in the earliest gap that all they occupy
  has in common: ends without a copy engine and exclusive links (rules 3 and 4);
- memory (rule 6): a placement that would overflow a device at any moment is not chosen; until
  all readers of a tensor are placed it counts as never leaving its maker's device. If no device
  fits at the earliest time, later times at which memory is given back are tried;
- colors: the first task of a color decides for all, and their weights are reserved then;
- throughput is answered by `balance`, energy and cost by the best of HEFT on subsets of devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.balance import balance
from tvm_hetero.solvers.instance import Hop, Instance
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.score import within_limit
from tvm_hetero.solvers.state import Life, Memory, Timeline, earliest
from tvm_hetero.units import format_bytes, format_seconds

# Times at which a placement that overflows is tried again, and the devices of a platform whose
# every subset is tried for energy and cost.
_DELAYS = 8
_SUBSETS = 4


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by HEFT (throughput: by greedy balancing).

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    """
    if problem.objective.kind == "throughput":
        return balance(problem, options)
    instance = Instance(problem)
    if problem.objective.kind == "latency":
        executions, copies = schedule_tasks(instance)
        return make_schedule(problem, "heft", executions, copies, seed=options.seed)
    answers = []
    reasons: list[InfeasibleError] = []
    for devices in _subsets(instance):
        try:
            executions, copies = schedule_tasks(instance, devices)
        except InfeasibleError as error:
            reasons.append(error)
            continue
        if within_limit(problem, executions):
            answers.append(make_schedule(problem, "heft", executions, copies, seed=options.seed))
    if not answers:
        raise _none_kept(problem, reasons)
    return min(answers, key=lambda answer: answer.value)


def _none_kept(problem: Problem, reasons: Sequence[InfeasibleError]) -> InfeasibleError:
    limit = problem.objective.latency_limit
    if limit is None:
        return reasons[0]
    return InfeasibleError(
        f"heft found no schedule within the latency limit of {format_seconds(limit)}; "
        "raise the limit, or use solver cpsat"
    )


def _subsets(instance: Instance) -> list[tuple[int, ...]]:
    """Sets of devices to try, all of them first; those that cannot run some task are left out."""
    everything = tuple(range(len(instance.names)))
    sizes = range(len(everything) - 1, 0, -1) if len(everything) <= _SUBSETS else [1]
    smaller = (devices for size in sizes for devices in combinations(everything, size))
    return [everything] + [
        devices
        for devices in smaller
        if all(set(devices).intersection(allowed) for allowed in instance.devices)
    ]


def schedule_tasks(
    instance: Instance, devices: Sequence[int] | None = None
) -> tuple[list[Execution], list[Copy]]:
    """HEFT on some devices (all by default); if memory stops it, once more choosing by space.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere.
    """
    allowed = set(range(len(instance.names)) if devices is None else devices)
    order = rank_order(instance)
    try:
        return ListScheduler(instance, allowed).run(order, by_space=False)
    except InfeasibleError:
        if not any(instance.memory_binds):
            raise
        return ListScheduler(instance, allowed).run(order, by_space=True)


def upward_ranks(instance: Instance) -> list[float]:
    """rank_u of every task, s."""
    ranks = [0.0] * len(instance)
    for v in reversed(instance.order):
        longest = 0.0
        for t in instance.outputs[v]:
            for reader in instance.tensors[t].readers:
                longest = max(longest, _mean_copy(instance, t, reader) + ranks[reader])
        times = [instance.seconds[v][d] for d in instance.devices[v]]
        ranks[v] = math.fsum(times) / len(times) + longest
    return ranks


def rank_order(instance: Instance) -> list[int]:
    """Tasks by falling rank; equal ranks in topological order, so that makers come first."""
    ranks = upward_ranks(instance)
    return sorted(instance.order, key=lambda v: -ranks[v])


def _mean_copy(instance: Instance, tensor: int, reader: int) -> float:
    """Mean time to bring a tensor to a reader, over the pairs of different devices, s."""
    flow = instance.tensors[tensor]
    times = [
        seconds
        for j in instance.devices[flow.maker]
        for k in instance.devices[reader]
        if j != k and (seconds := instance.copy_seconds(j, k, flow.nbytes)) < math.inf
    ]
    return math.fsum(times) / len(times) if times else 0.0


class ListScheduler:
    """Places tasks one after the other; every placement can be taken back."""

    def __init__(self, instance: Instance, allowed: set[int]) -> None:
        n, k = len(instance), len(instance.names)
        self.instance = instance
        self.allowed = allowed
        self.place_of: list[int | None] = [None] * n
        self.group_home: dict[int, int] = {}
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
        """Place every task in the given (topological) order.

        With `by_space` a task goes to the device with the most memory left, not to the fastest.
        """
        for v in order:
            options = []
            short: list[tuple[int, int]] = []
            for d in self.candidates(v):
                found = self.try_place(v, d)
                if isinstance(found, int):
                    short.append((found, d))
                elif found is not None:
                    wait, end = found
                    space = -self.space(d) if by_space else 0.0
                    options.append((space, end, d, wait))
            if not options:
                raise self.stuck(v, short)
            _, _, device, wait = min(options)
            self.place(v, device, wait)
            self.undo.clear()
        return self.result()

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
            self.reserve(device, sum(instance.weights[w] for w in instance.groups[group]))
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
        whole = tuple(range(instance.problem.batch))
        executions = []
        for v in instance.order:
            d = self.place_of[v]
            assert d is not None, "every task was placed"
            end = self.starts[v] + instance.seconds[v][d]
            executions.append(Execution(instance.tasks[v], names[d], whole, self.starts[v], end))
        executions.sort(key=lambda e: (e.start, e.end))
        copies = [
            Copy(instance.tensors[t].name, whole, names[a], names[b], start, end)
            for t, (a, b), start, end in self.hops
        ]
        copies.sort(key=lambda c: (c.start, c.end, c.tensor, c.src, c.dst))
        return executions, copies
