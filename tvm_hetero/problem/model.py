"""Scheduling problems: a task graph, what each task costs where, a platform and an objective.

The ``tvm-hetero/problem/1`` format is in `tvm_hetero.problem.format`. This module gives the data
their meaning once, for solvers and checker alike: how long n elements of a task take on a
device (`Problem.seconds`) and which devices can run it (`Problem.devices_for`). What a schedule
of the problem means is in `tvm_hetero.check`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import IMPLEMENTATIONS, Cost, check_points, check_sizes
from tvm_hetero.problem.digest import problem_digest
from tvm_hetero.problem.format import (
    ProblemFields,
    locate_errors,
    parse_problem,
    problem_document,
    problem_text,
)
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.objective_kinds import Objective, check_objective
from tvm_hetero.util.documents import read_document, write_atomic
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import MOST_BYTES

# By how much joules may be below those of idling, from sums of floats.
_ROUNDING = 1e-9
# The objective of a problem that names none.
_LATENCY = Objective()


@dataclass(frozen=True)
class Problem:
    """A scheduling problem. `costs` maps a task's id to {device: `Cost`}.

    Raises
    ------
    FormatError
        When it is made: a task without a device, costs of an unknown task, an objective that
        makes no sense.
    PlatformError
        If a cost names a device that the platform lacks.
    """

    graph: TaskGraph
    costs: Mapping[str, Mapping[str, Cost]]
    platform: Platform
    objective: Objective = _LATENCY
    name: str = "problem"

    def __post_init__(self) -> None:
        check_objective(self.objective, self.platform)
        _check_costs(self)
        _check_bytes(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Problem:
        """Read a problem file (JSON, format ``tvm-hetero/problem/1``).

        Raises
        ------
        FormatError
            If the file cannot be read, says something unknown, or its graph is empty or cyclic.
        PlatformError
            If a cost names a device that the platform lacks.
        """
        return cls.from_dict(read_document(path), str(path))

    @classmethod
    def from_dict(cls, data: object, where: str = "problem") -> Problem:
        """Make a problem of a parsed document (see `load`)."""
        parts = parse_problem(data, where)
        with locate_errors(where):
            return cls(*parts)

    def to_dict(self) -> dict[str, Any]:
        """The document of this problem; values that are the default are left out."""
        return problem_document(self._fields)

    @property
    def _fields(self) -> ProblemFields:
        return ProblemFields(self.graph, self.costs, self.platform, self.objective, self.name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this problem as JSON, one task or edge a line, whole or not at all."""
        write_atomic(path, problem_text(self.to_dict()))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document: what a schedule names its problem by."""
        return problem_digest(self._fields)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the graph."""
        return self.graph.tasks

    @property
    def batch(self) -> int:
        """How many elements one batch has."""
        return self.objective.batch

    def devices_for(self, task: str) -> tuple[str, ...]:
        """Names of the devices that can run `task`, in the platform's order."""
        return self._devices_for[task]

    @cached_property
    def _devices_for(self) -> dict[str, tuple[str, ...]]:
        names = self.platform.names
        return {t: tuple(d for d in names if d in row) for t, row in self.costs.items()}

    @cached_property
    def terminals(self) -> frozenset[str]:
        """Inputs and outputs, which belong to no stage (rule 8).

        Tasks without a color that take no time anywhere and read nothing, or are read by no one.
        """
        graph = self.graph
        return frozenset(
            task.id
            for task in self.tasks
            if task.color is None
            and not (graph.inputs[task.id] and graph.outputs[task.id])
            and all(s == 0 for cost in self.costs[task.id].values() for _, s in cost.points)
        )

    def seconds(self, task: str, device: str, elements: int = 1) -> float:
        """Seconds of one execution of `elements` elements of `task` on `device`.

        Raises
        ------
        KeyError
            If the device cannot run the task.
        """
        return self.costs[task][device].seconds(elements)

    def extra_joules(self, task: str, device: str, elements: int = 1) -> float:
        """Joules of one execution above the device's watts times its seconds; may be negative.

        0 where the task has no energy of its own there.

        Raises
        ------
        KeyError
            If the device cannot run the task.
        """
        cost = self.costs[task][device]
        if not cost.energy:
            return 0.0
        watts = self.platform.device(device).watts or 0.0
        return cost.joules(elements, watts) - watts * cost.seconds(elements)

    @cached_property
    def has_energies(self) -> bool:
        """Whether some task has an energy of its own on some device."""
        return any(cost.energy for row in self.costs.values() for cost in row.values())

    @cached_property
    def colors(self) -> dict[str, tuple[str, ...]]:
        """For every color the tasks that share it, in the order of the graph."""
        groups: dict[str, list[str]] = {}
        for task in self.tasks:
            if task.color is not None:
                groups.setdefault(task.color, []).append(task.id)
        return {color: tuple(tasks) for color, tasks in groups.items()}

    def with_objective(self, objective: Objective) -> Problem:
        """The same problem with another objective."""
        return replace(self, objective=objective)


def _check_costs(problem: Problem) -> None:
    for task in problem.costs:
        if task not in problem.graph.index:
            raise FormatError(f"costs of a task {quote(task)} that the graph lacks")
    # One object may be the cost, or the row of costs, of many.
    passed: dict[int, Cost] = {}
    rows: set[int] = set()
    for task in problem.graph.index:
        row = problem.costs.get(task)
        if not row:
            raise FormatError(
                f"task {quote(task)} has no cost on any device, so nothing can run it"
            )
        if id(row) in rows:
            continue
        rows.add(id(row))
        unknown = next((name for name in row if name not in problem.platform.index), None)
        if unknown is not None:
            raise PlatformError(
                f"task {quote(task)} has a cost on device {quote(unknown)}, which platform "
                f"{quote(problem.platform.name)} lacks{nearest(unknown, problem.platform.index)}"
            )
        for device, cost in row.items():
            if id(cost) not in passed:
                _check_cost(cost, f"task {quote(task)} on {quote(device)}")
                passed[id(cost)] = cost
            if cost.energy:
                idle = problem.platform.device(device).idle_watts
                _check_energy(cost, idle, problem.batch, f"task {quote(task)} on {quote(device)}")


def _check_bytes(problem: Problem) -> None:
    """Refuse more bytes than solvers can add up in 64 bits, wherever they put them."""
    graph = problem.graph
    weights = sum(task.weight_bytes for task in graph.tasks)
    written = sum(task.output_bytes for task in graph.tasks)
    moved = sum(tensor.bytes for tensor in graph.tensors.values())
    total = weights + problem.batch * (written + moved)
    if total > MOST_BYTES:
        raise FormatError(
            f"weights, and tensors of a batch of {problem.batch}, have {total} bytes in all; "
            f"expected at most {MOST_BYTES} (1 EiB)"
        )


def _check_energy(cost: Cost, idle: float, batch: int, where: str) -> None:
    """Refuse less than what the device draws while it does nothing: bounds count on that."""
    check_points(cost.energy, f"energy of {where}", "an energy", "J")
    # Both are linear between these.
    sizes = {1, batch, *(n for n, _ in (*cost.points, *cost.energy) if n < batch)}
    for n in sorted(sizes):
        joules, least = cost.joules(n, None), idle * cost.seconds(n)
        if joules < least * (1 - _ROUNDING):
            raise FormatError(
                f"energy of {where}: {joules:g} J for {n} elements are less than the {least:g} J "
                f"that idling takes as long ({idle:g} W); give more, or fewer 'idle_watts'"
            )


def _check_cost(cost: Cost, where: str) -> None:
    check_points(cost.points, where)
    check_sizes(cost.sizes, f"sizes of {where}")
    if cost.implementation not in IMPLEMENTATIONS:
        raise FormatError(
            f"{where}: unknown implementation {quote(cost.implementation)}; expected one of "
            f"{IMPLEMENTATIONS}"
        )
