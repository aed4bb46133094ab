"""Hypothesis strategies: random graphs, platforms, problems and ways to carry them out.

Every feature flag says what MAY occur: ``memory=False`` means that no device has a capacity,
``memory=True`` that some may have one. Numbers are small multiples of 1/8 and bandwidths powers
of two (so sums are exact in floats and in integers of 1/8 s) unless ``exact=False``, which draws
times over eight orders of magnitude with all their digits.

With ``feasible=True`` (the default) device ``d0`` can run every task, its memory holds
everything at once and the latency limit leaves it time: the problem has a solution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph

Step = tuple[str, str, tuple[int, ...]]

__all__ = ["Step", "graphs", "orders", "platforms", "problems"]


_NESTED: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (0, 1), (0, 1), (0, 1, 2)]


def seconds(exact: bool) -> st.SearchStrategy[float]:
    """A time of at least 0."""
    eighths = st.integers(0, 64).map(lambda k: k / 8)
    if exact:
        return eighths
    wide = st.tuples(st.floats(1.0, 10.0), st.integers(-7, 0)).map(lambda p: p[0] * 10.0 ** p[1])
    return st.one_of(wide, st.just(0.0))


@st.composite
def graphs(draw: st.DrawFn, max_tasks: int = 6, colors: bool = True) -> TaskGraph:
    """A random directed acyclic graph; some tasks make two tensors, some outputs go unread."""
    count = draw(st.integers(1, max_tasks))
    names = [f"t{i}" for i in range(count)]
    size = st.integers(0, 16).map(lambda k: k * 4)
    edges = []
    made = [0] * count
    for src in range(count):
        sizes = {"": draw(size), ".b": draw(size)}
        used: set[str] = set()
        for dst in range(src + 1, count):
            for suffix in draw(st.sampled_from([(), (), ("",), ("",), (".b",), ("", ".b")])):
                tensor = names[src] + suffix
                edges.append(Edge(names[src], names[dst], sizes[suffix], tensor))
                used.add(suffix)
        made[src] = sum(sizes[suffix] for suffix in used)
    shades = [None, None, "red", "blue"] if colors else [None]
    tasks = [
        Task(
            name,
            weight_bytes=draw(size),
            output_bytes=made[i] + draw(st.sampled_from([0, 0, 8])),
            color=draw(st.sampled_from(shades)),
        )
        for i, name in enumerate(names)
    ]
    shuffled = draw(st.permutations(tasks))
    return TaskGraph(shuffled, edges)


@st.composite
def platforms(
    draw: st.DrawFn,
    max_devices: int = 3,
    *,
    overlap: bool = True,
    exclusive: bool = True,
    multi_hop: bool = True,
    exact: bool = True,
    teams: bool = False,
) -> Platform:
    """Devices ``d0``, ``d1``, ... joined by a fabric, by all or some direct links, in a line, or
    (with `multi_hop`) over a device ``hub`` on which nothing runs. Not always connected.
    With `teams` they may share the cores 0, 1 and 2, each set nested in or apart from the others.
    """
    count = draw(st.integers(1, max_devices))
    names = [f"d{i}" for i in range(count)]
    shapes = ["fabric", "all"]
    if multi_hop:
        shapes += ["some", "line", "hub"]
    shape = draw(st.sampled_from(shapes))
    if shape == "hub":
        names.append("hub")
    devices = tuple(
        Device(
            name,
            overlap=overlap and draw(st.booleans()),
            watts=draw(st.integers(0, 8)) / 1.0,
            idle_watts=draw(st.integers(0, 2)) / 1.0,
            price=draw(st.integers(0, 8)) * 450.0,
            cores=draw(st.sampled_from(_NESTED)) if teams else (),
        )
        for name in names
    )
    if shape == "fabric":
        fabric = Fabric("node0", *draw(_figures(exclusive, exact)))
        return Platform(devices, fabrics=(fabric,))
    links = tuple(
        Link(
            a,
            b,
            *draw(_figures(exclusive, exact)),
            cold_bandwidth=None if exact else draw(st.sampled_from([None, 1e2, 3e7])),
        )
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if a != b and _joined(draw, shape, i, j, len(names) - 1)
    )
    return Platform(devices, links)


def _joined(draw: st.DrawFn, shape: str, i: int, j: int, last: int) -> bool:
    if shape == "line":
        return abs(i - j) == 1
    if shape == "hub":
        return last in (i, j)
    return shape == "all" or draw(st.booleans())


@st.composite
def _figures(draw: st.DrawFn, exclusive: bool, exact: bool) -> tuple[float, float, bool]:
    """Bandwidth, latency and exclusiveness of a link."""
    if exact:
        bandwidth = draw(st.sampled_from([math.inf, 8.0, 16.0, 32.0]))
        latency = draw(st.sampled_from([0.0, 0.0, 0.5, 1.0]))
    else:
        bandwidth = draw(st.sampled_from([math.inf, 3e2, 7e5, 1.1e9]))
        latency = draw(st.one_of(st.just(0.0), st.floats(1e-7, 1e-1)))
    return bandwidth, latency, exclusive and draw(st.booleans())


@st.composite
def _with_energy(draw: st.DrawFn, cost: Cost, idle: float, batch: int) -> Cost:
    """A cost with energies of some numbers of elements, none below idling; or without any."""
    if draw(st.booleans()):
        return cost
    above = st.integers(0, 32).map(lambda k: k / 8)
    return replace(
        cost, energy=tuple((n, idle * cost.seconds(n) + draw(above)) for n in range(1, batch + 1))
    )


@st.composite
def problems(
    draw: st.DrawFn,
    max_tasks: int = 6,
    max_devices: int = 3,
    *,
    kinds: Sequence[Kind] = ("latency",),
    batch: int = 1,
    memory: bool = False,
    colors: bool = True,
    overlap: bool = True,
    exclusive: bool = True,
    multi_hop: bool = True,
    feasible: bool = True,
    exact: bool = True,
    contiguous: bool = False,
    teams: bool = False,
    energies: bool = False,
) -> Problem:
    """A random problem of 1 to `batch` elements (see the top of this file).

    `contiguous` asks for contiguous stages wherever throughput is the objective; with `energies`
    tasks may have an energy of their own on some devices.
    """
    graph = draw(graphs(max_tasks, colors))
    platform = draw(
        platforms(
            max_devices,
            overlap=overlap,
            exclusive=exclusive,
            multi_hop=multi_hop,
            exact=exact,
            teams=teams,
        )
    )
    elements = draw(st.integers(1, batch))
    workers = [name for name in platform.names if name != "hub"]
    costs = {}
    for task in graph.tasks:
        able = draw(st.sets(st.sampled_from(workers), min_size=1))
        if feasible:
            able = able | {"d0"}
        costs[task.id] = {d: draw(_costs(elements, exact)) for d in workers if d in able}
        if energies:
            idle = {d: platform.device(d).idle_watts for d in workers}
            own = costs[task.id].items()
            costs[task.id] = {d: draw(_with_energy(c, idle[d], elements)) for d, c in own}
    if memory:
        platform = draw(_with_memory(platform, graph, elements, feasible))
    kind = draw(st.sampled_from(list(kinds)))
    limit = None
    if kind in ("energy", "cost") and draw(st.booleans()):
        alone = math.fsum(
            row.get("d0", Cost(((1, 1.0),))).seconds(elements) for row in costs.values()
        )
        limit = alone * draw(st.sampled_from([1.0, 2.0] if feasible else [0.25, 1.0]))
    stages = contiguous and kind == "throughput"
    if stages and draw(st.booleans()):
        costs |= draw(_free_ends(graph, workers))
    return Problem(graph, costs, platform, Objective(kind, elements, limit, stages))


@st.composite
def _costs(draw: st.DrawFn, elements: int, exact: bool) -> Cost:
    """Mostly one number; for batches sometimes a table with an economy of scale, or that falls."""
    one = draw(seconds(exact))
    if elements == 1 or draw(st.booleans()):
        return Cost(((1, one),))
    return Cost(((1, one), (2, one * draw(st.sampled_from([0.75, 1.0, 1.5, 2.0])))))


@st.composite
def _free_ends(draw: st.DrawFn, graph: TaskGraph, workers: list[str]) -> dict[str, dict[str, Cost]]:
    """Inputs and outputs that take no time: on the host d0 alone, on two hosts, or anywhere."""
    names = [task.id for task in graph.tasks]
    ends = [name for name in names if not (graph.inputs[name] and graph.outputs[name])]
    hosts = [workers[:1], [workers[0], workers[-1]], workers]
    free = Cost(((1, 0.0),))
    return {end: dict.fromkeys(draw(st.sampled_from(hosts)), free) for end in ends}


@st.composite
def _with_memory(
    draw: st.DrawFn, platform: Platform, graph: TaskGraph, elements: int, feasible: bool
) -> Platform:
    """Give devices capacities around what the graph needs in all."""
    need = sum(t.weight_bytes for t in graph.tasks)
    need += elements * sum(t.bytes for t in graph.tensors.values())
    need += elements * sum(graph.unread_bytes(t.id) for t in graph.tasks)
    devices = []
    for device in platform.devices:
        share = st.sampled_from([None, need, need // 2, need // 3, need // 4])
        if feasible and device.name == "d0":
            share = st.sampled_from([None, need])
        devices.append(replace(device, memory=draw(share)))
    # Teams see one memory.
    teams = [device for device in devices if device.name in platform.team_cores]
    devices = [
        replace(device, memory=teams[0].memory) if device in teams else device for device in devices
    ]
    return Platform(tuple(devices), platform.links, platform.fabrics)


@st.composite
def orders(draw: st.DrawFn, problem: Problem, *, split: bool = True) -> list[Step]:
    """A random way to carry out `problem`: (task, device, elements) in a topological order.

    Colors are obeyed and every tensor can reach its readers (examples where it cannot are
    dropped); memory is not looked at. `split` divides batches over several executions.
    """
    color_home: dict[str, str] = {}
    parts: list[Step] = []
    for task in problem.tasks:
        able: tuple[str, ...] = problem.devices_for(task.id)
        if task.color is not None:
            group = problem.colors[task.color]
            able = tuple(d for d in able if all(d in problem.devices_for(t) for t in group))
            assume(able)
            able = (color_home.setdefault(task.color, draw(st.sampled_from(able))),)
        divisions = draw(_divisions(problem.batch if split else 1, problem.batch))
        parts += [(task.id, draw(st.sampled_from(able)), elements) for elements in divisions]
    assume(_reachable(problem, parts))
    return _topological(draw, problem, parts)


@st.composite
def _divisions(draw: st.DrawFn, most: int, batch: int) -> list[tuple[int, ...]]:
    """Divide the elements 0 .. batch - 1 into at most `most` parts."""
    labels = draw(st.lists(st.integers(1, most), min_size=batch, max_size=batch))
    parts = (tuple(e for e in range(batch) if labels[e] == k) for k in range(1, most + 1))
    return [part for part in parts if part]


def _needs(problem: Problem, step: Step, parts: Sequence[Step]) -> list[Step]:
    """The parts whose tensors `step` reads."""
    before = problem.graph.predecessors[step[0]]
    return [p for p in parts if p[0] in before and set(p[2]) & set(step[2])]


def _reachable(problem: Problem, parts: Sequence[Step]) -> bool:
    return all(
        problem.platform.connected(need[1], step[1])
        for step in parts
        for need in _needs(problem, step, parts)
    )


def _topological(draw: st.DrawFn, problem: Problem, parts: Sequence[Step]) -> list[Step]:
    left = list(draw(st.permutations(parts)))
    done: list[Step] = []
    while left:
        ready = next(p for p in left if all(n in done for n in _needs(problem, p, parts)))
        left.remove(ready)
        done.append(ready)
    return done
