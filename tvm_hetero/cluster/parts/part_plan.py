"""The problem and the schedule of a part: the whole's, restricted, and timed anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import tvm

from tvm_hetero.errors import PlatformError
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.io_tasks import (
    INPUT_OP,
    OUTPUT_OP,
    host_device,
    io_costs,
    is_io_task,
    needs_io_tasks,
)
from tvm_hetero.passes.task_graph import task_graph
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Kind, Objective
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import Step, simulate
from tvm_hetero.solvers.core.options import make_schedule

SOLVER = "part"


@dataclass(frozen=True)
class Share:
    """What of the whole a part has.

    Attributes
    ----------
    platform : the node's devices alone.
    elements : of the whole's batch; the part calls them 0, 1, ...
    tasks : of the whole's problem, in the order of the part's calls.
    """

    platform: Platform
    elements: tuple[int, ...]
    tasks: tuple[str, ...]


def sub_platform(platform: Platform, node: str) -> Platform:
    """The devices of one node and what joins them.

    Raises
    ------
    PlatformError
        If the platform has no such node.
    """
    devices = tuple(device for device in platform.devices if device.node == node)
    if not devices:
        known = ", ".join(nodes_of(platform))
        raise PlatformError(f"platform {platform.name!r} has no node {node!r}; it has {known}")
    names = {device.name for device in devices}
    return Platform(
        devices=devices,
        links=tuple(k for k in platform.links if k.src in names and k.dst in names),
        fabrics=tuple(fabric for fabric in platform.fabrics if fabric.node == node),
        name=f"{platform.name}.{node}",
        shared_cores=platform.shared_cores,
    )


def without_node(platform: Platform, node: str) -> Platform:
    """The platform without a node and its links.

    Raises
    ------
    PlatformError
        If nothing is left.
    """
    names = {device.name for device in platform.devices if device.node == node}
    if len(names) == len(platform.devices):
        raise PlatformError(
            f"node {node!r} is the last one of platform {platform.name!r}: there is nothing left "
            "to run on; start a node again"
        )
    return replace(
        platform,
        devices=tuple(d for d in platform.devices if d.name not in names),
        links=tuple(k for k in platform.links if not {k.src, k.dst} & names),
        fabrics=tuple(f for f in platform.fabrics if f.node != node),
    )


def nodes_of(platform: Platform) -> tuple[str, ...]:
    """The names of a platform's nodes, in order."""
    return tuple(dict.fromkeys(device.node for device in platform.devices))


def part_problem(module: tvm.IRModule, whole: Problem, share: Share) -> Problem:
    """The problem of a part: its tasks at the whole's costs on the node's devices."""
    batch = len(share.elements)
    tasks = extract_tasks(module)
    graph = task_graph(tasks, share.platform, batch)
    own = set(share.platform.names)
    costs: dict[str, Mapping[str, Cost]] = {
        here: {device: c for device, c in whole.costs[there].items() if device in own}
        for here, there in zip(tasks.main.task_ids, share.tasks, strict=True)
    }
    kind: Kind = "throughput" if whole.objective.kind == "throughput" else "latency"
    return Problem(
        graph=graph,
        costs={**costs, **io_costs(graph, share.platform)},
        platform=share.platform,
        objective=Objective(kind, batch=batch),
        name=whole.name,
    )


def part_schedule(problem: Problem, whole: Schedule, share: Share) -> Schedule:
    """The whole's placement and order on the part's devices, with times of their own."""
    renamed = dict(zip(share.tasks, _calls(problem), strict=True))
    number = {element: k for k, element in enumerate(share.elements)}
    position = {task: i for i, task in enumerate(problem.graph.topological_order)}
    own = [e for e in whole.executions if e.task in renamed and number.keys() & set(e.elements)]
    # By start; of what starts at once (tasks may take no time) makers come before readers.
    own.sort(key=lambda e: (e.start, position[renamed[e.task]]))
    steps: list[Step] = [
        (renamed[e.task], e.device, tuple(number[k] for k in e.elements if k in number))
        for e in own
    ]
    if needs_io_tasks(problem.platform):
        every = tuple(range(problem.batch))
        host = host_device(problem.platform)
        ends = {
            op: [(task.id, host, every) for task in problem.tasks if task.op == op]
            for op in (INPUT_OP, OUTPUT_OP)
        }
        steps = [*ends[INPUT_OP], *steps, *ends[OUTPUT_OP]]
    executions, copies = simulate(problem, steps)
    return make_schedule(problem, SOLVER, executions, copies)


def _calls(problem: Problem) -> list[str]:
    """The tasks that are calls, in the order of the calls."""
    return [task.id for task in problem.tasks if not is_io_task(task)]
