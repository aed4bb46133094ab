"""Random small problems whose devices share cores: as `small_problem`, on teams.

Teams are nested (cores, pairs, all) or any sets, on one node or two, sometimes beside a device of
its own; wider ones are mostly quicker, and less so than in proportion. Hand-overs cost nothing,
time, or time of both ends. With `limited`, the memory of each node's teams has a limit, which they
share; it may be too small for anything.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.fuzz.small_problems import MOST_TASKS, small_problem
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import TaskGraph

# Sets of cores: some nested, some not.
_NESTED: list[tuple[tuple[int, ...], ...]] = [
    ((0,), (1,), (0, 1)),
    ((0,), (0, 1)),
    ((0,), (1,), (2,), (0, 1), (0, 1, 2)),
    ((0, 1), (0,), (2, 3), (0, 1, 2, 3)),
    ((0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 1, 2, 3)),
]
_ANY: list[tuple[tuple[int, ...], ...]] = [
    ((0, 1), (1, 2)),
    ((0, 1), (1, 2), (0, 2)),
    ((0, 1), (1,), (1, 2)),
    ((0, 1, 2), (2, 3), (0,)),
]


def team_problem(
    seed: int, kinds: tuple[Kind, ...] = ("latency",), batch: int = 1, *, limited: bool = False
) -> Problem:
    """The problem of a seed."""
    rng = random.Random(seed)
    kind = rng.choice(kinds)
    graph = small_problem(seed).graph
    # Throughput asks for nested teams, see `tvm_hetero.platform.teams.nested`.
    sets = rng.choice(_NESTED if kind == "throughput" or rng.random() < 0.7 else _ANY)
    elements = rng.randint(1, batch)
    keep = list(graph.tasks)[: MOST_TASKS[max(2, elements)]]
    names = {task.id for task in keep}
    edges = [edge for edge in graph.edges if edge.src in names and edge.dst in names]
    graph = type(graph)(keep, edges)
    platform = _platform(rng, sets)
    costs = {task.id: _costs(rng, platform, elements) for task in keep}
    limit = None
    if kind in ("energy", "cost") and rng.random() < 0.3:
        limit = elements * sum(max(c.seconds(1) for c in row.values()) for row in costs.values())
    if limited:
        platform = _limited(random.Random(f"memory of {seed}"), platform, graph, elements)
    return Problem(graph, costs, platform, Objective(kind, elements, limit), f"teams-{seed}")


def _limited(rng: random.Random, platform: Platform, graph: TaskGraph, elements: int) -> Platform:
    """The platform with memories that may be too small: one for the teams of a node."""
    whole = sum(task.weight_bytes + elements * task.output_bytes for task in graph.tasks)

    def size() -> int | None:
        return int(whole * rng.uniform(0.3, 1.0)) + 2 if rng.random() < 0.9 else None

    of_node = {node: size() for node in sorted({device.node for device in platform.devices})}
    rows = [
        replace(device, memory=of_node[device.node] if device.cores else size())
        for device in platform.devices
    ]
    return replace(platform, devices=tuple(rows))


def _platform(rng: random.Random, sets: tuple[tuple[int, ...], ...]) -> Platform:
    overlap = rng.random() < 0.6
    alike = rng.random() < 0.6
    rows = []
    for i, cores in enumerate(sets):
        w = len(cores)
        rows.append(
            Device(
                f"t{i}", cores=cores, overlap=overlap or rng.random() < 0.3,
                watts=float(w * (5 if alike else rng.randint(1, 9))),
                idle_watts=float(w * (1 if alike else rng.randint(0, 2))),
                price=float(w * 360 * (2 if alike else rng.randint(0, 5))),
            )
        )  # fmt: skip
    if rng.random() < 0.3:
        other = rng.choice(["node0", "node1"])
        rows.append(Device("gpu", node=other, watts=9.0, price=720.0, overlap=overlap))
    if rng.random() < 0.2:
        rows[-1] = replace(rows[-1], node="node1")
    fabrics = [Fabric(node, *_link(rng)) for node in sorted({row.node for row in rows})]
    rng.shuffle(rows)
    return Platform(tuple(rows), fabrics=(*fabrics, Fabric(None, *_link(rng))))


def _link(rng: random.Random) -> tuple[float, float, bool]:
    bandwidth = rng.choice([float("inf"), float(rng.randint(5, 100))])
    return bandwidth, rng.choice([0.0, 0.0, 0.1]), rng.random() < 0.15


def _costs(rng: random.Random, platform: Platform, batch: int) -> dict[str, Cost]:
    if rng.random() < 0.05:
        return {name: Cost(((1, 0.0),)) for name in platform.names}
    work, efficiency = rng.randint(1, 12) / 4, rng.choice([0.0, 0.5, 0.8, 0.95, 1.1])
    exact = rng.random() < 0.5
    row = {}
    for device in platform.devices:
        if rng.random() < 0.1:
            continue
        width = max(1, len(device.cores))
        seconds = work / (1 + efficiency * (width - 1)) * (1 if exact else rng.uniform(0.9, 1.1))
        table: tuple[tuple[int, float], ...] = ((1, seconds),)
        if batch > 1 and rng.random() < 0.5:
            table = ((1, seconds), (2, seconds * rng.choice([1.2, 1.5, 1.9])))
        row[device.name] = Cost(table)
    return row or {platform.names[0]: Cost(((1, work),))}
