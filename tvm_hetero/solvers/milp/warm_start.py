"""A known schedule in the words of the MILP: which candidate does what, and when.

Elements of a batch are interchangeable, and the model orders them (the first task's executions
hold consecutive elements), so a schedule's elements are renamed to fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_hetero.problem.schedule import Execution, Schedule
from tvm_hetero.solvers.milp.candidates import Candidates, Mode
from tvm_hetero.views.instance import Hop, Instance


@dataclass(frozen=True)
class Chosen:
    """What a candidate does: its mode, its elements, its times (s)."""

    mode: Mode
    elements: tuple[int, ...]
    start: float
    end: float


@dataclass(frozen=True)
class Start:
    """A schedule; candidates that do not take place are absent.

    `hops` are the times (s) of each hop of a tensor (a position) that a candidate makes.
    """

    chosen: dict[int, Chosen] = field(default_factory=dict)
    hops: dict[tuple[int, int, Hop], tuple[float, float]] = field(default_factory=dict)
    makespan: float = 0.0


def read_start(
    instance: Instance, candidates: Candidates, schedule: Schedule | None
) -> Start | None:
    """The schedule as a choice of candidates; None if it is not in their class."""
    if schedule is None:
        return None
    index, device = instance.problem.graph.index, instance.problem.platform.index
    names = _renamed(instance, schedule)
    chosen: dict[int, Chosen] = {}
    for e in schedule.executions:
        mode = Mode(device[e.device], len(e.elements))
        elements = tuple(sorted(names[n] for n in e.elements))
        candidate = _candidate(candidates, index[e.task], mode, elements, chosen)
        if candidate is None:
            return None
        chosen[candidate] = Chosen(mode, elements, e.start, e.end)
    tensors = {flow.name: t for t, flow in enumerate(instance.tensors)}
    hops: dict[tuple[int, int, Hop], tuple[float, float]] = {}
    for copy in schedule.copies:
        t = tensors[copy.tensor]
        made = names[copy.elements[0]]
        maker = next(
            c
            for c in candidates.of[instance.tensors[t].maker]
            if c in chosen and made in chosen[c].elements
        )
        hops[maker, t, (device[copy.src], device[copy.dst])] = (copy.start, copy.end)
    return Start(chosen, hops, max(e.end for e in schedule.executions))


def _candidate(
    candidates: Candidates,
    task: int,
    mode: Mode,
    elements: tuple[int, ...],
    taken: dict[int, Chosen],
) -> int | None:
    for c in candidates.of[task]:
        row = candidates.rows[c]
        fits = row.first is None or row.first == elements[0]
        if fits and mode in row.modes and c not in taken:
            return c
    return None


def _renamed(instance: Instance, schedule: Schedule) -> dict[int, int]:
    """New numbers of the elements: those of the first task's executions, device by device."""
    first = instance.tasks[instance.order[0]]
    device = instance.problem.platform.index

    def key(e: Execution) -> tuple[int, float, tuple[int, ...]]:
        return device[e.device], e.start, e.elements

    row = sorted((e for e in schedule.executions if e.task == first), key=key)
    order = [n for e in row for n in sorted(e.elements)]
    return {n: i for i, n in enumerate(order)}
