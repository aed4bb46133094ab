"""A problem as the solvers see it: positions instead of names, and a batch divided into parts.

A *division* says into which sets of elements the batch of each task is divided; a *part* is one
of them: the work of one execution. Without a division (most solvers, most problems) every task is
one part that holds the whole batch, and the number of a part is the position of its task.
`Instance` works out once, for every part v:

    tasks[v], elements[v]   what runs, for which elements of the batch
    task_of[v]      position of the task in the graph; parts_of[task] the parts of a task
    seconds[v][d]   duration on device d (inf where d cannot run v)
    devices[v]      the devices that may run v; tasks of one color share the intersection
    tensors         what flows: maker, readers (parts that share an element), bytes
    route(j, k, b)  the hops (a, c) that carry b bytes from device j to device k (rule 3)
    memory_of[d]    the device that names the memory d sees: d, or the first team of its node
    cores[d]        what an execution on device d keeps busy: d itself; of a team, its shared cores
    resources(hop)  what a hop keeps busy: ends without a copy engine, an exclusive link (rule 4)

Parts of one task on one device share one copy of its weights (rule 6), so `weights[v]` counts
once for each (task_of[v], device). A *resource* is a number: d for device d, from the number of
devices on for exclusive links, and after these for shared cores, one for each clique of teams
(`Platform.cliques`). A team is on one core at least, so no one counts it as a device.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvm_hetero.errors import InfeasibleError, PlatformError, UsageError
from tvm_hetero.platform.devices import Fabric, Link
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Tensor
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.quote import quote
from tvm_hetero.views.array_types import FloatArray, IntArray
from tvm_hetero.views.one_stop_paths import one_stop

Hop = tuple[int, int]
# For each task the elements of its parts; a task that is not named runs whole.
Division = Mapping[str, Sequence[Sequence[int]]]
# Times between all devices that are kept, for copies of several sizes.
_MOST_TIMES = 16_000_000


@dataclass(frozen=True)
class Flow:
    """A tensor by parts; `nbytes` is its size for the elements of its maker."""

    name: str
    maker: int
    readers: tuple[int, ...]
    nbytes: int


class Instance:
    """A prepared problem (see the head of this file). Treat it as immutable.

    Parameters
    ----------
    problem : what is to be scheduled.
    division : the parts of each task; every task whole without it.

    Raises
    ------
    InfeasibleError
        If no device can run all tasks of some color.
    UsageError
        If the parts of a task are not its batch, each element once.
    """

    def __init__(self, problem: Problem, division: Division | None = None) -> None:
        graph, platform = problem.graph, problem.platform
        index, names = graph.index, platform.names
        self.problem = problem
        self.names = names
        self.parts_of, self.task_of, self.elements = _parts(problem, division or {})
        self.tasks = tuple(graph.tasks[i].id for i in self.task_of)
        self.order = tuple(v for t in graph.topological_order for v in self.parts_of[index[t]])
        self.weights = tuple(graph.tasks[i].weight_bytes for i in self.task_of)
        unread = [graph.unread_bytes(task.id) for task in graph.tasks]
        self.unread = tuple(
            unread[i] * len(own) for i, own in zip(self.task_of, self.elements, strict=True)
        )
        self.capacity = tuple(device.memory for device in platform.devices)
        self.memory_of = platform.memory_of
        self.tensors = tuple(flow for t in graph.tensors.values() for flow in self._flows(t))
        flows = list(enumerate(self.tensors))
        self.inputs = _by_task(len(self.tasks), ((r, t) for t, f in flows for r in f.readers))
        self.outputs = _by_task(len(self.tasks), ((f.maker, t) for t, f in flows))
        self.groups = self._groups()
        self.group_of = {v: g for g, group in enumerate(self.groups) for v in group}
        self.devices = self._allowed_devices()
        self.seconds = tuple(self._all_seconds())
        self._routes: dict[tuple[int, int, int], tuple[Hop, ...] | None] = {}
        self._links: dict[Hop, Link] = {}
        self._occupied: dict[Hop, tuple[int, ...]] = {}
        self._copies: dict[int, FloatArray] = {}

    def _flows(self, tensor: Tensor) -> Iterable[Flow]:
        """One flow for each part that makes the tensor."""
        index, batch = self.problem.graph.index, self.problem.batch
        readers = [v for task in tensor.readers for v in self.parts_of[index[task]]]
        for maker in self.parts_of[index[tensor.src]]:
            own = self.elements[maker]
            mine = readers
            if len(own) < batch:
                held = set(own)
                mine = [v for v in readers if not held.isdisjoint(self.elements[v])]
            yield Flow(tensor.name, maker, tuple(mine), tensor.bytes * len(own))

    def _all_seconds(self) -> Iterator[tuple[float, ...]]:
        """A row for each part; those of one row of costs, which may be that of many, are one."""
        rows: dict[tuple[int, int, tuple[int, ...]], tuple[float, ...]] = {}
        for v, task in enumerate(self.tasks):
            key = id(self.problem.costs[task]), len(self.elements[v]), self.devices[v]
            if key not in rows:
                rows[key] = self._seconds(v)
            yield rows[key]

    def _seconds(self, v: int) -> tuple[float, ...]:
        costs, count = self.problem.costs[self.tasks[v]], len(self.elements[v])
        known: dict[int, tuple[Cost, float]] = {}  # the same cost object on many devices
        row = [math.inf] * len(self.names)
        for d in self.devices[v]:
            cost = costs[self.names[d]]
            if id(cost) not in known:
                known[id(cost)] = cost, cost.seconds(count)
            row[d] = known[id(cost)][1]
        return tuple(row)

    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """Parts that must share a device, in topological order: those of one color."""
        tasks = self.problem.graph.tasks
        groups: dict[str | tuple[int], list[int]] = {}
        for v in self.order:
            color = tasks[self.task_of[v]].color
            groups.setdefault((v,) if color is None else color, []).append(v)
        return tuple(tuple(group) for group in groups.values())

    def _allowed_devices(self) -> tuple[tuple[int, ...], ...]:
        problem = self.problem
        allowed: list[tuple[int, ...]] = [()] * len(self.tasks)
        for group in self.groups:
            rows = [problem.devices_for(self.tasks[v]) for v in group]
            common = set(rows[0]).intersection(*rows[1:])
            if not common:
                raise InfeasibleError(
                    f"color {problem.graph.task(self.tasks[group[0]]).color!r}: no device can "
                    f"run all of its {len({self.tasks[v] for v in group})} tasks; add a cost on "
                    "a common device, or drop the color",
                    proven=True,
                )
            places = tuple(d for d, name in enumerate(self.names) if name in common)
            for v in group:
                allowed[v] = places
        return tuple(allowed)

    @property
    def divided(self) -> bool:
        """Whether the batch of some task is divided."""
        return len(self.tasks) > len(self.parts_of)

    def __len__(self) -> int:
        return len(self.tasks)

    def route(self, j: int, k: int, nbytes: int) -> tuple[Hop, ...] | None:
        """The hops from device `j` to device `k` for `nbytes` bytes; None if none lead there."""
        key = (j, k, nbytes)
        if key not in self._routes:
            index = self.problem.platform.index
            try:
                links = self.problem.platform.path(self.names[j], self.names[k], nbytes)
                self._routes[key] = tuple((index[link.src], index[link.dst]) for link in links)
            except PlatformError:
                self._routes[key] = None
        return self._routes[key]

    def hop_seconds(self, hop: Hop, nbytes: int) -> float:
        """Time that `nbytes` bytes take over one link, s."""
        link = self._links.get(hop)
        if link is None:
            link = self.problem.platform.link(self.names[hop[0]], self.names[hop[1]])
            assert link is not None, "routes follow links"
            self._links[hop] = link
        return link.seconds(nbytes)

    def copy_seconds(self, j: int, k: int, nbytes: int) -> float:
        """Time from device `j` to device `k` with nothing in the way, s; inf if unreachable."""
        hops = self.route(j, k, nbytes)
        if hops is None:
            return math.inf
        return math.fsum(self.hop_seconds(hop, nbytes) for hop in hops)

    def copies(self, nbytes: int) -> FloatArray:
        """`copy_seconds` from every device (row) to every device (column), s."""
        if nbytes not in self._copies:
            found = self._over_links(nbytes)
            direct = one_stop(found, self._unlinked)
            for (j, k), known, seconds in zip(
                self._unlinked.tolist(), direct.known.tolist(), direct.seconds.tolist(), strict=True
            ):
                found[j, k] = seconds if known else self.copy_seconds(j, k, nbytes)
            np.fill_diagonal(found, 0.0)
            if len(self._copies) * found.size > _MOST_TIMES:
                self._copies.clear()
            self._copies[nbytes] = found
        return self._copies[nbytes]

    @cached_property
    def _unlinked(self) -> IntArray:
        """(n, 2): the pairs of different devices that no link joins."""
        linked = np.isfinite(self._wires[0])
        np.fill_diagonal(linked, True)
        return np.argwhere(~linked)

    def _over_links(self, nbytes: int) -> FloatArray:
        """Time of `nbytes` over the link from device to device, s; inf where there is none."""
        latency, bandwidth = self._wires
        return latency + nbytes / bandwidth

    @cached_property
    def _wires(self) -> tuple[FloatArray, FloatArray]:
        """Latency (s; inf where no link is) and bandwidth (bytes/s) from device to device."""
        latency = np.full((len(self.names), len(self.names)), np.inf)
        bandwidth = np.ones_like(latency)
        for j, row in enumerate(latency):
            links = self.problem.platform.links_from(j)
            row[list(links)] = [link[0] for link in links.values()]
            bandwidth[j, list(links)] = [link[1] for link in links.values()]
        return latency, bandwidth

    def hops(self, tensor: int, placement: Sequence[int]) -> tuple[Hop, ...]:
        """The distinct hops that `tensor` makes under a placement, along each route in order.

        Raises
        ------
        PlatformError
            If a reader's device cannot be reached.
        """
        flow = self.tensors[tensor]
        home = placement[flow.maker]
        found: dict[Hop, None] = {}
        for reader in flow.readers:
            route = self.route(home, placement[reader], flow.nbytes)
            if route is None:
                raise PlatformError(
                    f"no path of links leads from {self.names[home]!r} to "
                    f"{self.names[placement[reader]]!r}, which tensor {flow.name!r} needs"
                )
            found.update(dict.fromkeys(route))
        return tuple(found)

    def resources(self, hop: Hop) -> tuple[int, ...]:
        """What a hop keeps busy for its whole length."""
        found = self._occupied.get(hop)
        if found is None:
            ends = [d for d in hop if not self.problem.platform.devices[d].overlap]
            # A core of both ends is busy once.
            found = tuple(dict.fromkeys(r for d in ends for r in self.cores[d]))
            found += (self.exclusive[hop],) if hop in self.exclusive else ()
            self._occupied[hop] = found
        return found

    @cached_property
    def cores(self) -> tuple[tuple[int, ...], ...]:
        """The resources of an execution on each device (see the head of this file)."""
        first = len(self.names) + len(self.exclusive)
        found: list[list[int]] = [[] for _ in self.names]
        for i, clique in enumerate(self.problem.platform.cliques):
            for d in clique:
                found[d].append(first + i)
        return tuple(tuple(row) or (d,) for d, row in enumerate(found))

    @property
    def teams(self) -> bool:
        """Whether some devices share cores."""
        return bool(self.problem.platform.cliques)

    @property
    def resource_count(self) -> int:
        """Devices, exclusive links and shared cores."""
        return len(self.names) + len(self.exclusive) + len(self.problem.platform.cliques)

    @cached_property
    def exclusive(self) -> dict[Hop, int]:
        """Number of the resource of every exclusive link."""
        platform = self.problem.platform
        found: list[Hop] = []
        rows: list[Link | Fabric] = [*platform.links, *platform.fabrics]
        if not any(row.exclusive for row in rows):
            return {}
        for a, src in enumerate(self.names):
            for b, dst in enumerate(self.names):
                link = platform.link(src, dst) if a != b else None
                if link is not None and link.exclusive:
                    found.append((a, b))
        return {hop: len(self.names) + i for i, hop in enumerate(found)}

    @cached_property
    def terminals(self) -> frozenset[int]:
        """The parts of `Problem.terminals`, which belong to no stage (rule 8)."""
        ends = self.problem.terminals
        return frozenset(v for v, task in enumerate(self.tasks) if task in ends)

    @cached_property
    def stage_reads(self) -> tuple[tuple[int, int], ...]:
        """(maker, reader) of every tensor that leads from stage to stage or stays in one."""
        ends = self.terminals
        return tuple(
            (flow.maker, w)
            for flow in self.tensors
            for w in flow.readers
            if flow.maker not in ends and w not in ends
        )

    @cached_property
    def memory_binds(self) -> tuple[bool, ...]:
        """For each device, whether holding everything that could ever be there is too much."""
        throughout = [0] * len(self.names)
        everywhere = sum(flow.nbytes for flow in self.tensors)
        own: dict[tuple[int, ...], int] = {}  # most tasks can run on the same devices
        for parts in self.parts_of:
            places = self.devices[parts[0]]
            held = self.weights[parts[0]] + sum(self.unread[v] for v in parts)
            own[places] = own.get(places, 0) + held
        for places, held in own.items():
            for d in {self.memory_of[d] for d in places}:
                throughout[d] += held
        return tuple(
            limit is not None and everywhere + throughout[memory] > limit
            for memory, limit in zip(self.memory_of, self.capacity, strict=True)
        )

    @cached_property
    def shares_memory(self) -> tuple[bool, ...]:
        """For each device, whether others (teams of its node) see the memory that it sees."""
        return tuple(self.memory_of.count(memory) > 1 for memory in self.memory_of)

    @cached_property
    def memories_shared(self) -> bool:
        """Whether a memory that can be too small is one that several devices see."""
        return any(map(operator.and_, self.shares_memory, self.memory_binds))

    @cached_property
    def contended(self) -> bool:
        """Whether copies can be in the way of anything, or have to wait for memory."""
        devices = self.problem.platform.devices
        used = {d for allowed in self.devices for d in allowed}
        alone = all(devices[d].overlap for d in range(len(devices)))
        return len(used) > 1 and (not alone or bool(self.exclusive) or any(self.memory_binds))

    @cached_property
    def routes_form_trees(self) -> bool:
        """Whether the routes from one device never enter another by two different links.

        They can where a slow direct link wins over a fast detour that another route takes.
        A tensor may then reach a device twice, which the exact models do not weigh.
        """
        return self.form_trees(sorted({flow.nbytes for flow in self.tensors}))

    def form_trees(self, sizes: Sequence[int]) -> bool:
        """The same of routes for so many bytes."""
        pairs = self._unlinked
        for nbytes in sizes:
            # Links are routes, and those over one stop enter nothing else that a link leads to.
            longer = ~one_stop(self._over_links(nbytes), pairs).known
            for j in np.unique(pairs[longer][:, 0]).tolist():
                linked = self.problem.platform.links_from(j)
                others = pairs[pairs[:, 0] == j][:, 1].tolist()
                hops = {hop for k in others for hop in self.route(j, k, nbytes) or ()}
                into = [b for _, b in hops]
                if len(set(into)) < len(into) or any(a != j and b in linked for a, b in hops):
                    return False
        return True


@cached_per_problem
def instance_of(problem: Problem) -> Instance:
    """The instance of a problem whose tasks all run whole, made once.

    Raises
    ------
    InfeasibleError
        If no device can run all tasks of some color.
    """
    return Instance(problem)


def _by_task(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    rows: list[list[int]] = [[] for _ in range(count)]
    for task, tensor in pairs:
        rows[task].append(tensor)
    return tuple(tuple(row) for row in rows)


def _parts(
    problem: Problem, division: Division
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Parts of every task, task of every part, elements of every part."""
    whole = tuple(range(problem.batch))
    for name in division:
        if name not in problem.graph.index:
            raise UsageError(f"division: there is no task {name!r}")
    parts_of: list[tuple[int, ...]] = []
    task_of: list[int] = []
    elements: list[tuple[int, ...]] = []
    for i, task in enumerate(problem.graph.tasks):
        own = [tuple(part) for part in division.get(task.id, [whole])]
        if sorted(e for part in own for e in part) != list(whole) or not all(own):
            raise UsageError(
                f"division of task {task.id!r}: expected every element of the batch of "
                f"{problem.batch} in exactly one part, got {quote(own)}"
            )
        parts_of.append(tuple(range(len(task_of), len(task_of) + len(own))))
        task_of += [i] * len(own)
        elements += own
    return tuple(parts_of), tuple(task_of), tuple(elements)
