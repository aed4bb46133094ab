"""Schedules: what runs where and when, what moves, how good that is and how good it could be.

The ``tvm-hetero/schedule/1`` format is read and written here; what a schedule *means*, and
whether one is valid, is decided by `tvm_hetero.check` alone.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tvm_hetero.errors import FormatError
from tvm_hetero.util.documents import (
    check_format,
    parse_document,
    read_document,
    write_atomic,
)
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_number

FORMAT = "tvm-hetero/schedule/1"
# A schedule is called optimal only where (value - lower bound) / value was proven this small.
OPTIMAL_GAP = 1e-6


@dataclass(frozen=True)
class Execution:
    """`task` runs for the batch elements `elements` on `device` from `start` to `end` (s)."""

    task: str
    device: str
    elements: tuple[int, ...]
    start: float
    end: float


@dataclass(frozen=True)
class Copy:
    """Tensor `tensor` of the elements `elements` moves over ONE link, from `start` to `end` (s)."""

    tensor: str
    elements: tuple[int, ...]
    src: str
    dst: str
    start: float
    end: float


@dataclass(frozen=True)
class SingleDevice:
    """The best schedule on one device alone: which one, and its value."""

    device: str
    value: float


@dataclass(frozen=True)
class Robustness:
    """What a plan is worth when costs are off: placement and order kept, times computed again.

    Attributes
    ----------
    perturbation : by which share each cost of a task on a device is off at most.
    samples, seed : how many sets of costs were drawn, and from which seed.
    mean, worst : value of the objective over the samples, in its unit.
    late : samples in which the latency limit is exceeded.
    """

    perturbation: float
    samples: int
    seed: int
    mean: float
    worst: float
    late: int = 0


@dataclass(frozen=True)
class Schedule:
    """An answer to a problem.

    Attributes
    ----------
    problem : SHA-256 of the canonical problem.
    value : value of the objective (s, s per batch, J per batch, or money per batch).
    lower_bound : proven: no schedule has a smaller value.
    best_single_device : None if no device alone can run every task within its memory and the
        latency limit.
    seconds : wall time of the solver. The only thing in a schedule that is not determined by
        problem, options and seed, so it stays out of equality and of the canonical text.
    """

    problem: str
    solver: str
    kind: str
    executions: tuple[Execution, ...]
    copies: tuple[Copy, ...]
    value: float
    lower_bound: float
    status: Literal["optimal", "feasible"] = "feasible"
    best_single_device: SingleDevice | None = None
    seed: int = 0
    robust: Robustness | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def gap(self) -> float:
        """(value - lower bound) / value; 0 for a value of 0."""
        return max(0.0, (self.value - self.lower_bound) / self.value) if self.value > 0 else 0.0

    @property
    def placement(self) -> dict[str, tuple[str, ...]]:
        """The devices that run each task, in order of start."""
        places: dict[str, dict[str, None]] = {}
        for execution in sorted(self.executions, key=lambda e: (e.start, e.end)):
            places.setdefault(execution.task, {})[execution.device] = None
        return {task: tuple(devices) for task, devices in places.items()}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schedule:
        """Read a schedule file.

        Raises
        ------
        FormatError
            If the file cannot be read or says something unknown or of the wrong kind.
        """
        return schedule_from_dict(read_document(path), str(path))

    @classmethod
    def loads(cls, text: str, where: str = "schedule") -> Schedule:
        """Read a schedule from JSON text."""
        return schedule_from_dict(parse_document(text, where), where)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this schedule as JSON, one execution or copy a line, whole or not at all."""
        write_atomic(path, self.dumps())

    def dumps(self, *, canonical: bool = False) -> str:
        """JSON text. Canonical text lacks `seconds`: same problem, options and seed, same text."""
        document = schedule_to_dict(self)
        if canonical:
            del document["seconds"]
        lines = []
        for key, value in document.items():
            if key in {"executions", "copies"} and value:
                rows = ",\n  ".join(json.dumps(row) for row in value)
                lines.append(f'"{key}": [\n  {rows}]')
            else:
                lines.append(f'"{key}": {json.dumps(value)}')
        return "{" + ",\n ".join(lines) + "}\n"


def schedule_to_dict(schedule: Schedule) -> dict[str, Any]:
    """The document of a schedule."""
    single = schedule.best_single_device
    robust = {} if schedule.robust is None else {"robust": asdict(schedule.robust)}
    return {
        "format": FORMAT,
        "problem": schedule.problem,
        "solver": schedule.solver,
        "status": schedule.status,
        "seed": schedule.seed,
        "seconds": schedule.seconds,
        "executions": [
            {
                "task": e.task,
                "device": e.device,
                "elements": list(e.elements),
                "start": e.start,
                "end": e.end,
            }
            for e in schedule.executions
        ],
        "copies": [
            {
                "tensor": c.tensor,
                "elements": list(c.elements),
                "from": c.src,
                "to": c.dst,
                "start": c.start,
                "end": c.end,
            }
            for c in schedule.copies
        ],
        "objective": {"kind": schedule.kind, "value": schedule.value},
        "lower_bound": schedule.lower_bound,
        "gap": schedule.gap,
        "best_single_device": (
            None if single is None else {"device": single.device, "value": single.value}
        ),
        **robust,
    }


def schedule_from_dict(data: object, where: str = "schedule") -> Schedule:
    """Make a schedule of a parsed document (``gap`` is recomputed, not believed)."""
    check_format(data, FORMAT, where)
    row = Fields(
        data,
        where,
        ["format", "problem", "solver", "status", "executions", "copies", "objective"],
        ["seed", "seconds", "lower_bound", "gap", "best_single_device", "robust"],
    )
    objective = row.fields("objective", ["kind", "value"])
    return Schedule(
        problem=row.name("problem"),
        solver=row.name("solver"),
        kind=objective.name("kind"),
        executions=row.rows("executions", _execution, "execution"),
        copies=row.rows("copies", _copy, "copy"),
        value=objective.quantity("value", parse_number),
        lower_bound=row.quantity("lower_bound", parse_number, 0.0),
        status=row.choice("status", ["optimal", "feasible"]),  # type: ignore[arg-type]
        best_single_device=_single(row) if row.has("best_single_device") else None,
        seed=row.integer("seed", 0),
        robust=_robust(row) if row.has("robust") else None,
        seconds=row.quantity("seconds", parse_number, 0.0),
    )


def _execution(data: object, where: str) -> Execution:
    row = Fields(data, where, ["task", "device", "elements", "start", "end"])
    return Execution(
        row.name("task"),
        row.name("device"),
        row.integers("elements", least=0),
        row.quantity("start", parse_number),
        row.quantity("end", parse_number),
    )


def _copy(data: object, where: str) -> Copy:
    row = Fields(data, where, ["tensor", "elements", "from", "to", "start", "end"])
    return Copy(
        row.name("tensor"),
        row.integers("elements", least=0),
        row.name("from"),
        row.name("to"),
        row.quantity("start", parse_number),
        row.quantity("end", parse_number),
    )


def _single(schedule: Fields) -> SingleDevice:
    row = schedule.fields("best_single_device", ["device", "value"])
    return SingleDevice(row.name("device"), row.quantity("value", parse_number))


def _robust(schedule: Fields) -> Robustness:
    row = schedule.fields("robust", ["perturbation", "mean", "worst", "samples", "seed"], ["late"])
    share = row.quantity("perturbation", parse_number)
    samples, late = row.integer("samples", least=1), row.integer("late", 0, least=0)
    if not (share < 1 and late <= samples):
        raise FormatError(
            f"{row.where}: expected a perturbation below 1, and at most as many late samples as "
            f"there are, got {share}, {quote(late)} and {quote(samples)}"
        )
    mean, worst = (row.quantity(key, parse_number) for key in ("mean", "worst"))
    return Robustness(share, samples, row.integer("seed"), mean, worst, late)
