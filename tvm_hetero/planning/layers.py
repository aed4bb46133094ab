"""Which layers stand where, compactly: a device's tasks as ranges of layers.

A decoder's tasks come in the order of its layers; a layer begins where a task of its first kind
(`_FIRSTS`) follows another kind of task. What stands before the first layer (the embedding) and
what comes last (the head) keep their names. Of a layer that is whole on a device only the number is
told, of others each kind of task, and how many of its parts (``attention 7 (3 of 8 parts)``) or of
its elements (``layers 5-6, 3 of 16 sequences``). A graph without attention is told in ranges of its
tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import loads
from tvm_hetero.problem.schedule import Schedule

# Kinds of tasks that a layer may begin with; the first of them that a graph has is what it does.
_FIRSTS = ("input_norm", "qkv", "attention")
_ENDS = ("input", "output")
# Kinds of tasks that belong to no layer although they come after one.
_LAST = ("norm", "head", "output")


@dataclass(frozen=True)
class Holding:
    """What one device of a plan has and does.

    Attributes
    ----------
    holds : in words; shared : tasks of which it computes some elements only.
    memory : bytes at their most, of `capacity` (None: unlimited).
    seconds : busy for every batch.
    """

    device: str
    node: str
    holds: str
    tasks: int
    shared: int
    memory: int
    capacity: int | None
    seconds: float


@dataclass(frozen=True)
class _LayerPlace:
    """Where a task stands in its network: layer (None: outside of all), and its kind."""

    layer: int | None
    op: str


def list_holdings(problem: Problem, schedule: Schedule) -> tuple[Holding, ...]:
    """What every device has that does anything, in the platform's order."""
    places = _places(problem)
    taken: dict[str, Counter[str]] = {}
    for e in schedule.executions:
        if problem.graph.task(e.task).op not in _ENDS:
            taken.setdefault(e.device, Counter())[e.task] += len(e.elements)
    peaks = memory_peaks(problem, schedule.executions, schedule.copies)
    busy = loads(problem, schedule.executions, schedule.copies)
    found = []
    for device in problem.platform.devices:
        counts = taken.get(device.name)
        if counts:
            found.append(
                Holding(
                    device=device.name,
                    node=device.node,
                    holds=_words(places, counts, problem.batch),
                    tasks=len(counts),
                    shared=sum(count < problem.batch for count in counts.values()),
                    memory=peaks[device.name],
                    capacity=device.memory,
                    seconds=busy.get(device.name, 0.0),
                )
            )
    return tuple(found)


def format_ranges(numbers: Iterable[int]) -> str:
    """``0-3, 7``: integers, runs of them joined."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def _places(problem: Problem) -> dict[str, _LayerPlace]:
    """Where every task stands; without attention each is a layer of its own."""
    tasks = [task for task in problem.tasks if task.op not in _ENDS]
    kinds = {task.op for task in tasks}
    first = next((op for op in _FIRSTS if op in kinds), None)
    if first is None:
        return {task.id: _LayerPlace(i, "task") for i, task in enumerate(tasks)}
    places: dict[str, _LayerPlace] = {}
    layer, before = -1, ""
    for task in tasks:
        layer += task.op == first and before != first
        before = task.op
        outside = layer < 0 or task.op in _LAST
        places[task.id] = _LayerPlace(None if outside else layer, task.op)
    return places


def _words(places: Mapping[str, _LayerPlace], counts: Mapping[str, int], batch: int) -> str:
    """What a device has: first what it computes for all elements, then its shares."""
    parts = _of_layers(places, [task for task, n in counts.items() if n >= batch])
    for count in sorted({n for n in counts.values() if n < batch}, reverse=True):
        own = _of_layers(places, [task for task, n in counts.items() if n == count])
        parts.append(f"{'; '.join(own)}, {count} of {batch} sequences")
    return "; ".join(parts)


def _of_layers(places: Mapping[str, _LayerPlace], tasks: Sequence[str]) -> list[str]:
    """Tasks in words: whole layers, then parts of layers, in their order."""
    every = Counter(places.values())
    mine = Counter(places[task] for task in tasks)
    layers = {place.layer for place in mine if place.layer is not None}
    whole = {
        layer
        for layer in layers
        if all(mine[place] == every[place] for place in every if place.layer == layer)
    }
    single = any(place.op == "task" for place in mine)
    words = [place.op for place in mine if place.layer is None and place.op not in _LAST]
    if whole:
        what = "task" if single else "layer"
        words.append(f"{what}{'s' if len(whole) > 1 else ''} {format_ranges(_known(whole))}")
    rest = Counter({p: n for p, n in mine.items() if p.layer is not None and p.layer not in whole})
    words += _parts(rest, every)
    return words + [place.op for place in mine if place.layer is None and place.op in _LAST]


def _known(layers: Iterable[int | None]) -> list[int]:
    return [layer for layer in layers if layer is not None]


def _parts(mine: Counter[_LayerPlace], every: Counter[_LayerPlace]) -> list[str]:
    """Parts of layers: for each kind, and each number of its parts, the layers."""
    rows: dict[tuple[str, str], list[int]] = {}
    for place, count in mine.items():
        total = every[place]
        note = "" if count == total else f" ({count} of {total} parts)"
        rows.setdefault((place.op, note), []).extend(_known([place.layer]))
    return [f"{op} {format_ranges(layers)}{note}" for (op, note), layers in rows.items()]
