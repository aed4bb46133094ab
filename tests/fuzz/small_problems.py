"""Random scheduling problems that are small enough to be solved by going through everything.

A seed is a problem: a few tasks, one to three devices (and some with a hub), one to four elements,
and of everything that a problem may have some: copies over several hops, links that are missing,
exclusive or infinitely fast, copy engines, several nodes, equal devices, tables of batch costs
(also falling ones), memory, colours, contiguous stages, latency limits, tasks that take no time.
Numbers are of one of three kinds: small whole ones, where much is tied; three digits; and all
digits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import KINDS, Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph

# Tasks that a problem of so many elements has at most.
MOST_TASKS = {1: 7, 2: 5, 3: 4, 4: 3}
_Draw = Callable[[float, float], float]


def small_problem(seed: int) -> Problem:
    """The problem of a seed."""
    rng = random.Random(seed)
    batch = rng.choice([1, 2, 2, 3, 3, 4])
    draw = _numbers(rng)
    names = [f"t{i}" for i in range(rng.randint(1, MOST_TASKS[batch]))]
    graph = _graph(rng, names)
    platform = _platform(rng, draw, graph, batch)
    costs = {name: _costs(rng, draw, platform, batch) for name in names}
    most = sum(max(cost.seconds(1) for cost in row.values()) for row in costs.values())
    return Problem(graph, costs, platform, _objective(rng, batch, most), f"small-{seed}")


def _numbers(rng: random.Random) -> _Draw:
    kind = rng.randrange(3)
    if kind == 0:
        return lambda low, high: float(rng.randint(math.ceil(low * 10), math.ceil(high * 10)))
    if kind == 1:
        return lambda low, high: round(rng.uniform(low, high), 3)
    return rng.uniform


def _graph(rng: random.Random, names: list[str]) -> TaskGraph:
    density, heavy = rng.choice([0.3, 0.6, 0.9]), rng.choice([0, 8, 40])
    edges, made = [], dict.fromkeys(names, 0)
    for i, src in enumerate(names):
        sizes = {"": rng.randint(0, 10), ".b": rng.randint(0, 10)}
        used = set()
        for dst in names[i + 1 :]:
            if rng.random() < density:
                suffix = rng.choice(["", "", ".b"])
                edges.append(Edge(src, dst, sizes[suffix], src + suffix))
                used.add(suffix)
        made[src] = sum(sizes[suffix] for suffix in used)
    colors: list[list[str | None]] = [[None], [None], [None, "red"], [None, "red", "blue"]]
    shades = rng.choice(colors)
    tasks = [
        Task(
            name,
            weight_bytes=rng.randint(0, heavy),
            output_bytes=made[name] + rng.choice([0, 0, 5]),
            color=rng.choice(shades),
        )
        for name in names
    ]
    rng.shuffle(tasks)
    return TaskGraph(tasks, edges)


def _platform(rng: random.Random, draw: _Draw, graph: TaskGraph, batch: int) -> Platform:
    count = rng.choice([1, 2, 2, 3, 3])
    alike, overlap = rng.random() < 0.3, rng.random()
    nodes = rng.choice([["node0"], ["node0", "node1"]])
    tight = rng.random() < 0.5
    whole = sum(t.weight_bytes + batch * t.output_bytes for t in graph.tasks)
    rows = [
        Device(
            f"d{i}",
            node=rng.choice(nodes),
            overlap=rng.random() < overlap,
            memory=int(whole * rng.uniform(0.1, 1.1)) + 8 if tight else None,
            watts=float(rng.randint(1, 9)),
            idle_watts=float(rng.choice([0, 0, 1, 3])),
            price=float(rng.randint(0, 9)) * 360,
        )
        for i in range(count)
    ]
    if alike:
        first = rows[0]
        rows = [
            Device(row.name, first.node, overlap=first.overlap, memory=first.memory,
                   watts=first.watts, idle_watts=first.idle_watts, price=first.price)
            for row in rows
        ]  # fmt: skip
    if rng.random() < 0.5:
        fabrics = [Fabric(node, *_link(rng, draw)) for node in sorted({row.node for row in rows})]
        return Platform(tuple(rows), fabrics=(*fabrics, Fabric(None, *_link(rng, draw))))
    lost = rng.choice([0.0, 0.0, 0.3])
    if rng.random() < 0.3:
        # Nothing runs there, and detours over it may be quicker than direct links.
        rows.append(Device("hub", overlap=rng.random() < overlap, watts=1.0, price=360.0))
        lost = rng.choice([0.2, 0.5])
    links = tuple(
        Link(a.name, b.name, *_link(rng, draw))
        for a in rows
        for b in rows
        if a is not b and rng.random() >= lost
    )
    return Platform(tuple(rows), links)


def _link(rng: random.Random, draw: _Draw) -> tuple[float, float, bool]:
    bandwidth = rng.choice([math.inf, draw(5, 300), draw(50, 3000)])
    return bandwidth, rng.choice([0.0, draw(0.0, 0.3)]), rng.random() < 0.3


def _costs(rng: random.Random, draw: _Draw, platform: Platform, batch: int) -> dict[str, Cost]:
    able = [name for name in platform.names if name != "hub" and rng.random() < 0.85]
    able = able or [platform.names[0]]
    if rng.random() < 0.1:
        return {name: Cost(((1, 0.0),)) for name in able}
    return {name: Cost(_table(rng, draw, batch)) for name in able}


def _table(rng: random.Random, draw: _Draw, batch: int) -> tuple[tuple[int, float], ...]:
    """One number; or a table that mostly rises by less than in proportion."""
    first = draw(0.01, 1.0)
    if batch == 1 or rng.random() < 0.5:
        return ((1, first),)
    if rng.random() < 0.2:
        return tuple((n, draw(0.01, 1.0)) for n in sorted(rng.sample(range(1, batch + 1), 2)))
    rows, seconds = [(1, first)], first
    for n in range(2, batch + 1):
        seconds += first * rng.choice([0.2, 0.5, 0.8, 1.2])
        rows.append((n, seconds))
    return tuple(rows)


def _objective(rng: random.Random, batch: int, most: float) -> Objective:
    kind = rng.choice((*KINDS, *KINDS[:2]))
    if kind == "throughput":
        return Objective(kind, batch, contiguous=rng.random() < 0.4)
    if kind in ("energy", "cost") and rng.random() < 0.5:
        return Objective(kind, batch, latency_limit=most * batch * rng.uniform(0.3, 1.2) + 1e-3)
    return Objective(kind, batch)
