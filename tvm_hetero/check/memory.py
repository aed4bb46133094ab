"""How much memory a schedule needs on each device, as the judge counts it (rule 6).

One execution and one of its tensors after the other is followed: where it is made, where hops take
it, who reads it there, who sends it on. That gives, for each device where it comes to lie, a stay
from `begin` to `end` (s). What no one reads stays from its execution's start to the makespan.
Weights are there always, once a task and device.

The need at a moment s is then  weights + bytes that began by s - bytes that ended by s,  and is
largest at some beginning, so only these are looked at. A stay that ends when another begins does
not count beside it, where times are equal within the schedule's tolerance.

In steady state (throughput) batches follow each other without end: all that is ever made on or
copied to a device is there at all times.

Teams of a node that has a limit see one memory: it is followed as one place.

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
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution

# Kinds of devices that compute in the memory of their node.
_IN_NODE_MEMORY = ("llvm", "c", "unknown")


class Need(NamedTuple):
    """The most bytes that a device holds at once, and the first moment when it does (s)."""

    bytes: int
    seconds: float


class _Stay(NamedTuple):
    """Bytes that lie in a memory from `begin` to `end` (s)."""

    place: str
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
        stays[stay.place].append(stay)
    blink = of_times(executions)
    places = places_of(problem)
    found = {place: _largest(weights[place], stays[place], blink) for place in {*places.values()}}
    return {name: found[places[name]] for name in names}


def places_of(problem: Problem) -> dict[str, str]:
    """The memory that each device sees: its own, or its node's where it is one of several teams.

    Teams are CPU devices of one node of which each has a core in common with another that is no
    frequency level of the same device. Levels of one device see its memory.
    """
    platform = problem.platform
    users: dict[tuple[str, int], list[Device]] = defaultdict(list)
    for device in platform.devices:
        for core in device.cores:
            users[device.node, core].append(device)
    found = {}
    for device in platform.devices:
        beside = [d for core in device.cores for d in users[device.node, core] if d is not device]
        clocked = [d for d in beside if d.level_of is not None]
        levels = [d for d in clocked if d.level_of == device.level_of]
        found[device.name] = f"device {device.name}"
        if device.memory is None or platform.shared_cores:
            continue
        if len(levels) < len(beside) and not device.private and device.kind in _IN_NODE_MEMORY:
            found[device.name] = f"node {device.node}"
        elif levels:
            found[device.name] = f"levels of {device.level_of} on {device.node}"
    return found


def all_bytes(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> Counter[str]:
    """Weights and all that is ever made on or copied to each device; no moment needs more.

    In a memory that several devices see one tensor of one execution is once, however it came.
    """
    graph, total, places = problem.graph, _weights(problem, executions), places_of(problem)
    there: set[tuple[str, str, int]] = set()
    for e in executions:
        made = sum(tensor.bytes for tensor in graph.outputs[e.task])
        total[places[e.device]] += len(e.elements) * (made + graph.unread_bytes(e.task))
        there |= {(places[e.device], t.name, e.elements[0]) for t in graph.outputs[e.task]}
    for hop in copies:
        arrival = (places[hop.dst], hop.tensor, hop.elements[0])
        if arrival[0].startswith("device ") or arrival not in there:
            total[arrival[0]] += len(hop.elements) * graph.tensors[hop.tensor].bytes
        there.add(arrival)
    return Counter({name: total[place] for name, place in places.items()})


def _weights(problem: Problem, executions: Sequence[Execution]) -> Counter[str]:
    """Bytes of the weights in each memory: of every task that runs there, however often."""
    total: Counter[str] = Counter()
    places = places_of(problem)
    for place, task in {(places[e.device], e.task) for e in executions}:
        total[place] += problem.graph.task(task).weight_bytes
    return total


def _stays(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> Iterator[_Stay]:
    graph, makespan, places = problem.graph, last_end(executions), places_of(problem)
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
        yield _Stay(places[e.device], count * graph.unread_bytes(e.task), e.start, makespan)
        for tensor in graph.outputs[e.task]:
            key = (tensor.name, i)
            yield from _follow(e, count * tensor.bytes, hops[key], readers[key], places)


def _follow(
    maker: Execution,
    nbytes: int,
    hops: Sequence[Copy],
    readers: Sequence[Execution],
    places: dict[str, str],
) -> Iterator[_Stay]:
    """Where one tensor of one execution lies, and from when to when."""
    begin, end = {places[maker.device]: maker.start}, {places[maker.device]: maker.end}
    for hop in hops:
        place = places[hop.dst]
        begin[place] = min(hop.start, begin.get(place, hop.start))
        end[place] = max(hop.end, end.get(place, hop.end))
    uses = [(places[hop.src], hop.end) for hop in hops]
    uses += [(places[e.device], e.end) for e in readers]
    for place, last in uses:
        # A reader where the tensor never comes breaks rule 3 or 5; nothing of it lies there.
        if place in end:
            end[place] = max(last, end[place])
    for place, since in begin.items():
        yield _Stay(place, nbytes, since, end[place])


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
