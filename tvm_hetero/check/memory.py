"""How much memory a schedule needs on each device, as the judge counts it (rule 6).

One execution and one of its tensors after the other is followed: where it is made, where hops take
it, who reads it there, who sends it on. That gives, for each device where it comes to lie, a stay
from `begin` to `end` (s). What nobody reads stays from its execution's start to the makespan.
Weights are there always, once a task and device.

The need at a moment s is then  weights + bytes that began by s - bytes that ended by s,  and is
largest at some beginning, so only these are looked at. A stay that ends when another begins does
not count beside it, where times are equal within the schedule's tolerance.

In steady state (throughput) batches follow each other without end: all that is ever made on or
copied to a device is there at all times.

`tvm_hetero.problem.memory`, which solvers and reports use, is another implementation of this rule:
tests/check/test_independence.py lets the two disagree.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

from tvm_hetero.check.tolerances import last_end, of_times
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution


class Need(NamedTuple):
    """The most bytes that a device holds at once, and the first moment when it does (s)."""

    bytes: int
    seconds: float


class _Stay(NamedTuple):
    """Bytes that lie on a device from `begin` to `end` (s)."""

    device: str
    bytes: int
    begin: float
    end: float


def memory_peaks(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[str, int]:
    """The most bytes that each device of the platform holds at once."""
    return {name: need.bytes for name, need in needs(problem, executions, copies).items()}


def needs(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[str, Need]:
    """As `memory_peaks`, with the moment of each."""
    names = problem.platform.names
    if problem.objective.kind == "throughput":
        total = all_bytes(problem, executions, copies)
        return {name: Need(total[name], 0.0) for name in names}
    weights = _weights(problem, executions)
    stays: dict[str, list[_Stay]] = defaultdict(list)
    for stay in _stays(problem, executions, copies):
        stays[stay.device].append(stay)
    blink = of_times(executions)
    return {name: _largest(weights[name], stays[name], blink) for name in names}


def all_bytes(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> Counter[str]:
    """Weights and all that is ever made on or copied to each device; no moment needs more."""
    graph, total = problem.graph, _weights(problem, executions)
    for e in executions:
        made = sum(tensor.bytes for tensor in graph.outputs[e.task])
        total[e.device] += len(e.elements) * (made + graph.unread_bytes(e.task))
    for hop in copies:
        total[hop.dst] += len(hop.elements) * graph.tensors[hop.tensor].bytes
    return total


def _weights(problem: Problem, executions: Sequence[Execution]) -> Counter[str]:
    """Bytes of the weights on each device: of every task that runs there, however often."""
    total: Counter[str] = Counter()
    for device, task in {(e.device, e.task) for e in executions}:
        total[device] += problem.graph.task(task).weight_bytes
    return total


def _stays(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> Iterator[_Stay]:
    graph, makespan = problem.graph, last_end(executions)
    maker = {(e.task, n): i for i, e in enumerate(executions) for n in e.elements}
    hops: dict[tuple[str, int | None], list[Copy]] = defaultdict(list)
    for hop in copies:
        hops[hop.tensor, maker.get((graph.tensors[hop.tensor].src, hop.elements[0]))].append(hop)
    readers: dict[tuple[str, int | None], list[Execution]] = defaultdict(list)
    for e in executions:
        for tensor in graph.inputs[e.task]:
            for made_by in {maker.get((tensor.src, n)) for n in e.elements}:
                readers[tensor.name, made_by].append(e)
    for i, e in enumerate(executions):
        count = len(e.elements)
        yield _Stay(e.device, count * graph.unread_bytes(e.task), e.start, makespan)
        for tensor in graph.outputs[e.task]:
            key = (tensor.name, i)
            yield from _follow(e, count * tensor.bytes, hops[key], readers[key])


def _follow(
    maker: Execution, nbytes: int, hops: Sequence[Copy], readers: Sequence[Execution]
) -> Iterator[_Stay]:
    """Where one tensor of one execution lies, and from when to when."""
    begin, end = {maker.device: maker.start}, {maker.device: maker.end}
    for hop in hops:
        begin[hop.dst] = min(hop.start, begin.get(hop.dst, hop.start))
        end[hop.dst] = max(hop.end, end.get(hop.dst, hop.end))
    uses = [(hop.src, hop.end) for hop in hops] + [(e.device, e.end) for e in readers]
    for device, last in uses:
        # A reader where the tensor never comes breaks rule 3 or 5; nothing of it lies there.
        if device in end:
            end[device] = max(last, end[device])
    for device, since in begin.items():
        yield _Stay(device, nbytes, since, end[device])


def _largest(weights: int, stays: Sequence[_Stay], blink: float) -> Need:
    """The largest need of a device, looked for at every beginning."""
    stays = sorted(
        (stay for stay in stays if stay.end - blink > stay.begin), key=attrgetter("begin")
    )
    leaving = sorted((stay.end - blink, stay.bytes) for stay in stays)
    moments = [moment for moment, _ in leaving]
    gone = list(accumulate((nbytes for _, nbytes in leaving), initial=0))
    most, come = Need(weights, 0.0), 0
    for moment, own in groupby(stays, key=attrgetter("begin")):
        come += sum(stay.bytes for stay in own)
        here = weights + come - gone[bisect_right(moments, moment)]
        if here > most.bytes:
            most = Need(here, moment)
    return most
