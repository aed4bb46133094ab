"""Where the time went: a measured run beside its plan, and what made it longer.

Every step of the plan that runs (a segment or a copy) is a row, and so is every wait: planned and
measured start and length. A run is longer than its plan because

segment   its kernels take longer than their costs. Either they do so even alone on the device
          (the cost is wrong), or only while the other devices work (interference: the factor is
          the time in this run by the time of the same tasks in a run of that device alone);
copy      a link is slower than the platform says;
wait      a device waits longer for another than planned. That is mostly the trace of one of the
          former elsewhere, so a wait is blamed only where no segment and no copy lost as much.

Planned times of a segment are those of its tasks' executions: n elements of an execution are run
one after the other, each for an n-th of its length. A schedule for throughput shows one period of
the steady state, in which starts mean nothing: there only lengths are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tvm_hetero.problem.schedule import Copy, Schedule
from tvm_hetero.report.schedule.intervals import COPY, Traced
from tvm_hetero.util.text_tables import printable, table
from tvm_hetero.util.units import format_seconds

SEGMENT, WAIT = "segment", "wait"
# Seconds of (task, element, device) when that device works alone.
Alone = Mapping[tuple[str, int, str], float]
# A factor beyond this is worth being called interference: less is the noise of a run.
_WORTH_A_WORD = 1.03
_WIDTH = 48  # of a name: a segment is called after all of its tasks


class ComparedStep(Traced, Protocol):
    """One step of the executor's trace."""

    @property
    def tasks(self) -> tuple[str, ...]: ...
    @property
    def elements(self) -> tuple[int, ...]: ...
    @property
    def waited(self) -> float: ...


@dataclass(frozen=True)
class ComparedRow:
    """One segment, copy or wait; all times in s, NaN where the plan says nothing.

    `alone` is what a segment's tasks take when its device works alone (NaN: unknown).
    """

    kind: str
    name: str
    device: str
    planned_start: float
    planned: float
    start: float
    measured: float
    alone: float = math.nan

    @property
    def excess(self) -> float:
        """Seconds beyond the plan (NaN where it says nothing)."""
        return self.measured - self.planned


@dataclass(frozen=True)
class Differences:
    """All rows of a run by measured start; its planned and measured value (s); the verdict."""

    rows: tuple[ComparedRow, ...]
    planned: float
    measured: float
    factors: Mapping[str, float]
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """What ``--json`` prints: NaN is null."""
        rows = [{k: _number(v) for k, v in asdict(row).items()} for row in self.rows]
        return {
            "planned": self.planned,
            "measured": self.measured,
            "interference": dict(self.factors),
            "verdict": self.verdict,
            "rows": rows,
        }


def differences(
    trace: Sequence[ComparedStep], schedule: Schedule, alone: Alone | None = None
) -> Differences:
    """Compare a run with its plan.

    Parameters
    ----------
    trace : the steps of one run; skipped ones (NaN times) are left out.
    schedule : what was planned.
    alone : measured times of tasks without the other devices, as far as they are known.
    """
    done = [step for step in trace if math.isfinite(step.start) and math.isfinite(step.end)]
    planned = _Planned(schedule)
    rows = [_row(step, planned, alone or {}) for step in done]
    if not planned.steady:  # in a period, a device may work on another batch while this one waits
        rows += _waits(done, rows)
    rows.sort(key=lambda row: (row.start, row.device, row.name))
    measured = _measured(done, schedule)
    factors = _factors(rows)
    text = _verdict(rows, done, factors, schedule.value, measured)
    return Differences(tuple(rows), schedule.value, measured, factors, text)


class _Planned:
    """Planned start and length (s) of each (task, element, device) and of each hop."""

    def __init__(self, schedule: Schedule) -> None:
        self.steady = schedule.kind == "throughput"
        self.tasks: dict[tuple[str, int, str], tuple[float, float]] = {}
        for run in schedule.executions:
            share = (run.end - run.start) / len(run.elements)
            for i, element in enumerate(run.elements):
                self.tasks[run.task, element, run.device] = run.start + i * share, share
        self.hops: dict[tuple[str, str, str], Copy] = {}
        for hop in schedule.copies:
            for element in hop.elements:
                for tensor in {f"{hop.tensor}#{element}", hop.tensor}:
                    self.hops.setdefault((tensor, hop.src, hop.dst), hop)

    def segment(self, step: ComparedStep) -> tuple[float, float]:
        """Start and length of a segment; NaN if the plan has other tasks there."""
        keys = zip(step.tasks, step.elements, strict=True)
        found = [self.tasks.get((task, element, step.device)) for task, element in keys]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return math.nan, math.nan
        start = math.nan if self.steady else min(start for start, _ in known)
        return start, math.fsum(length for _, length in known)

    def hop(self, step: ComparedStep) -> tuple[float, float]:
        """Start and length of a copy, which is called ``TENSOR: FROM > TO``."""
        tensor, _, way = step.name.rpartition(": ")
        src, _, dst = way.partition(" > ")
        hop = self.hops.get((tensor, src, dst))
        if hop is None:
            return math.nan, math.nan
        start = math.nan if self.steady else hop.start
        return start, (hop.end - hop.start) / len(hop.elements)


def _row(step: ComparedStep, planned: _Planned, alone: Alone) -> ComparedRow:
    kind = COPY if step.kind == COPY else SEGMENT
    start, length = planned.hop(step) if kind == COPY else planned.segment(step)
    times = [
        alone.get((task, element, step.device), math.nan)
        for task, element in zip(step.tasks, step.elements, strict=True)
    ]
    seconds = step.end - step.start
    known = math.fsum(times) if times else math.nan
    return ComparedRow(kind, step.name, step.device, start, length, step.start, seconds, known)


def _waits(done: Sequence[ComparedStep], rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """A row for each step that waited, with the planned gap before it on its device."""
    waits = []
    until: dict[str, float] = {}
    for step, row in sorted(zip(done, rows, strict=True), key=lambda pair: pair[0].start):
        if row.kind == COPY:
            continue  # a link has no time of its own to lose
        before = until.get(step.device, 0.0)
        gap = max(0.0, row.planned_start - before)
        until[step.device] = row.planned_start + row.planned
        waited = min(step.waited, step.start)  # before the run began, there was nothing to do
        if waited > 0 or gap > 0:
            name = f"before {step.name}"
            start = step.start - waited
            waits.append(ComparedRow(WAIT, name, step.device, before, gap, start, waited))
    return waits


def _measured(done: Sequence[ComparedStep], schedule: Schedule) -> float:
    """The makespan; for throughput the load of the busiest lane."""
    if schedule.kind != "throughput":
        return max((step.end for step in done), default=0.0)
    loads: dict[str, list[float]] = {}
    for step in done:
        loads.setdefault(step.run_by or step.device, []).append(step.end - step.start)
    return max((math.fsum(load) for load in loads.values()), default=0.0)


def _factors(rows: Iterable[ComparedRow]) -> dict[str, float]:
    """For each device the time of its tasks in this run by their time alone."""
    sums: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.kind == SEGMENT and row.alone > 0:
            sums.setdefault(row.device, []).append((row.measured, row.alone))
    return {
        device: math.fsum(m for m, _ in pairs) / math.fsum(a for _, a in pairs)
        for device, pairs in sorted(sums.items())
    }


def _verdict(
    rows: Sequence[ComparedRow],
    done: Sequence[ComparedStep],
    factors: Mapping[str, float],
    planned: float,
    measured: float,
) -> str:
    """The largest difference and its likely cause, in a sentence or two."""
    lost = [row for row in rows if row.excess > 0]
    if not lost:
        return "No segment, copy or wait took longer than planned."
    worst = max((r for r in lost if r.kind != WAIT), key=lambda row: row.excess, default=None)
    wait = max((r for r in lost if r.kind == WAIT), key=lambda row: row.excess, default=None)
    if worst is None or (wait is not None and wait.excess > 2 * worst.excess):
        assert wait is not None
        worst = wait
    ratio = f" ({measured / planned:.2f} times the plan)" if planned > 0 else ""
    return (
        f"Planned {format_seconds(planned)}, measured {format_seconds(measured)}{ratio}. Largest "
        f"difference: {worst.kind} '{printable(worst.name, _WIDTH)}' on {worst.device}, "
        f"{format_seconds(worst.measured)} instead of {format_seconds(worst.planned)}: "
        f"{_cause(worst, done, factors)}."
    )


def _cause(row: ComparedRow, done: Sequence[ComparedStep], factors: Mapping[str, float]) -> str:
    if row.kind == COPY:
        return "the link is slower than the platform says"
    if row.kind == WAIT:
        return _waited_for(row, done)
    if not row.alone > 0:
        return "its kernels are slower than their costs"
    factor = row.measured / row.alone
    if factor >= _WORTH_A_WORD and row.measured - row.alone >= row.excess / 2:
        whole = factors[row.device]
        return (
            f"alone it takes {format_seconds(row.alone)}, so the other devices slow it down by a "
            f"factor of {factor:.2f} (the whole device: {whole:.2f})"
        )
    return f"even alone it takes {format_seconds(row.alone)}, so the cost is too low: measure again"


def _waited_for(row: ComparedRow, done: Sequence[ComparedStep]) -> str:
    """The step of another lane that ended last before the wait did."""
    until = row.start + row.measured
    slack = 1e-9 + 0.02 * row.measured  # marks are seen a moment after the step's end
    others = [s for s in done if s.device != row.device and s.end <= until + slack]
    if not others:
        return "nothing else had ended before it, so its thread was late to start"
    last = max(others, key=lambda step: step.end)
    return f"'{printable(last.name, _WIDTH)}' on {last.device} was not ready earlier"


HEADERS = ("what", "name", "device", "planned from", "planned", "from", "measured", "difference")


def differences_table(found: Differences, most: int = 30) -> str:
    """The rows that lost or won the most, `most` at most, in the order of their start."""
    weight = {id(row): abs(row.excess) if math.isfinite(row.excess) else 0.0 for row in found.rows}
    kept = sorted(found.rows, key=lambda row: -weight[id(row)])[:most]
    chosen = {id(row) for row in kept}
    lines = [_cells(row) for row in found.rows if id(row) in chosen]
    text = table(HEADERS, lines)
    left = len(found.rows) - len(lines)
    return text if not left else f"{text}\n({left} more rows differ less: --json has all)"


def _cells(row: ComparedRow) -> list[str]:
    times = (row.planned_start, row.planned, row.start, row.measured)
    sign = "+" if row.excess >= 0 else "-"
    change = sign + format_seconds(abs(row.excess)) if math.isfinite(row.excess) else "-"
    return [row.kind, printable(row.name, _WIDTH), row.device, *map(_time, times), change]


def _time(value: float) -> str:
    return format_seconds(value) if math.isfinite(value) else "-"


def _number(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
