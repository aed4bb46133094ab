"""How much memory a schedule needs on each device (rule 6), for solvers, planning and reports.

The judge counts for himself (`tvm_hetero.check.memory`); tests hold the two against each other.

Latency, energy and cost: on a device live, at a moment t,

- the weights of all tasks placed there, once each, always;
- a tensor made there, from the start of the execution that writes it;
- a tensor copied there, from the start of that hop;
- both until their last reader there, or their last hop away, ends; what a task writes and no
  task reads (`TaskGraph.unread_bytes`) until the makespan.

Lifetimes are half open, [start, end): what ends when another begins does not count beside it,
and what begins and ends at one moment needs nothing. Times count as equal within the tolerance
of the schedule, so each lifetime is cut short by it; otherwise rounding would invent peaks.

Throughput: every buffer belongs to some batch at all times, so the weights and every tensor made
on or copied to the device count in full.

Teams of a node see one memory (`Platform.shared_memories`): what is said of a device is then said
of all of them together, and a tensor or the weights of a task lie there once. Each such device is
said to need what they need together.

All sizes are bytes times elements. A tensor lives once per execution that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import makespan, tolerance
from tvm_hetero.problem.schedule import Copy, Execution


class Peak(NamedTuple):
    """Most bytes that are alive at once, and when that is first so (s)."""

    bytes: int
    seconds: float


class _TensorLife(NamedTuple):
    """Something of `bytes` lives in the memory of `memory` from `start` to `end` (s)."""

    memory: str
    bytes: int
    start: float
    end: float


def memory_peaks(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[str, int]:
    """Most bytes needed at once on every device of the platform."""
    return {name: p.bytes for name, p in timed_peaks(problem, executions, copies).items()}


def timed_peaks(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[str, Peak]:
    """As `memory_peaks`, with the moment of each peak."""
    if problem.objective.kind == "throughput":
        most = most_bytes(problem, executions, copies)
        return {device: Peak(size, 0.0) for device, size in most.items()}
    base = _weights(problem, executions)
    lives: dict[str, list[_TensorLife]] = {name: [] for name in base}
    for life in _lives(problem, executions, copies):
        lives[life.memory].append(life)
    cut = tolerance(executions)
    peaks = {name: _peak(base[name], lives[name], cut) for name in base}
    return {name: peaks[memory] for name, memory in _memories(problem).items()}


def most_bytes(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[str, int]:
    """Weights and all that is ever made on or copied to each device: no moment needs more."""
    most = _weights(problem, executions)
    for memory, size in _made_and_copied(problem, executions, copies):
        most[memory] += size
    return {name: most[memory] for name, memory in _memories(problem).items()}


def _memories(problem: Problem) -> dict[str, str]:
    """For every device the one that names its memory: itself, or the first team of its node."""
    names = problem.platform.names
    return dict(zip(names, (names[d] for d in problem.platform.memory_of), strict=True))


def _weights(problem: Problem, executions: Sequence[Execution]) -> dict[str, int]:
    result, memories = dict.fromkeys(problem.platform.names, 0), _memories(problem)
    for task, memory in {(e.task, memories[e.device]) for e in executions}:
        result[memory] += problem.graph.task(task).weight_bytes
    return result


def _made_and_copied(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> Iterable[tuple[str, int]]:
    """(memory, bytes) of every buffer of the steady state; in a memory of teams each is once."""
    graph, memories = problem.graph, _memories(problem)
    shared = {problem.platform.names[row[0]] for row in problem.platform.shared_memories}
    home = {(e.task, n): memories[e.device] for e in executions for n in e.elements}
    for e in executions:
        size = graph.unread_bytes(e.task) + sum(t.bytes for t in graph.outputs[e.task])
        yield memories[e.device], size * len(e.elements)
    seen: set[tuple[str, tuple[int, ...], str]] = set()
    for copy in copies:
        memory, tensor = memories[copy.dst], graph.tensors[copy.tensor]
        key = (copy.tensor, copy.elements, memory)
        if memory in shared and (key in seen or home.get((tensor.src, copy.elements[0])) == memory):
            continue
        seen.add(key)
        yield memory, tensor.bytes * len(copy.elements)


def _lives(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> list[_TensorLife]:
    """Where everything lives, from when to when."""
    graph, memories = problem.graph, _memories(problem)
    maker = {(e.task, n): i for i, e in enumerate(executions) for n in e.elements}
    starts: dict[tuple[str, int, str], float] = {}
    ends: dict[tuple[str, int, str], float] = {}

    # Begin: where a tensor is made, and at the far end of each of its hops.
    for i, e in enumerate(executions):
        for tensor in graph.outputs[e.task]:
            key = (tensor.name, i, memories[e.device])
            starts[key], ends[key] = e.start, e.end
    hops = [(c, maker.get((graph.tensors[c.tensor].src, c.elements[0]), -1)) for c in copies]
    for c, i in hops:
        key = (c.tensor, i, memories[c.dst])
        starts[key] = min(starts.get(key, c.start), c.start)
        ends[key] = max(ends.get(key, c.end), c.end)

    # End: the last hop away, the last reader.
    for c, i in hops:
        key = (c.tensor, i, memories[c.src])
        ends[key] = max(ends.get(key, c.end), c.end)
    for e in executions:
        for tensor in graph.inputs[e.task]:
            for n in e.elements:
                key = (tensor.name, maker.get((tensor.src, n), -1), memories[e.device])
                ends[key] = max(ends.get(key, e.end), e.end)

    lives = []
    for (tensor_name, i, memory), start in starts.items():
        if i >= 0:
            size = graph.tensors[tensor_name].bytes * len(executions[i].elements)
            lives.append(_TensorLife(memory, size, start, ends[tensor_name, i, memory]))
    last = makespan(executions)
    for e in executions:
        unread = graph.unread_bytes(e.task) * len(e.elements)
        lives.append(_TensorLife(memories[e.device], unread, e.start, last))
    return lives


def _peak(base: int, lives: Iterable[_TensorLife], cut: float) -> Peak:
    """Sweep over all beginnings and ends; at one moment the ends come first."""
    events: list[tuple[float, int]] = []
    for life in lives:
        if life.end - cut > life.start:
            events.append((life.start, life.bytes))
            events.append((life.end - cut, -life.bytes))
    peak, alive = Peak(base, 0.0), base
    for seconds, change in sorted(events):
        alive += change
        if alive > peak.bytes:
            peak = Peak(alive, seconds)
    return peak
