"""Intervals: who was busy with what, from when to when. All charts and traces are made of them.

A *lane* is a row of a chart: a device, or a link (written ``big → little``). A plan and a
measured run become the same kind of data here, so that they can be drawn on one time scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Schedule
from tvm_hetero.util.units import format_bytes

COPY = "copy"


@dataclass(frozen=True)
class Interval:
    """`lane` did `name` from `start` to `end` (s); `kind` decides the colour.

    `detail` is one more line for whoever points at it (``batch elements 0, 1``); `also` are further
    lanes that were busy with it: the other cores of a team.
    """

    lane: str
    name: str
    start: float
    end: float
    kind: str = ""
    detail: str = ""
    also: tuple[str, ...] = ()

    @property
    def lanes(self) -> tuple[str, ...]:
        """All lanes that were busy with it."""
        return (self.lane, *self.also)

    @property
    def seconds(self) -> float:
        """Length, s."""
        return self.end - self.start


class Traced(Protocol):
    """One interval of the executor's trace (seconds since the run began)."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def kind(self) -> str: ...
    @property
    def run_by(self) -> str: ...


def plan_intervals(schedule: Schedule, problem: Problem | None = None) -> list[Interval]:
    """The executions and copies of a schedule; with its problem also op kinds and sizes."""
    plan = []
    for run in schedule.executions:
        known = problem is not None and run.task in problem.graph.index
        kind = problem.graph.task(run.task).op if problem is not None and known else ""
        detail = _elements(run.elements)
        plan.append(Interval(run.device, run.task, run.start, run.end, kind, detail))
    for copy in schedule.copies:
        lane = f"{copy.src} → {copy.dst}"
        detail = ", ".join(filter(None, [_copy_size(copy, problem), _elements(copy.elements)]))
        plan.append(Interval(lane, copy.tensor, copy.start, copy.end, COPY, detail))
    return plan


def measured_intervals(trace: Iterable[Traced]) -> list[Interval]:
    """The intervals of a measured run; steps that were skipped (NaN times) are left out."""
    return [
        Interval(step.run_by or step.device, step.name, step.start, step.end, step.kind)
        for step in trace
        if math.isfinite(step.start) and math.isfinite(step.end)
    ]


def lane_order(intervals: Iterable[Interval], first: Sequence[str] = ()) -> list[str]:
    """The lanes to draw: all of `first` in that order, then the others by name."""
    others = {lane for interval in intervals for lane in interval.lanes} - set(first)
    return [*first, *sorted(others)]


def group_by_lane(intervals: Iterable[Interval]) -> dict[str, list[Interval]]:
    """The intervals of every lane that has some, in the order in which they come."""
    lanes: dict[str, list[Interval]] = {}
    for interval in intervals:
        for lane in interval.lanes:
            lanes.setdefault(lane, []).append(interval)
    return lanes


def span(intervals: Iterable[Interval]) -> float:
    """The end of the last interval, s (0 without intervals)."""
    return max((interval.end for interval in intervals), default=0.0)


def busy_seconds(intervals: Iterable[Interval], lane: str) -> float:
    """How long `lane` is busy, s; time that two of its intervals share counts once."""
    mine = sorted((i.start, i.end) for i in intervals if lane in i.lanes)
    pieces, reached = [], -math.inf
    for start, end in mine:
        pieces.append(max(0.0, end - max(start, reached)))
        reached = max(reached, end)
    return math.fsum(pieces)


def overlap_seconds(intervals: Iterable[Interval], lanes: Sequence[str]) -> float:
    """How long at least two of `lanes` are busy at once, s."""
    mine = [i for i in intervals if i.lane in lanes]
    events = sorted(event for i in mine for event in ((i.start, 1), (i.end, -1)))
    pieces, active, before = [], 0, 0.0
    for time, change in events:
        if active >= 2:
            pieces.append(time - before)
        active, before = active + change, time
    return math.fsum(pieces)


def _elements(elements: Sequence[int]) -> str:
    if list(elements) in ([], [0]):
        return ""
    shown = ", ".join(map(str, elements[:16])) + (", ..." if len(elements) > 16 else "")
    return f"batch elements {shown}"


def _copy_size(copy: Copy, problem: Problem | None) -> str:
    tensor = problem.graph.tensors.get(copy.tensor) if problem is not None else None
    return format_bytes(tensor.bytes * len(copy.elements)) if tensor is not None else ""
