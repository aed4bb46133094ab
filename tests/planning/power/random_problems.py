"""Random problems with watts, of what rounding, equality and nothing at all go wrong with.

Levels, teams and plain devices; thirds of seconds and of watts, costs that are equal or 0, memories
that bind, devices that nothing leads to.
"""

from __future__ import annotations

import math
from random import Random

from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph

THIRD = 1 / 3
SECONDS = (0.0, 0.0, THIRD, THIRD, 1.0, 1.0, 2 * THIRD, 0.1, 0.7, 1 + 1e-7)
FAR_APART = (1e-6, 123.456, 1e5)
WATTS = (0.0, 1.0, 2.0, THIRD, 2.5, 4.0, 10.0, 0.0123)
IDLE = (0.0, 0.0, 0.5, 1.0, THIRD, 2.0)
BYTES = (None, None, 8, 12, 16, 24)


def random_problem(draw: Random) -> Problem:
    """A throughput problem of one to three tasks, and at most nine devices on three places."""
    devices = _devices(draw)
    names = [d.name for d in devices]
    count = draw.randint(1, 3)
    made = [draw.choice([0, 4, 4, 8]) for _ in range(count)]
    tasks = [
        Task(f"t{i}", weight_bytes=draw.choice([0, 0, 4]), output_bytes=nbytes,
             color=draw.choice([None] * 4 + ["x"]))
        for i, nbytes in enumerate(made)
    ]  # fmt: skip
    edges = [
        Edge(f"t{i}", f"t{j}", made[i])
        for j in range(count)
        for i in range(j)
        if draw.random() < 0.5
    ]
    seconds = [*SECONDS, *FAR_APART] if draw.random() < 0.3 else SECONDS
    if draw.random() < 0.2:
        seconds = [draw.choice(seconds)]
    costs = {}
    for task in tasks:
        able = [name for name in names if task.color or draw.random() < 0.7]
        able = able or [draw.choice(names)]
        costs[task.id] = {name: Cost(((1, draw.choice(seconds)),)) for name in able}
    platform = Platform(devices, *_links(draw, names))
    return Problem(TaskGraph(tasks, edges), costs, platform, Objective("throughput"))


def _devices(draw: Random) -> tuple[Device, ...]:
    """Plain ones, nested teams, or levels; most draw more while they are busy than idle."""
    kind, found, shared = draw.choice(["plain", "teams", "levels"]), [], draw.choice(BYTES)
    warmer = draw.random() < 0.8
    for i in range(draw.randint(1, 3)):
        idle, overlap = draw.choice(IDLE), draw.random() < 0.5
        level_of, memory, cores = None, draw.choice(BYTES), ()
        names = [f"d{i}"]
        if kind == "teams":
            cores = draw.choice([(0,), (1,), (0, 1), (0, 1), (0, 1, 2)])
            memory = shared
        elif kind == "levels":
            cores = draw.choice([(i,), (i, 10 + i), (i, 10 + i, 20 + i)])
            level_of = f"d{i}"
            names = [f"d{i}.{level}" for level in range(draw.randint(1, 3))]
        for name in names:
            watts = draw.choice(WATTS) + (idle + 2.0) * warmer
            found.append(
                Device(name, cores=cores, memory=memory, overlap=overlap, watts=watts,
                       idle_watts=idle, level_of=level_of)
            )  # fmt: skip
    return tuple(found)


def _links(draw: Random, names: list[str]) -> tuple[tuple[Link, ...], tuple[Fabric, ...]]:
    """A fabric, or links between some places, of which all levels have the same."""

    def figures() -> tuple[float, float, bool]:
        bandwidth = draw.choice([math.inf, 3.0, 8.0, 1e9])
        return bandwidth, draw.choice([0.0, 0.0, THIRD, 1e-3]), draw.random() < 0.3

    if draw.random() < 0.5:
        return (), (Fabric("node0", *figures()),)
    places = sorted({name.split(".")[0] for name in names})
    joined = {(a, b): figures() for a in places for b in places if draw.random() < 0.7}
    found = []
    for a in names:
        for b in names:
            ends = a.split(".")[0], b.split(".")[0]
            if a != b and ends[0] == ends[1]:
                found.append(Link(a, b))
            elif a != b and ends in joined:
                found.append(Link(a, b, *joined[ends]))
    return tuple(found), ()
