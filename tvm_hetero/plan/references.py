"""That every number by which a plan's row names another one is that of a row.

C++ checks all of a plan (src/plan/check_plan.cc) when an executor is made of it. What reads a plan
before that must not meet a row that is not there, nor, below zero, Python's last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm_hetero.errors import FormatError
from tvm_hetero.plan.model import Plan, StepKind


def check_references(plan: Plan, name: str) -> None:
    """Refuse a plan with a number of a device, worker or slot that it has not.

    Raises
    ------
    FormatError
        If there is one; `name`, of the document, and the row are quoted.
    """
    counts = {
        "device": len(plan.devices), "worker": len(plan.workers), "slot": len(plan.slots),
    }  # fmt: skip
    for where, kind, number in _references(plan):
        if not 0 <= number < counts[kind]:
            raise FormatError(
                f"{name}: {where}: there is no {kind} {number}, expected a number from 0 on of "
                f"one of the {counts[kind]} that there are"
            )


def _references(plan: Plan) -> Iterator[tuple[str, str, int]]:
    """Where one stands, of what it is the number, and the number."""
    for i, worker in enumerate(plan.workers):
        yield f"workers[{i}]", "device", worker.device
    for i, slot in enumerate(plan.slots):
        yield f"slots[{i}]", "device", slot.device
    for key in ("inputs", "constants", "outputs"):
        for i, row in enumerate(getattr(plan, key)):
            yield f"{key}[{i}]", "slot", row.slot
    for i, step in enumerate(plan.steps):
        yield f"steps[{i}]", "worker", step.worker
        for number in (*step.ins, *step.outs):
            yield f"steps[{i}]", "slot", number
        if step.kind is StepKind.COPY:
            yield f"steps[{i}]", "device", step.to_device
