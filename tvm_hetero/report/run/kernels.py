"""How the kernels of a plan are computed: the rule that took each, what it reaches, what was tried.

One row a kernel and device, the dearest first: its time for one call times the tasks that the plan
has of it there. Rates are against what a kernel must do at least: arithmetic operations where there
are `_ARITHMETIC` or more for each byte that it moves, else bytes (every argument and result once).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_hetero.problem.cost import IMPLEMENTATIONS
from tvm_hetero.problem.graph import Task
from tvm_hetero.problem.implementation_choice import Choice
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.precision_promise import BFLOAT16, PrecisionPromise
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.text_tables import count_noun, format_table
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

HEADERS = ["kernel", "tasks", "rule", "computed by", "time", "spread", "rate", "alternatives"]
_ARITHMETIC = 4.0
_NAME = 40  # columns for a kernel's name


@dataclass(frozen=True)
class KernelRow:
    """One kernel on one device.

    Attributes
    ----------
    placed, tasks : how many tasks of it the plan has on the device, and the model in all.
    flops, bytes : of one call.
    """

    choice: Choice
    placed: int
    tasks: int
    flops: float
    bytes: float

    @property
    def seconds(self) -> float | None:
        """What one call takes, None where that was not measured."""
        timing = self.choice.timing
        return None if timing is None else timing.seconds

    @property
    def rate(self) -> tuple[float, str] | None:
        """Rate and unit, None where there is no time or no work."""
        work = self.flops if self.flops >= _ARITHMETIC * self.bytes else self.bytes
        if not self.seconds or not work:
            return None
        unit = "GB/s" if work is self.bytes else "GFLOP/s"
        return work / self.seconds / 1e9, unit


def kernel_rows(
    choices: Iterable[Choice], problem: Problem, schedule: Schedule
) -> dict[str, list[KernelRow]]:
    """For each device, in the platform's order, what is known of its kernels, dearest first."""
    tasks: dict[str, list[Task]] = {}
    for task in problem.tasks:
        tasks.setdefault(task.op, []).append(task)
    placement = schedule.placement
    rows: dict[str, list[KernelRow]] = {name: [] for name in problem.platform.names}
    for choice in choices:
        own = tasks.get(choice.kernel)
        if own and choice.device in rows:
            placed = sum(choice.device in placement.get(task.id, ()) for task in own)
            row = KernelRow(choice, placed, len(own), own[0].flops, own[0].bytes)
            rows[choice.device].append(row)
    for listed in rows.values():
        listed.sort(key=lambda row: (-(row.seconds or 0.0) * row.placed, -(row.seconds or 0.0)))
    return rows


def kernels_text(choices: Iterable[Choice], problem: Problem, schedule: Schedule) -> str:
    """Tables for a terminal: one a device, each under a line that sums it up."""
    parts = []
    for device, rows in kernel_rows(choices, problem, schedule).items():
        if rows:
            parts.append(f"{_summary(device, rows)}\n\n{format_table(HEADERS, map(_cells, rows))}")
    return "\n\n".join(parts) or "no kernels"


def kernels_summary(choices: Iterable[Choice], problem: Problem, schedule: Schedule) -> list[str]:
    """A line a device that has kernels."""
    rows = kernel_rows(choices, problem, schedule)
    return [_summary(device, own) for device, own in rows.items() if own]


def estimates_text(estimated: str | None, choices: Iterable[Choice]) -> str:
    """That the costs are estimates of a model, and from how many kernels; nothing if they are none.

    Parameters
    ----------
    estimated : the model's name, as an artifact has it.
    choices : of its kernels.
    """
    if estimated is None:
        return ""
    rows = list(choices)
    measured = {choice.kernel for choice in rows if choice.timing is not None}
    kernels = {choice.kernel for choice in rows}
    counted = f"{len(measured)} of {count_noun(len(kernels), 'kernel')}"
    return (
        f"costs are estimates ({estimated}): {counted} measured, the others' times and perhaps the "
        "links' are taken from these and the roofline"
    )


def probabilities_text(probabilities: Mapping[str, float]) -> str:
    """That times of a plan are expectations, and by what; nothing if no probabilities are given."""
    if not probabilities:
        return ""
    listed = ", ".join(f"{printable(k)} {v:g}" for k, v in sorted(probabilities.items()))
    return f"times are expected ones: tasks of branches count as often as they run ({listed})"


def kernels_json(
    choices: Iterable[Choice],
    problem: Problem,
    schedule: Schedule,
    promise: PrecisionPromise | None = None,
) -> list[dict[str, Any]]:
    """The same rows for machines; times in seconds, rates in operations or bytes a second.

    The precision is that of tasks which `promise` says to be in bfloat16; None: the model's own.
    """
    chosen = {} if promise is None else promise.tasks
    narrow = {task.op for task in problem.tasks if task.id in chosen}
    return [
        {**_json_row(row), "precision": BFLOAT16 if row.choice.kernel in narrow else None}
        for rows in kernel_rows(choices, problem, schedule).values()
        for row in rows
    ]


def _summary(device: str, rows: Sequence[KernelRow]) -> str:
    """``cpu0: 29 kernels; packed 24, pool 1; 4 fell back (2 % of the time); default 2, tuned 1``"""
    rules = Counter(row.choice.rule for row in rows if not row.choice.fell_back)
    lost = [row for row in rows if row.choice.fell_back]
    parts = [f"{device}: {count_noun(len(rows), 'kernel')}"]
    if rules:
        parts.append(", ".join(f"{rule} {count}" for rule, count in rules.most_common()))
    if lost:
        share = _share(lost, rows)
        percent = "" if share is None else f" ({_percent(share)} of the time)"
        parts.append(f"{len(lost)} fell back{percent}")
    other = Counter(row.choice.implementation for row in rows)
    others = [f"{name} {other[name]}" for name in IMPLEMENTATIONS[1:] if other[name]]
    if others:
        parts.append("computed otherwise than by rule: " + ", ".join(others))
    return "; ".join(parts)


def _percent(share: float) -> str:
    """Two digits, or all before the point: of 1 they would be 1e+02."""
    return f"{100 * share:.0f} %" if share > 0.095 else f"{100 * share:.2g} %"


def _share(some: Sequence[KernelRow], rows: Sequence[KernelRow]) -> float | None:
    """What part of the time of all tasks of the model some kernels take on this device."""

    def total(of: Sequence[KernelRow]) -> float:
        return sum((row.seconds or 0.0) * row.tasks for row in of)

    return total(some) / total(rows) if total(rows) else None


def _cells(row: KernelRow) -> list[object]:
    choice, timing = row.choice, row.choice.timing
    spread = None if timing is None else timing.spread
    relative = "-" if timing is None or spread is None else f"{spread / timing.seconds:.1%}"
    return [
        choice.kernel if len(choice.kernel) <= _NAME else choice.kernel[: _NAME - 1] + "…",
        f"{row.placed} of {row.tasks}",
        f"{choice.rule} (fell back)" if choice.fell_back else choice.rule,
        choice.implementation,
        "-" if timing is None else format_seconds(timing.seconds),
        relative.replace("%", " %"),
        "-" if row.rate is None else f"{row.rate[0]:.3g} {row.rate[1]}",
        ", ".join(_alternatives(choice)),
    ]


def _alternatives(choice: Choice) -> list[str]:
    measured = [
        f"{name} {format_seconds(timing.seconds)}"
        for name, timing in choice.times.items()
        if name != choice.implementation
    ]
    return measured + [f"{name} refused: {reason}" for name, reason in choice.refused.items()]


def _json_row(row: KernelRow) -> dict[str, Any]:
    choice, timing = row.choice, row.choice.timing
    return {
        "device": choice.device,
        "kernel": choice.kernel,
        "tasks": row.tasks,
        "placed": row.placed,
        "rule": choice.rule,
        "fell_back": choice.fell_back,
        "implementation": choice.implementation,
        "seconds": row.seconds,
        "spread": None if timing is None else timing.spread,
        "flops": row.flops,
        "bytes": row.bytes,
        "rate": None if row.rate is None else row.rate[0] * 1e9,
        "rate_unit": None if row.rate is None else row.rate[1].removeprefix("G"),
        "times": {name: each.seconds for name, each in choice.times.items()},
        "refused": dict(choice.refused),
    }
