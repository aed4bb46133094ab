"""Throughput by sharing tasks: elements go from the busiest device to those that have time left.

Of a batch of B elements device d computes n(t, d) of task t, in one execution; so a layer may stand
on several nodes, each of which takes its share of the sequences, as in systems that see a cluster
as a flow network (Y. Mei et al., Helix, arXiv 2406.01566). With c the cost tables

    load(d) = sum over t of c(t, d, n(t, d)),  c(t, d, 0) = 0       minimise  T = max load(d)

A share is not free: whoever takes one reads the weights too, and keeps room for them and for the
keys and values of the whole batch. Whole tasks are the start; then, as long as T falls,

    1. d is the busiest device; candidates are k = 1, 2, 4, ... or all of its elements of a task
       that go to a device e, one of each kind: the least busy, or the least busy that has the task
    2. the candidate is taken after which the larger load of d and e is least       -> `_best_move`

What is left is a plan in which no one such move helps, and no worse than its start. Copies are in
no one's way here: where devices lack copy engines, or links are exclusive, `throughput` weighs
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.platform.devices import Fabric, Link
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.verified_call import Solver
from tvm_hetero.solvers.counting import solver as count_dp
from tvm_hetero.solvers.lists import best_single
from tvm_hetero.solvers.stage_dp.stage_dp import check_kind
from tvm_hetero.solvers.throughput import whole_elements as elements
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.views.division_patterns import ElementShare, divide_by_patterns
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.symmetry import find_symmetry
from tvm_hetero.views.task_classes import shares_of

NAME = "shares"
# A move has to gain so much of the value: less is not worth another copy of the weights.
_GAIN = 1e-4


class _ElementMove(NamedTuple):
    """So many elements of `task` go from one device to another, whose loads are then these."""

    task: int
    src: int
    dst: int
    elements: int
    loads: tuple[float, float]


def solve(problem: Problem, options: Options) -> Schedule:
    """Share tasks, from `Options.start` or the best whole tasks that are quickly found.

    Raises
    ------
    UsageError
        If the objective is not throughput.
    SolverError
        If devices form a pipeline or copies are in their way, or there is nothing to start from.
    """
    check_kind(problem, NAME)
    instance = instance_of(problem)
    _check(instance)
    best = options.start or _start(problem, options)
    counts = _ElementCounts(instance, best)
    while (move := _best_move(counts)) is not None:
        counts.take(move)
    found = _schedule(problem, counts, options)
    if found is not None and found.value < best.value:
        best = found
    bound = max(best.lower_bound, shares_of(instance, rates(instance)).value)
    return replace(best, solver=NAME, lower_bound=min(bound, best.value), seed=options.seed)


def _check(instance: Instance) -> None:
    platform = instance.problem.platform
    wires: list[Link | Fabric] = [*platform.links, *platform.fabrics]
    if instance.problem.objective.contiguous:
        raise SolverError(f"{NAME}: a shared task would close a ring of stages; use stages")
    if any(wire.exclusive for wire in wires) or not all(d.overlap for d in platform.devices):
        raise SolverError(
            f"{NAME}: copies are in the way of devices or of each other, which is not weighed "
            "here; use throughput"
        )


def _start(problem: Problem, options: Options) -> Schedule:
    found: list[Schedule] = []
    solvers: list[Solver] = [count_dp.solve, elements.solve, best_single.solve]
    for solver in solvers:
        with suppress(HeteroError):
            found.append(solver(problem, replace(options, start=None)))
    if not found:
        raise SolverError(f"{NAME}: no plan of {problem.name!r} to start from; use throughput")
    return min(found, key=lambda schedule: schedule.value)


class _ElementCounts:
    """How many elements of each task every device takes, what that loads, and the bytes there."""

    def __init__(self, instance: Instance, start: Schedule) -> None:
        self.instance, self.problem = instance, instance.problem
        graph, names = self.problem.graph, self.problem.platform.index
        self.kinds = find_symmetry(self.problem).types()
        self.of: list[dict[int, int]] = [{} for _ in graph.tasks]
        for e in start.executions:
            row = self.of[graph.index[e.task]]
            row[names[e.device]] = row.get(names[e.device], 0) + len(e.elements)
        held = [(t, d) for t, row in enumerate(self.of) for d in row]
        self.on: list[set[int]] = [set() for _ in instance.names]
        for t, d in held:
            self.on[d].add(t)
        self.loads = [math.fsum(self.seconds(t, d, self.of[t][d]) for t in on) for d, on in
                      enumerate(self.on)]  # fmt: skip
        self.bytes = [sum(self.room(t) for t in on) for on in self.on]

    def seconds(self, task: int, device: int, count: int) -> float:
        """What so many elements take; 0 for none."""
        if count == 0:
            return 0.0
        name = self.problem.graph.tasks[task].id
        return self.problem.seconds(name, self.instance.names[device], count)

    def room(self, task: int) -> int:
        """Bytes that a device needs for a task at most: all that is read is copied there."""
        own = self.problem.graph.tasks[task]
        reads = sum(tensor.bytes for tensor in self.problem.graph.inputs[own.id])
        return own.weight_bytes + self.problem.batch * (reads + own.output_bytes)

    def movable(self, device: int) -> Iterable[int]:
        """The tasks there that may be divided: those that take time and have no color."""
        tasks = self.problem.graph.tasks
        return (t for t in sorted(self.on[device]) if tasks[t].color is None
                and self.seconds(t, device, self.of[t][device]) > 0)  # fmt: skip

    def fits(self, task: int, device: int) -> bool:
        """Whether a device has the task, or can run it and has room for it."""
        if device in self.of[task]:
            return True
        limit = self.instance.capacity[device]
        able = device in self.instance.devices[task]
        return able and (limit is None or self.bytes[device] + self.room(task) <= limit)

    def targets(self, task: int, src: int) -> Iterator[int]:
        """Devices that may take some of a task: of each kind the least busy, and with the task."""
        best: dict[tuple[int, bool], int] = {}
        for d in range(len(self.loads)):
            if d == src or self.loads[d] >= self.loads[src] or not self.fits(task, d):
                continue
            key = (self.kinds[d], d in self.of[task])
            if key not in best or self.loads[d] < self.loads[best[key]]:
                best[key] = d
        yield from best.values()

    def take(self, move: _ElementMove) -> None:
        """Carry out a move."""
        row = self.of[move.task]
        if move.dst not in row:
            self.on[move.dst].add(move.task)
            self.bytes[move.dst] += self.room(move.task)
        row[move.dst] = row.get(move.dst, 0) + move.elements
        row[move.src] -= move.elements
        if row[move.src] == 0:
            del row[move.src]
            self.on[move.src].remove(move.task)
            self.bytes[move.src] -= self.room(move.task)
        self.loads[move.src], self.loads[move.dst] = move.loads


def _best_move(counts: _ElementCounts) -> _ElementMove | None:
    """The move from the busiest device that leaves the least; None if none makes it less."""
    src = max(range(len(counts.loads)), key=counts.loads.__getitem__)
    best, least = None, counts.loads[src] * (1 - _GAIN)
    for task in counts.movable(src):
        have = counts.of[task][src]
        now = counts.seconds(task, src, have)
        for dst in counts.targets(task, src):
            before = counts.of[task].get(dst, 0)
            there = counts.seconds(task, dst, before)
            for count in _sizes(have):
                left = counts.loads[src] - now + counts.seconds(task, src, have - count)
                more = counts.loads[dst] - there + counts.seconds(task, dst, before + count)
                if max(left, more) < least:
                    least = max(left, more)
                    best = _ElementMove(task, src, dst, count, (left, more))
    return best


def _sizes(have: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return [*(1 << i for i in range((have - 1).bit_length())), have]


def _schedule(problem: Problem, counts: _ElementCounts, options: Options) -> Schedule | None:
    """One period of these shares; None if memory or links do not allow all their copies."""
    patterns = [[ElementShare(d, row[d]) for d in sorted(row)] for row in counts.of]
    instance, placement = divide_by_patterns(problem, patterns)
    if exact_value(instance, placement) == math.inf:
        return None
    executions, copies = write_period(instance, placement)
    return make_schedule(problem, NAME, executions, copies, seed=options.seed)
