"""Steady states of small problems by going through all placements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from tvm_hetero.check.memory import all_bytes
from tvm_hetero.errors import PlatformError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.objective import charge, loads
from tvm_hetero.problem.simulate import simulate


def placements(problem: Problem) -> Iterator[tuple[float, float, float]]:
    """Of every placement the busiest load (s), watts idle, joules of a period above idling."""
    tasks = problem.graph.topological_order
    energy = replace(problem, objective=Objective("energy"))
    for row in itertools.product(*(problem.devices_for(task) for task in tasks)):
        at = dict(zip(tasks, row, strict=True))
        if not _colors_kept(problem, at):
            continue
        try:
            made = simulate(problem, [(task, at[task], (0,)) for task in tasks])
        except PlatformError:
            continue  # no path leads there
        held = all_bytes(problem, made.executions, made.copies)
        if any(d.memory is not None and held[d.name] > d.memory for d in problem.platform.devices):
            continue
        busy = loads(problem, made.executions, made.copies)
        load = max(busy.values())
        long = 2 * load or 1.0
        first, second = (charge(energy, end, busy) for end in (long, 2 * long))
        idle = (second - first) / long
        yield load, idle, first - idle * long


def _colors_kept(problem: Problem, at: dict[str, str]) -> bool:
    homes: dict[str, set[str]] = {}
    for task in problem.tasks:
        if task.color is not None:
            homes.setdefault(task.color, set()).add(at[task.id])
    return all(len(devices) == 1 for devices in homes.values())


def shortest(load: float, idle: float, above: float, watts: float) -> float:
    """The least period under a cap."""
    if idle < watts * (1 - 1e-12):
        return max(load, above / (watts - idle))
    return load if above + (idle - watts) * load <= 0 else math.inf
