"""Scheduling problems: a task graph, what each task costs where, a platform and an objective.

The ``tvm-hetero/problem/1`` format is in `tvm_hetero.problem.format`. This module gives the data
their meaning once, for solvers and checker alike: how long n elements of a task take on a
device (`Problem.seconds`) and which devices can run it (`Problem.devices_for`). What a schedule
of the problem means is in `tvm_hetero.check`.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.util.documents import digest, nearest

Kind = Literal["latency", "throughput", "energy", "cost"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# How a kernel is computed on a device (`tvm_hetero.kernels.tir.implementation_attr`).
IMPLEMENTATIONS = ("rule", "default", "tuned", "direct")
# Schedules name every element, so larger batches than this cannot be written down anyway.
MAX_BATCH = 1_000_000


@dataclass(frozen=True)
class Cost:
    """Time of one execution as a function of the number of batch elements in it.

    `points` are (elements, seconds) with rising elements. Between two points the time is linear,
    before the first it is linear from (0, 0), beyond the last it goes on with the last slope. A
    table whose last slope falls (kernels of some sizes only, or noise) says nothing of larger
    batches, which then take the last point's time an element: going on with that slope would
    make them free. A plain number c is ``Cost(((1, c),))``, which makes n elements take n * c.

    `implementation` says which way of computing the task takes that long; nothing here hangs on
    it, and whoever builds the task must build that one.

    `sizes` says for how many elements at once there is a kernel: rising, from 1. An execution of n
    elements is built of the largest that fit, one after the other (`calls_of`); nothing else here
    hangs on them, since `points` say what that takes.
    """

    points: tuple[tuple[int, float], ...]
    implementation: str = "rule"
    sizes: tuple[int, ...] = (1,)

    def seconds(self, elements: int) -> float:
        """Seconds that one execution of `elements` >= 1 elements takes.

        Positive if all points are, and beyond the last of them never below it.
        """
        points = self.points
        found = bisect_left(points, elements, key=lambda point: point[0])
        if found < len(points) and points[found][0] == elements:
            return points[found][1]
        i = min(found, len(points) - 1)
        n0, s0 = points[i - 1] if i > 0 else (0, 0.0)
        n1, s1 = points[i]
        if found == len(points) and s1 < s0:
            n0, s0 = 0, 0.0
        return s1 + (s1 - s0) / (n1 - n0) * (elements - n1)

    def calls_of(self, elements: int) -> tuple[int, ...]:
        """How many elements each call of a kernel computes in an execution of `elements`."""
        calls: list[int] = []
        for size in reversed(self.sizes):
            count, elements = divmod(elements, size)
            calls += [size] * count
        return tuple(calls)


@dataclass(frozen=True)
class Objective:
    """What is minimised: `kind`, for how many elements at once, and under which latency (s).

    With `contiguous` (throughput only) the devices in use form a pipeline: no cycle leads from
    device to device over the tensors that one makes and the next reads.
    """

    kind: Kind = "latency"
    batch: int = 1
    latency_limit: float | None = None
    contiguous: bool = False


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
    objective: Objective = Objective()
    name: str = "problem"

    def __post_init__(self) -> None:
        check_objective(self.objective, self.platform)
        _check_costs(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Problem:
        """Read a problem file (JSON, format ``tvm-hetero/problem/1``)."""
        from tvm_hetero.problem.format import load_problem

        return load_problem(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this problem as JSON."""
        from tvm_hetero.problem.format import save_problem

        save_problem(self, path)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document: what a schedule names its problem by."""
        from tvm_hetero.problem.format import problem_to_dict

        return digest(problem_to_dict(self))

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

        Tasks without a color that take no time anywhere and read nothing, or are read by nobody.
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


def check_objective(objective: Objective, platform: Platform) -> None:
    """Refuse an objective that makes no sense, or not on this platform.

    Raises
    ------
    FormatError
        If its kind is unknown, its batch or limit is wrong, it asks for contiguous stages of
        anything but throughput, or a device lacks the figure (`watts`, `price`) that it needs.
    """
    if objective.kind not in KINDS:
        near = nearest(objective.kind, KINDS)
        raise FormatError(f"objective: unknown kind {objective.kind!r}{near}")
    if not 1 <= objective.batch <= MAX_BATCH:
        raise FormatError(
            f"objective: expected a batch of 1 to {MAX_BATCH} elements, got {objective.batch}"
        )
    if objective.latency_limit is not None and objective.kind not in {"energy", "cost"}:
        raise FormatError(f"objective: {objective.kind} takes no latency_limit; leave it out")
    if objective.contiguous and objective.kind != "throughput":
        raise FormatError(
            f"objective: contiguous stages belong to throughput, not to {objective.kind}; "
            "leave contiguous out"
        )
    needed = {"energy": "watts", "cost": "price"}.get(objective.kind)
    if needed:
        lacking = [d.name for d in platform.devices if getattr(d, needed) is None]
        if lacking:
            raise FormatError(
                f"objective {objective.kind}: device {lacking[0]!r} has no {needed}; add it"
            )


def _check_costs(problem: Problem) -> None:
    for task in problem.costs:
        if task not in problem.graph.index:
            raise FormatError(f"costs of a task {task!r} that the graph lacks")
    for task in problem.graph.index:
        row = problem.costs.get(task)
        if not row:
            raise FormatError(f"task {task!r} has no cost on any device, so nothing can run it")
        for device in row:
            if device not in problem.platform.index:
                raise PlatformError(
                    f"task {task!r} has a cost on device {device!r}, which platform "
                    f"{problem.platform.name!r} lacks{nearest(device, problem.platform.index)}"
                )
            _check_points(row[device].points, f"task {task!r} on {device!r}")
            check_sizes(row[device].sizes, f"sizes of task {task!r} on {device!r}")
            if row[device].implementation not in IMPLEMENTATIONS:
                raise FormatError(
                    f"task {task!r} on {device!r}: unknown implementation "
                    f"{row[device].implementation!r:.80}; expected one of {IMPLEMENTATIONS}"
                )


def check_sizes(sizes: Sequence[int], where: str) -> None:
    """Refuse `Cost.sizes` by which not every number of elements can be computed.

    Raises
    ------
    FormatError
        If they do not rise from 1.
    """
    if not sizes or sizes[0] != 1 or any(b <= a for a, b in pairwise(sizes)):
        raise FormatError(f"{where}: expected rising numbers from 1, got {list(sizes)}")


def _check_points(points: Sequence[tuple[int, float]], where: str) -> None:
    sizes = [n for n, _ in points]
    if not points or sizes[0] < 1 or any(b <= a for a, b in pairwise(sizes)):
        raise FormatError(f"{where}: expected costs for rising batch sizes from 1, got {sizes}")
    for n, seconds in points:
        if not 0 <= seconds < float("inf"):
            raise FormatError(
                f"{where}: expected a finite time of at least 0 for {n} elements, got {seconds}"
            )
