"""Platforms of several nodes, and plans for them, for the tests of the cluster."""

from __future__ import annotations

import itertools
import os
import queue
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tests.models import NATIVE, PLAIN, lowered, random_schedule, unit_problem, with_sizes
from tvm_hetero.cluster.node import Node
from tvm_hetero.cluster.parts.parts import Lane, Parts, PartSource
from tvm_hetero.cluster.stacking import put_elements, take_elements
from tvm_hetero.cluster.transport.message import DRIVER, GIVEN, Message
from tvm_hetero.cluster.transport.routes import LaneRoutes, route_lane
from tvm_hetero.compiler.build import Network, build
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Schedule

Array = np.ndarray[Any, Any]


def nodes(*counts: int, private: bool = False) -> Platform:
    """Nodes of so many devices each, on whatever cores there are; the last may be private."""
    cores = sorted(os.sched_getaffinity(0))
    devices = []
    for node, count in enumerate(counts):
        for k in range(count):
            target = NATIVE if len(devices) % 2 == 0 else PLAIN
            core = cores[len(devices) % len(cores)]
            name = f"n{node}.cpu{k}"
            devices.append(Device(name, f"n{node}", target=target, cores=(core,), overlap=True))
    if private:
        devices[-1] = replace(devices[-1], private=True)
    fabrics = [Fabric(f"n{i}", 1e10, 1e-6) for i, count in enumerate(counts) if count > 1]
    network = Fabric(None, 1e9, 1e-4)
    return Platform(tuple(devices), (), (*fabrics, network), "nodes", shared_cores=True)


def planned(
    module: tvm.IRModule, platform: Platform, seed: int, batch: int = 1, *, sizes: bool = True
) -> tuple[tvm.IRModule, Problem, Schedule]:
    """A module lowered and placed at random on a platform."""
    module = lowered(module, platform)
    problem = unit_problem(module, platform, batch)
    problem = with_sizes(problem, module, seed) if sizes else problem
    return module, problem, random_schedule(problem, seed)


def started(
    parts: Parts,
    folder: Path,
    groups: int = 0,
    network: Network | None = None,
) -> dict[str, Node]:
    """Nodes in this process, each with its parts built (as parts of a network) and started."""
    found = {name: Node(name) for name in parts.nodes}
    for number, lane in enumerate(parts.lanes):
        ways = route_lane("model", number, lane)
        for part, at in zip(lane.parts, ways.places, strict=True):
            place = folder / part.name
            placed = annotate_devices(part.module, part.problem, part.schedule)
            built = build(placed, single=False, network=network)
            built.save(place)
            node = found[part.node]
            for file in sorted(p for p in place.rglob("*") if p.is_file()):
                data = np.fromfile(file, np.uint8)
                node.receive(part.name, str(file.relative_to(place)), data)
            names = [name for name, _ in part.inputs]
            node.start(part.name, names, lane.elements, groups, at)
    return found


def run_parts(parts: Parts, found: dict[str, Node], inputs: list[Array]) -> list[Array]:
    """The outputs of a model, computed by nodes of this process; inputs and outputs stacked."""
    request = next(_requests)
    made = []
    for number, lane in enumerate(parts.lanes):
        given = [take_elements(x, lane, parts.batch) for x in inputs]
        made.append(_run_lane(lane, route_lane("model", number, lane), found, given, request))
    assert [node.waiting() for node in found.values()] == [0] * len(found)
    return [
        put_elements([row[k] for row in made], parts.lanes, output.shape, parts.batch)
        for k, output in enumerate(parts.outputs)
    ]


_requests = itertools.count(1)


def _run_lane(
    lane: Lane, ways: LaneRoutes, found: dict[str, Node], given: list[Array], request: int
) -> list[Array]:
    came: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def send(reader: str, message: Message) -> None:
        if reader == DRIVER:
            came.put(message)
        else:
            found[reader].take(message.own(), send)

    (model, number) = next((place.model, place.lane) for place in ways.places)
    for node, indices in ways.given.items():
        arrays = [given[index] for index in indices]
        send(node, Message(model, number, GIVEN, request, 0, None, indices, arrays))
    values = {PartSource(None, index): array for index, array in enumerate(given)}
    while any(source not in values for source in lane.results):
        message = came.get(timeout=60)
        assert message.error is None
        for index, array in zip(message.indices, message.arrays, strict=True):
            values[PartSource(message.part, index)] = array
    return [values[source] for source in lane.results]
