"""Problems of tasks that read nothing, for plans under watts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph


def independent(
    rows: Sequence[Mapping[str, float]],
    cores: Mapping[str, tuple[int, ...]] | None = None,
    **watts: tuple[float, float],
) -> Problem:
    """A task for each row of costs (s, by device), and devices with watts while busy and idle."""
    devices = tuple(
        Device(name, watts=busy, idle_watts=idle, cores=(cores or {}).get(name, ()))
        for name, (busy, idle) in watts.items()
    )
    names = [f"t{i}" for i in range(len(rows))]
    costs = {
        task: {name: Cost(((1, seconds),)) for name, seconds in row.items()}
        for task, row in zip(names, rows, strict=True)
    }
    graph = TaskGraph([Task(name) for name in names], [])
    return Problem(graph, costs, Platform(devices), Objective("throughput"))
