"""Random small problems of modules whose devices are alike, or nearly.

Forks of one to three branches between cuts, now and then with a branch before another. Devices are
of one or two classes: on one fabric, on nodes of equal or unequal sizes, teams of cores, in a ring,
in pairs, around a hub; links that nearly all are equal, but for one. Most tasks take as long on all
devices of a class; now and then one does not, or cannot run on one. All numbers are small whole or
half ones, so that much is tied. Asked for is the latency of one element; of one problem in six it
is throughput, of one or two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph

# A platform and the class of each of its devices.
_Classed: TypeAlias = tuple[Platform, list[int]]
_LinkFigures: TypeAlias = tuple[float, float, bool]

_SECONDS = (1.0, 1.5, 2.0, 3.0, 4.0, 7.0)
_COLORS: tuple[tuple[str | None, ...], ...] = (
    (None,), (None,), (None, None, "red"), (None, "red", "blue"),
)  # fmt: skip
_NODES = ((2, 2), (1, 2), (1, 1, 1), (2, 1))
_TEAMS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((0,), (1,), (0, 1)),
    ((0,), (1,), (2,), (0, 1, 2)),
    ((0, 1), (1, 2), (0, 2)),
    ((0,), (1,), (2,), (3,), (0, 1), (2, 3)),
)
_OBJECTIVES = (
    *[Objective("latency")] * 10, Objective("throughput"), Objective("throughput", 2),
)  # fmt: skip
_SHAPES = ("same", "ring", "one", "pairs", "hub")


def alike_problem(seed: int) -> Problem:
    """The problem of a seed."""
    rng = random.Random(seed)
    graph = _graph(rng)
    platform, classes = _platform(rng)
    oddness = rng.random()
    costs = {task.id: _costs(rng, platform, classes, oddness) for task in graph.tasks}
    objective = rng.choice(_OBJECTIVES)
    return Problem(graph, costs, platform, objective, f"alike-{seed}")


def _graph(rng: random.Random) -> TaskGraph:
    names: list[str] = []
    edges = list(_edges(rng, names))
    made = dict.fromkeys(names, 0)
    for edge in {(edge.src, edge.tensor): edge for edge in edges}.values():
        made[edge.src] += edge.bytes
    shades = rng.choice(_COLORS)
    tasks = [
        Task(
            name,
            weight_bytes=rng.choice([0, 0, 3]),
            output_bytes=made[name],
            color=rng.choice(shades),
        )
        for name in names
    ]
    return TaskGraph(tasks, edges)


def _edges(rng: random.Random, names: list[str]) -> Iterator[Edge]:
    """Forks and joins, until there are enough tasks; their names go to `names`."""

    def new() -> str:
        names.append(f"t{len(names)}")
        return names[-1]

    most = rng.randint(3, 7)
    cut = new() if rng.random() < 0.7 else None
    while len(names) < most:
        branches = [new() for _ in range(rng.randint(1, 3))]
        if cut is not None:
            yield from _fork(rng, cut, branches)
        if len(branches) == 3 and rng.random() < 0.4:
            yield Edge(branches[0], branches[1], 2, f"{branches[0]}.s")
        if len(names) >= most and rng.random() < 0.4:
            return
        cut = new()
        for branch in branches:
            yield Edge(branch, cut, rng.randint(0, 4), f"{branch}.o")


def _fork(rng: random.Random, cut: str, branches: Sequence[str]) -> Iterator[Edge]:
    """From a cut to branches, which take one tensor or each its own."""
    shared = rng.random() < 0.4
    for branch in branches:
        size = 3 if shared else rng.randint(0, 4)
        yield Edge(cut, branch, size, f"{cut}.x" if shared else f"{cut}.{branch}")


def _platform(rng: random.Random) -> _Classed:
    make = rng.choice([_on_fabric, _on_fabric, _on_nodes, _teams, _linked, _linked, _around_hub])
    return make(rng, rng.random() < 0.6)


def _on_fabric(rng: random.Random, overlap: bool) -> _Classed:
    count, limited = rng.randint(2, 4), rng.random() < 0.2
    classes = [rng.randint(0, 1) for _ in range(count)]
    # Never so little that it binds: a device with a limit is another than one without.
    devices = [
        Device(f"d{i}", overlap=overlap, memory=rng.choice([None, 10**6]) if limited else None)
        for i in range(count)
    ]
    return Platform(tuple(devices), fabrics=(_fabric("node0", _link(rng)),)), classes


def _on_nodes(rng: random.Random, overlap: bool) -> _Classed:
    rows = []
    for node, count in enumerate(rng.choice(_NODES)):
        for i in range(count):
            device = Device(f"n{node}d{i}", node=f"n{node}", overlap=overlap)
            rows.append((device, i if rng.random() < 0.9 else 1))
    rng.shuffle(rows)
    usual = _link(rng)
    fabrics = [
        _fabric(node, usual if rng.random() < 0.9 else _link(rng))
        for node in sorted({device.node for device, _ in rows})
    ]
    return _classed(rows, [*fabrics, _fabric(None, _link(rng))])


def _teams(rng: random.Random, overlap: bool) -> _Classed:
    sets = rng.choice(_TEAMS)
    rows = [(Device(f"c{i}", cores=c, overlap=overlap), len(c)) for i, c in enumerate(sets)]
    if rng.random() < 0.3:
        rows.append((Device("gpu", overlap=overlap), 9))
    rng.shuffle(rows)
    return _classed(rows, [_fabric("node0", _link(rng))])


def _classed(rows: Sequence[tuple[Device, int]], fabrics: Sequence[Fabric]) -> _Classed:
    platform = Platform(tuple(device for device, _ in rows), fabrics=tuple(fabrics))
    return platform, [kind for _, kind in rows]


def _linked(rng: random.Random, overlap: bool) -> _Classed:
    return _with_links(rng, overlap, rng.choice(_SHAPES))


def _around_hub(rng: random.Random, overlap: bool) -> _Classed:
    return _with_links(rng, overlap, "hub")


def _with_links(rng: random.Random, overlap: bool, shape: str) -> _Classed:
    count = rng.randint(3, 4)
    devices = tuple(
        Device(f"d{i}", overlap=overlap if rng.random() < 0.9 else not overlap)
        for i in range(count)
    )
    classes = [0] * count if rng.random() < 0.6 else [rng.randint(0, 1) for _ in range(count)]
    usual, other = _link(rng), _link(rng)
    links = [
        Link(f"d{i}", f"d{j}", *(usual if _is_usual(shape, count, i, j) else other))
        for i in range(count)
        for j in range(count)
        if i != j and not (shape == "hub" and _is_lost(rng, count, i, j))
    ]
    return Platform(devices, tuple(links)), classes


def _is_usual(shape: str, count: int, i: int, j: int) -> bool:
    match shape:
        case "ring":
            return (j - i) % count == 1
        case "one":
            return (i, j) != (0, 1)
        case "pairs":
            return i // 2 == j // 2
        case "hub":
            return count - 1 in (i, j)
    return True


def _is_lost(rng: random.Random, count: int, i: int, j: int) -> bool:
    """Whether a link between two spokes is missing, so that what is copied goes over the hub."""
    return count - 1 not in (i, j) and (i + j) % 2 == 0 and rng.random() < 0.7


def _fabric(node: str | None, figures: _LinkFigures) -> Fabric:
    return Fabric(node, *figures)


def _link(rng: random.Random) -> _LinkFigures:
    bandwidth, latency = rng.choice([math.inf, 2.0, 4.0, 8.0]), rng.choice([0.0, 0.5, 1.0])
    return bandwidth, latency, rng.random() < 0.3


def _costs(
    rng: random.Random, platform: Platform, classes: Sequence[int], oddness: float
) -> dict[str, Cost]:
    """Of one task: by classes, but for a few."""
    seconds = {kind: rng.choice(_SECONDS) for kind in sorted(set(classes))}
    of = dict(zip(platform.names, classes, strict=True))
    row = {name: seconds[kind] for name, kind in of.items()}
    if oddness < 0.25 and rng.random() < 0.25 and len(row) > 1:
        del row[rng.choice(list(row))]
    if oddness > 0.9 and rng.random() < 0.25:
        row[rng.choice(list(row))] = 2.5
    if rng.random() < 0.1:
        kind = rng.choice(sorted(set(classes)))
        row = {name: each for name, each in row.items() if of[name] == kind} or row
    return {name: Cost(((1, each),)) for name, each in row.items()}
