"""Platforms of several nodes, and plans for them, for the tests of the cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tests.models import NATIVE, PLAIN, lowered, random_schedule, unit_problem, with_sizes
from tvm_hetero.cluster.flow import flow, put_elements, take_elements
from tvm_hetero.cluster.node import Node
from tvm_hetero.cluster.parts import Parts
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.runtime.compile import Network, build
from tvm_hetero.schedule import Schedule

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
    for lane in parts.lanes:
        for part in lane.parts:
            place = folder / part.name
            placed = annotate_devices(part.module, part.problem, part.schedule)
            built = build(placed, single=False, network=network)
            built.save(place)
            node = found[part.node]
            for file in sorted(p for p in place.rglob("*") if p.is_file()):
                data = np.fromfile(file, np.uint8)
                node.receive(part.name, str(file.relative_to(place)), data)
            node.start(part.name, [name for name, _ in part.inputs], lane.elements, groups)
    return found


def run_parts(parts: Parts, found: dict[str, Node], inputs: list[Array]) -> list[Array]:
    """The outputs of a model, part by part; inputs and outputs stacked."""

    def call(part: Any, args: list[Any]) -> Any:
        made = found[part.node].run(part.name, 0, None, *args)
        return made if part.outputs > 1 else [made]

    made = [
        flow(lane, call, [take_elements(x, lane, parts.batch) for x in inputs])
        for lane in parts.lanes
    ]
    return [
        put_elements([lane[k] for lane in made], parts.lanes, output.shape, parts.batch)
        for k, output in enumerate(parts.outputs)
    ]
