"""A problem and its plan as the page's scripts read them.

Names become numbers: tasks, tensors and devices by their places. What formats say is resolved here
(defaults, links of fabrics, which memory a device sees, inputs and outputs), so that the scripts
have rules to keep and no format to read. Numbers of JavaScript are floats: problems of more bytes
than these count one by one are refused, and so are those of more than a browser can draw.
"""

from __future__ import annotations

import math
from typing import Any

from tvm_hetero.check.memory import places_of
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule, schedule_to_dict

# Whole numbers up to here are exact in a float.
_EXACT = 1 << 53
# The first is plan.js's, too, which reads plans that are loaded into the page.
MOST_EXECUTIONS, MOST_COSTS, MOST_DEVICES = 2500, 100_000, 64


def why_not(problem: Problem, schedule: Schedule) -> str:
    """Why this plan cannot be explored in a page; empty if it can."""
    costs = sum(len(row) for row in problem.costs.values())
    for count, most, what in (
        (len(schedule.executions), MOST_EXECUTIONS, "executions"),
        (costs, MOST_COSTS, "costs"),
        (len(problem.platform.devices), MOST_DEVICES, "devices"),
        (_bytes(problem), _EXACT, "bytes"),
    ):
        if count > most:
            return f"{count} {what} are more than the {most} that a page can handle"
    return ""


def _bytes(problem: Problem) -> int:
    """No device ever holds more: each could have every weight and every tensor."""
    graph = problem.graph
    moved = sum(tensor.bytes for tensor in graph.tensors.values())
    written = sum(task.output_bytes for task in graph.tasks)
    weights = sum(task.weight_bytes for task in graph.tasks)
    return weights + problem.batch * (moved + written)


def explorer_data(problem: Problem, schedule: Schedule) -> dict[str, Any]:
    """What the page holds: the problem, and the plan as its document."""
    return {"problem": problem_data(problem), "schedule": schedule_to_dict(schedule)}


def problem_data(problem: Problem) -> dict[str, Any]:
    """The problem by numbers."""
    graph, platform, objective = problem.graph, problem.platform, problem.objective
    tensors = {name: i for i, name in enumerate(graph.tensors)}
    return {
        "name": problem.name,
        "digest": problem.digest,
        "kind": objective.kind,
        "batch": objective.batch,
        "latencyLimit": objective.latency_limit,
        "contiguous": objective.contiguous,
        "sharedCores": platform.shared_cores,
        "devices": _devices(problem),
        "links": _links(platform),
        "tensors": [
            {"name": t.name, "src": graph.index[t.src], "bytes": t.bytes}
            for t in graph.tensors.values()
        ],
        "tasks": [
            {
                "name": task.id,
                "op": task.op,
                "color": task.color,
                "weightBytes": task.weight_bytes,
                "unreadBytes": graph.unread_bytes(task.id),
                "inputs": [tensors[t.name] for t in graph.inputs[task.id]],
                "outputs": [tensors[t.name] for t in graph.outputs[task.id]],
                "isTerminal": task.id in problem.terminals,
                "costs": [
                    [platform.index[device], [list(point) for point in cost.points]]
                    for device, cost in problem.costs[task.id].items()
                ],
                "energies": [
                    [platform.index[device], [list(point) for point in cost.energy]]
                    for device, cost in problem.costs[task.id].items()
                    if cost.energy
                ],
            }
            for task in graph.tasks
        ],
    }


def _devices(problem: Problem) -> list[dict[str, Any]]:
    places = places_of(problem)
    return [
        {
            "name": device.name,
            "node": device.node,
            "cores": list(device.cores),
            "overlap": device.overlap,
            "memory": device.memory,
            "place": places[device.name],
            "watts": device.watts,
            "idleWatts": device.idle_watts,
            "price": device.price,
        }
        for device in problem.platform.devices
    ]


def _links(platform: Platform) -> list[dict[str, Any]]:
    """Every direct link, those of fabrics too, by source and then end."""
    found = []
    for i, src in enumerate(platform.names):
        for j, dst in enumerate(platform.names):
            link = platform.link(src, dst) if i != j else None
            if link is not None:
                row = {"src": i, "dst": j, "latency": link.latency, "exclusive": link.exclusive}
                finite = math.isfinite(link.bandwidth)
                found.append({**row, "bandwidth": link.bandwidth if finite else None})
    return found
