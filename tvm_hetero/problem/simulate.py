"""Give times to a placement and an order: what a plain executor would do with them.

The input is a sequence of steps (task, device, elements). They are taken in turn. For each one,
first every tensor that it reads and that is not on its device is brought there along
`Platform.path`, hop by hop; a hop that was already made for the same producing execution is
used again. Then the execution starts as soon as its inputs are there and its device is free::

    start(hop)       = max(tensor whole at the near end, ends without copy engine free,
                           link free if exclusive)
    start(execution) = max(inputs on the device, device free)

and a device is free when all its cores are, of which teams have some in common.

Work is only ever appended: nothing is put into an earlier gap. So every schedule in which nothing
could start earlier without changing an order (a semi-active one) is what some order of its
executions *and copies* gives; memory is not looked at (see `tvm_hetero.problem.memory`).

For throughput the same executions and copies are laid into one period, whose length is the
largest load of a device or exclusive link (rule 7 of the format). A period has no precedence:
what is read was made some periods ago.

This file and the judge in `tvm_hetero.check` are two independent readings of the format, tested
against each other; neither calls the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tvm_hetero.errors import UsageError
from tvm_hetero.platform.devices import Link
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import Resource, list_engaged, list_occupied
from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.util.nearest import nearest

Step = tuple[str, str, tuple[int, ...]]


class Timed(NamedTuple):
    """Executions and copies with their times, in the order in which they were taken."""

    executions: tuple[Execution, ...]
    copies: tuple[Copy, ...]


def simulate(problem: Problem, steps: Iterable[tuple[str, str, Sequence[int]]]) -> Timed:
    """Time the steps (task, device, elements), taken in their order.

    Parameters
    ----------
    problem : the problem; its objective says whether a batch (latency, energy, cost) or one
        period of the steady state (throughput) is timed.
    steps : every element of every task in exactly one step. Except for throughput, a step comes
        after those that make what it reads.

    Raises
    ------
    UsageError
        If a step is unknown or impossible, an element is missing or given twice, or the order is
        not topological.
    PlatformError
        If no path of links leads where a tensor is needed.

    Notes
    -----
    Takes time linear in executions plus copies.
    """
    order = [(task, device, tuple(elements)) for task, device, elements in steps]
    _check_steps(problem, order)
    if problem.objective.kind == "throughput":
        return _Period(problem, order).run()
    return _Simulation(problem, order).run()


def _check_steps(problem: Problem, order: Sequence[Step]) -> None:
    """Refuse what is no way to carry out the problem, whatever the order."""
    taken: set[tuple[str, int]] = set()
    for task, device, elements in order:
        if task not in problem.graph.index:
            raise UsageError(f"there is no task {task!r}{nearest(task, problem.graph.index)}")
        if device not in problem.costs[task]:
            able = ", ".join(problem.devices_for(task))
            raise UsageError(f"task {task!r} cannot run on {device!r}; it can on {able}")
        if not elements:
            raise UsageError(f"a step of task {task!r} has no elements; expected at least one")
        for element in elements:
            if not 0 <= element < problem.batch:
                raise UsageError(
                    f"task {task!r}: element {element} is outside the batch of {problem.batch}"
                )
            if (task, element) in taken:
                raise UsageError(f"task {task!r}: element {element} is given twice")
            taken.add((task, element))
    for task in problem.graph.index:
        for element in range(problem.batch):
            if (task, element) not in taken:
                raise UsageError(f"task {task!r}: element {element} is in no step")


class _Simulation:
    """One batch: the clocks of devices and exclusive links, and where every tensor is when."""

    def __init__(self, problem: Problem, order: Sequence[Step]) -> None:
        self.problem = problem
        self.order = order
        self.executions: list[Execution] = []
        self.copies: list[Copy] = []
        self.free: dict[Resource, float] = {}
        self.made: dict[tuple[str, int], int] = {}
        self.hops: dict[tuple[str, int, str, str], float] = {}

    def run(self) -> Timed:
        for task, device, elements in self.order:
            ready = 0.0
            for tensor, producer in self.reads(task, elements):
                ready = max(ready, self.bring(tensor, producer, device))
            self.execute(task, device, elements, ready)
        return Timed(tuple(self.executions), tuple(self.copies))

    def reads(self, task: str, elements: tuple[int, ...]) -> list[tuple[str, int]]:
        """(tensor, execution that made it) for all that the step reads, each once."""
        found: dict[tuple[str, int], None] = {}
        for tensor in self.problem.graph.inputs[task]:
            for element in elements:
                producer = self.made.get((tensor.src, element))
                if producer is None:
                    raise UsageError(
                        f"the order is not topological: task {task!r} comes before "
                        f"{tensor.src!r}, which makes what it reads (element {element})"
                    )
                found[tensor.name, producer] = None
        return list(found)

    def execute(self, task: str, device: str, elements: tuple[int, ...], ready: float) -> None:
        """Append an execution to its device."""
        engaged = list_engaged(self.problem.platform, device)
        start = max([ready, *(self.free.get(what, 0.0) for what in engaged)])
        end = start + self.problem.seconds(task, device, len(elements))
        self.free.update(dict.fromkeys(engaged, end))
        for element in elements:
            self.made[task, element] = len(self.executions)
        self.executions.append(Execution(task, device, elements, start, end))

    def bring(self, tensor: str, producer: int, device: str) -> float:
        """Copy a tensor to `device` unless it is there; when it is there, s."""
        maker = self.executions[producer]
        nbytes = self.problem.graph.tensors[tensor].bytes * len(maker.elements)
        whole = maker.end
        for link in self.problem.platform.path(maker.device, device, nbytes):
            key = (tensor, producer, link.src, link.dst)
            if key not in self.hops:
                hop = self.hop(link, nbytes, whole)
                self.hops[key] = hop[1]
                self.copies.append(Copy(tensor, maker.elements, link.src, link.dst, *hop))
            whole = self.hops[key]
        return whole

    def hop(self, link: Link, nbytes: int, whole: float) -> tuple[float, float]:
        """Append a hop to all that it occupies; its start and end, s."""
        occupied = list_occupied(self.problem, link)
        start = max([whole, *(self.free.get(what, 0.0) for what in occupied)])
        end = start + link.seconds(nbytes)
        self.free.update(dict.fromkeys(occupied, end))
        return start, end


class _Period(_Simulation):
    """One period of the steady state: executions first, back to back, then the copies.

    Of teams, those of most cores come first: where smaller ones lie within larger ones, no core
    then waits for another.

    With up to two devices that lack a copy engine this never needs more than the largest load.
    With three it can: hops a -> b, b -> c and c -> a exclude each other, so they take three hop
    times although every device has a load of two. The period is the largest load by definition,
    so a hop that would end after it is moved back inside and may then lie beside other work.
    """

    def run(self) -> Timed:
        wide = self.problem.platform.team_cores
        for task, device, elements in sorted(
            self.order, key=lambda step: -len(wide.get(step[1], ()))
        ):
            self.execute(task, device, elements, 0.0)
        for task, device, elements in self.order:
            for tensor, producer in self.reads(task, elements):
                self.bring(tensor, producer, device)
        period = self.period()
        copies = tuple(_moved_back(copy, period) for copy in self.copies)
        return Timed(tuple(self.executions), copies)

    def hop(self, link: Link, nbytes: int, whole: float) -> tuple[float, float]:
        """As for a batch, but what is copied was made before the period began."""
        return super().hop(link, nbytes, 0.0)

    def period(self) -> float:
        """The largest load of a device, a core of teams or an exclusive link, s."""
        parts: dict[Resource, list[float]] = {}
        for execution in self.executions:
            for what in list_engaged(self.problem.platform, execution.device):
                parts.setdefault(what, []).append(execution.end - execution.start)
        for copy in self.copies:
            link = self.problem.platform.link(copy.src, copy.dst)
            for what in list_occupied(self.problem, link) if link else []:
                parts.setdefault(what, []).append(copy.end - copy.start)
        return max(math.fsum(seconds) for seconds in parts.values())


def _moved_back(copy: Copy, period: float) -> Copy:
    """The copy inside [0, period]; from 0 on if it is longer (it then occupies nothing)."""
    late = min(copy.start, copy.end - period)
    return replace(copy, start=copy.start - late, end=copy.end - late) if late > 0 else copy
