"""Exact latency by parts: a graph cut at the tasks that everything passes through.

An *articulation task* is one that every other task either precedes or follows (through the
data), and that no tensor passes by: what is made before it is read by it or before it. When it
ends, all that precedes it has ended, and so has every hop, since a hop is made for a reader. So
every device and every link is idle, and the only thing that the rest of the schedule needs to
know is the device of the articulation task. Let a, b be consecutive articulation tasks, and

    M(i, j)   the least time from the end of a on i to the end of b on j, over the tasks between
    D_b(j)  = min over i of D_a(i) + M(i, j)

then the least D of the last one is the optimum. This holds for one element, also where copies
block devices or links are exclusive. It does not with a binding memory limit (weights and long
lived tensors reach across) or with a color on both sides of a cut, and not where a batch may be
divided; `cut` then gives None.

The entries M are small problems of their own, which the caller solves. Most are never needed:
each entry starts with a bound (critical path) and a schedule (HEFT). As long as the best path by
bounds is not proven, the open entries on it are solved (then those on the best path by
schedules). Equal modules, of which a network has many, share their entries. An entry may be
tried twice: first with a part of the work that is left, then with all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tvm_hetero.graph import TaskGraph
from tvm_hetero.instance import Hop, Instance
from tvm_hetero.problem import Cost, Problem
from tvm_hetero.schedule import OPTIMAL_GAP, Schedule

Span = tuple[float, float]
# (problem, start, attempt) -> a schedule that is no worse than the start, with a proven bound.
Solve = Callable[[Problem, Schedule, int], Schedule]
_ATTEMPTS = 2
_FREE = Cost(((1, 0.0),))


@dataclass(frozen=True)
class Module:
    """Tasks in topological order: `first` and `last` (None: there is none) and those between."""

    first: int | None
    last: int | None
    tasks: tuple[int, ...]


@dataclass
class Entry:
    """One M(i, j): its problem, its best schedule, and a proven bound in `low`."""

    problem: Problem
    schedule: Schedule
    low: float
    attempts: int = 0

    @property
    def open(self) -> bool:
        """Whether solving it could still change something."""
        gap = self.schedule.value - self.low
        return self.attempts < _ATTEMPTS and gap > 0.1 * OPTIMAL_GAP * self.schedule.value


Table = dict[tuple[int, int], Entry]


def articulation_tasks(instance: Instance) -> list[int]:
    """The tasks that all others precede or follow, and no tensor passes, in topological order."""
    n = len(instance)
    position = {v: p for p, v in enumerate(instance.order)}
    before, after = [0] * n, [0] * n
    passing = [0] * (n + 1)
    for v in instance.order:
        for t in instance.inputs[v]:
            maker = instance.tensors[t].maker
            before[v] |= before[maker] | 1 << maker
            # The tensor passes every task between its maker and this reader.
            passing[position[maker] + 1] += 1
            passing[position[v]] -= 1
    for v in reversed(instance.order):
        for t in instance.outputs[v]:
            for w in instance.tensors[t].readers:
                after[v] |= after[w] | 1 << w
    return [
        v
        for v, count in zip(instance.order, accumulate(passing), strict=False)
        if count == 0 and before[v].bit_count() + after[v].bit_count() == n - 1
    ]


def cut(instance: Instance) -> list[Module] | None:
    """The modules; None where cutting would not be exact, or would leave one module."""
    if instance.problem.batch > 1 or any(instance.memory_binds):
        return None
    if any(len(group) > 1 for group in instance.groups) or not instance.routes_form_trees:
        return None
    if not _connected(instance):
        return None
    cuts = set(articulation_tasks(instance))
    modules: list[Module] = []
    first: int | None = None
    tasks: list[int] = []
    for v in instance.order:
        tasks.append(v)
        if v in cuts:
            modules.append(Module(first, v, tuple(tasks)))
            first, tasks = v, [v]
    if len(tasks) > (first is not None):
        modules.append(Module(first, None, tuple(tasks)))
    return modules if len(modules) > 1 else None


def _connected(instance: Instance) -> bool:
    """Whether every tensor can go from and to every device on which some task can run.

    Then HEFT always finds a schedule, so that a missing entry never has to be told from one
    that is not there.
    """
    used = sorted({d for devices in instance.devices for d in devices})
    sizes = {flow.nbytes for flow in instance.tensors}
    return all(instance.route(j, k, b) is not None for j in used for k in used for b in sizes)


def module_problem(instance: Instance, module: Module, i: int, j: int) -> Problem:
    """The problem of M(i, j): `first` is pinned to device i and free, `last` to device j."""
    problem, names = instance.problem, instance.names
    tasks = [instance.tasks[v] for v in module.tasks]
    known = set(tasks)
    costs = {task: dict(problem.costs[task]) for task in tasks}
    if module.first is not None:
        costs[tasks[0]] = {names[i]: _FREE}
    if module.last is not None:
        costs[tasks[-1]] = {names[j]: costs[tasks[-1]][names[j]]}
    edges = (e for task in tasks for e in instance.edges_from(task) if e.dst in known)
    graph = TaskGraph([problem.graph.task(task) for task in tasks], edges)
    return Problem(graph, costs, problem.platform, problem.objective, "module")


def _signature(instance: Instance, module: Module) -> tuple[object, ...]:
    """What two modules must share to share their entries: costs and edges, names aside."""
    position = {instance.tasks[v]: p for p, v in enumerate(module.tasks)}
    tensors: dict[str, int] = {}
    costs = [tuple(sorted(instance.problem.costs[task].items())) for task in position]
    edges = [
        (p, position[e.dst], e.bytes, tensors.setdefault(e.tensor, len(tensors)))
        for task, p in position.items()
        for e in instance.edges_from(task)
        if e.dst in position
    ]
    places = tuple(instance.devices[v] for v in module.tasks)
    ends = (module.first is None, module.last is None)
    return (ends, places, tuple((c[0], c[1].points) for row in costs for c in row), tuple(edges))


class Parts:
    """The modules of a graph, and the tables of their entries.

    Parameters
    ----------
    start : a first schedule of a module's problem.
    bound : a lower bound of a module's problem, given the value of its first schedule.
    """

    def __init__(
        self,
        instance: Instance,
        modules: Sequence[Module],
        start: Callable[[Problem], Schedule],
        bound: Callable[[Problem, float], float],
    ) -> None:
        self.instance = instance
        self.modules = modules
        self.tables: list[Table] = []
        known: dict[tuple[object, ...], Table] = {}
        for module in modules:
            key = _signature(instance, module)
            if key not in known:
                known[key] = self._table(module, start, bound)
            self.tables.append(known[key])

    def _table(
        self,
        module: Module,
        start: Callable[[Problem], Schedule],
        bound: Callable[[Problem, float], float],
    ) -> Table:
        table: Table = {}
        for i in self._ends(module.first):
            for j in self._ends(module.last):
                problem = module_problem(self.instance, module, i, j)
                schedule = start(problem)
                table[i, j] = Entry(problem, schedule, bound(problem, schedule.value))
        return table

    def _ends(self, v: int | None) -> tuple[int, ...]:
        """The devices that the end of a module can be on; -1 where the graph ends."""
        return (-1,) if v is None else self.instance.devices[v]

    def best_path(self, *, low: bool) -> tuple[float, list[tuple[int, int]]]:
        """D of the last cut by bounds or by schedules, and the entries that give it."""
        value: dict[int, float] = {i: 0.0 for i, _ in self.tables[0]}
        back: list[dict[int, int]] = []
        for table in self.tables:
            after: dict[int, float] = {}
            come: dict[int, int] = {}
            for (i, j), entry in sorted(table.items()):
                seconds = entry.low if low else entry.schedule.value
                total = value.get(i, math.inf) + seconds
                if total < after.get(j, math.inf):
                    after[j], come[j] = total, i
            value = after
            back.append(come)
        j = min(value, key=lambda d: (value[d], d))
        best, path = value[j], []
        for come in reversed(back):
            path.append((come[j], j))
            j = come[j]
        return best, path[::-1]

    def close(self, solve: Solve, exhausted: Callable[[], bool]) -> None:
        """Solve entries until the best path is proven, all are tried, or work is used up."""
        while not exhausted():
            low, by_bound = self.best_path(low=True)
            high, by_value = self.best_path(low=False)
            if high - low <= 0.1 * OPTIMAL_GAP * high:
                return
            entries = self._open(by_bound) or self._open(by_value)
            if not entries:
                return
            # The one tried least, then the smallest: a quick proof may show another path.
            entry = min(entries, key=lambda e: (e.attempts, len(e.problem.tasks)))
            entry.schedule = solve(entry.problem, entry.schedule, entry.attempts)
            entry.low = max(entry.low, entry.schedule.lower_bound)
            entry.attempts += 1

    def _open(self, path: Sequence[tuple[int, int]]) -> list[Entry]:
        entries = [table[step] for table, step in zip(self.tables, path, strict=True)]
        return [entry for entry in entries if entry.open]

    def join(self) -> tuple[list[int], list[Span], dict[tuple[int, Hop], Span]]:
        """The best path's schedules one after the other: device and times of every task, times
        of every (tensor, hop).
        """
        instance = self.instance
        device = instance.problem.platform.index
        placement = [-1] * len(instance)
        times: list[Span] = [(0.0, 0.0)] * len(instance)
        hops: dict[tuple[int, Hop], Span] = {}
        numbers = {flow.name: t for t, flow in enumerate(instance.tensors)}
        now = 0.0
        _, path = self.best_path(low=False)
        for module, table, step in zip(self.modules, self.tables, path, strict=True):
            entry = table[step]
            graph = entry.problem.graph
            for e in entry.schedule.executions:
                v = module.tasks[graph.index[e.task]]
                if v != module.first:
                    placement[v], times[v] = device[e.device], (now + e.start, now + e.end)
            mine = module_tensors(instance, module)
            theirs = {name: p for p, name in enumerate(graph.tensors)}
            for c in entry.schedule.copies:
                hop = (device[c.src], device[c.dst])
                hops[numbers[mine[theirs[c.tensor]]], hop] = (now + c.start, now + c.end)
            now += entry.schedule.value
        return placement, times, hops


def module_tensors(instance: Instance, module: Module) -> list[str]:
    """The tensors that are read within a module, in the order of its edges."""
    known = {instance.tasks[v] for v in module.tasks}
    edges = (e for v in module.tasks for e in instance.edges_from(instance.tasks[v]))
    return list(dict.fromkeys(e.tensor for e in edges if e.dst in known))
