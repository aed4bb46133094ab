"""A problem as the solvers see it: positions instead of names, and a batch as one piece of work.

Every solver here but `single` runs all elements of a batch in one execution per task, so that
duration, sizes and copies are those of the whole batch. `Instance` works them out once:

    seconds[v][d]   duration of task v on device d (inf where d cannot run v)
    devices[v]      the devices that may run v; tasks of one color share the intersection
    tensors         what flows: maker, readers, bytes of the whole batch
    route(t, j, k)  the hops (a, b) that carry tensor t from device j to device k (rule 3)
    resources(hop)  what a hop keeps busy: ends without a copy engine, an exclusive link (rule 4)

A *resource* is a number: d for device d, and from the number of devices on for exclusive links.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_hetero.errors import InfeasibleError, PlatformError
from tvm_hetero.graph import Edge
from tvm_hetero.problem import Problem

Hop = tuple[int, int]


@dataclass(frozen=True)
class Flow:
    """A tensor by positions; `nbytes` is its size for the whole batch."""

    name: str
    maker: int
    readers: tuple[int, ...]
    nbytes: int


class Instance:
    """A prepared problem (see the head of this file). Treat it as immutable.

    Raises
    ------
    InfeasibleError
        If no device can run all tasks of some color.
    """

    def __init__(self, problem: Problem) -> None:
        graph, platform, batch = problem.graph, problem.platform, problem.batch
        index, names = graph.index, platform.names
        self.problem = problem
        self.tasks = tuple(task.id for task in graph.tasks)
        self.names = names
        self.order = tuple(index[task] for task in graph.topological_order)
        self.weights = tuple(task.weight_bytes for task in graph.tasks)
        self.unread = tuple(graph.unread_bytes(task) * batch for task in self.tasks)
        self.capacity = tuple(device.memory for device in platform.devices)
        self.tensors = tuple(
            Flow(t.name, index[t.src], tuple(index[r] for r in t.readers), t.bytes * batch)
            for t in graph.tensors.values()
        )
        flows = list(enumerate(self.tensors))
        self.inputs = _by_task(len(self.tasks), ((r, t) for t, f in flows for r in f.readers))
        self.outputs = _by_task(len(self.tasks), ((f.maker, t) for t, f in flows))
        self.groups = _groups(problem)
        self.group_of = {v: g for g, group in enumerate(self.groups) for v in group}
        self.devices = _allowed_devices(problem, self.groups)
        self.seconds = tuple(
            tuple(
                problem.seconds(task, name, batch) if d in self.devices[v] else math.inf
                for d, name in enumerate(names)
            )
            for v, task in enumerate(self.tasks)
        )
        self._routes: dict[tuple[int, int, int], tuple[Hop, ...] | None] = {}

    def __len__(self) -> int:
        return len(self.tasks)

    def edges_from(self, task: str) -> tuple[Edge, ...]:
        """The edges of the graph that leave `task`."""
        return self._edges_from.get(task, ())

    @cached_property
    def _edges_from(self) -> dict[str, tuple[Edge, ...]]:
        rows: dict[str, list[Edge]] = {}
        for edge in self.problem.graph.edges:
            rows.setdefault(edge.src, []).append(edge)
        return {task: tuple(row) for task, row in rows.items()}

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
        link = self.problem.platform.link(self.names[hop[0]], self.names[hop[1]])
        assert link is not None, "routes follow links"
        return link.seconds(nbytes)

    def copy_seconds(self, j: int, k: int, nbytes: int) -> float:
        """Time from device `j` to device `k` with nothing in the way, s; inf if unreachable."""
        hops = self.route(j, k, nbytes)
        if hops is None:
            return math.inf
        return math.fsum(self.hop_seconds(hop, nbytes) for hop in hops)

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
        ends = tuple(d for d in hop if not self.problem.platform.devices[d].overlap)
        return ends + ((self._exclusive[hop],) if hop in self._exclusive else ())

    @cached_property
    def _exclusive(self) -> dict[Hop, int]:
        """Number of the resource of every exclusive link."""
        platform = self.problem.platform
        found: list[Hop] = []
        for a, src in enumerate(self.names):
            for b, dst in enumerate(self.names):
                link = platform.link(src, dst) if a != b else None
                if link is not None and link.exclusive:
                    found.append((a, b))
        return {hop: len(self.names) + i for i, hop in enumerate(found)}

    @cached_property
    def memory_binds(self) -> tuple[bool, ...]:
        """For each device, whether holding everything that could ever be there is too much."""
        throughout = [0] * len(self.names)
        everywhere = sum(flow.nbytes for flow in self.tensors)
        for v, devices in enumerate(self.devices):
            for d in devices:
                throughout[d] += self.weights[v] + self.unread[v]
        return tuple(
            limit is not None and everywhere + own > limit
            for own, limit in zip(throughout, self.capacity, strict=True)
        )

    @cached_property
    def contended(self) -> bool:
        """Whether copies can be in the way of anything, or have to wait for memory."""
        devices = self.problem.platform.devices
        used = {d for allowed in self.devices for d in allowed}
        alone = all(devices[d].overlap for d in range(len(devices)))
        return len(used) > 1 and (not alone or bool(self._exclusive) or any(self.memory_binds))

    @cached_property
    def routes_form_trees(self) -> bool:
        """Whether the routes from one device never enter another by two different links.

        They can where a slow direct link wins over a fast detour that another route takes.
        A tensor may then reach a device twice, which the exact models do not weigh.
        """
        k = len(self.names)
        for nbytes in sorted({flow.nbytes for flow in self.tensors}):
            for j in range(k):
                routes = (self.route(j, target, nbytes) for target in range(k))
                hops = {hop for route in routes for hop in route or ()}
                if len({b for _, b in hops}) < len(hops):
                    return False
        return True


def _by_task(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    rows: list[list[int]] = [[] for _ in range(count)]
    for task, tensor in pairs:
        rows[task].append(tensor)
    return tuple(tuple(row) for row in rows)


def _groups(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Tasks that must share a device, in topological order; those of one color are a group."""
    index = problem.graph.index
    groups: dict[str | tuple[str], list[int]] = {}
    for task in problem.graph.topological_order:
        color = problem.graph.task(task).color
        groups.setdefault((task,) if color is None else color, []).append(index[task])
    return tuple(tuple(group) for group in groups.values())


def _allowed_devices(
    problem: Problem, groups: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    allowed: list[tuple[int, ...]] = [()] * len(problem.tasks)
    for group in groups:
        rows = [problem.devices_for(problem.tasks[v].id) for v in group]
        common = set(rows[0]).intersection(*rows[1:])
        if not common:
            raise InfeasibleError(
                f"color {problem.tasks[group[0]].color!r}: no device can run all of its "
                f"{len(group)} tasks; add a cost on a common device, or drop the color"
            )
        places = tuple(d for d, name in enumerate(problem.platform.names) if name in common)
        for v in group:
            allowed[v] = places
    return tuple(allowed)
