"""A placed module with the problem and the schedule that it was placed by, as objects.

Inside of this package a placement goes from hand to hand as this value. As attributes of the module
(JSON) problem and schedule are written when it leaves, to be printed, saved or run by TVM, and read
when one comes in.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm

from tvm_hetero.errors import UsageError
from tvm_hetero.passes.attributes import PROBLEM, SCHEDULE
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.documents import canonical_json, parse_document
from tvm_hetero.util.tvm_state import one_thread


@dataclass(frozen=True)
class PlacedModel:
    """A model whose every operator has a device.

    Attributes
    ----------
    placed : the module, with a ``VDevice`` on every call and without the two attributes.
    problem, schedule : what it was placed by.
    """

    placed: tvm.IRModule
    problem: Problem
    schedule: Schedule

    @classmethod
    def of(cls, mod: tvm.IRModule | PlacedModel) -> PlacedModel:
        """What an annotated module says; what is one already stays as it is.

        Raises
        ------
        UsageError
            If it is no module, or not annotated.
        FormatError
            If its problem or schedule is damaged.
        """
        if isinstance(mod, PlacedModel):
            return mod
        if not isinstance(mod, tvm.IRModule):
            raise UsageError(
                "expected an annotated module, as HeteroPartition gives it, "
                f"got {type(mod).__name__}"
            )
        problem, schedule = problem_and_schedule(mod)
        return cls(without_attributes(mod), problem, schedule)

    @one_thread
    def to_module(self) -> tvm.IRModule:
        """The module with problem and schedule in its attributes."""
        own = {PROBLEM: canonical_json(self.problem.to_dict()), SCHEDULE: self.schedule.dumps()}
        return self.placed.with_attrs({**(dict(self.placed.attrs or {})), **own})


def is_annotated(mod: tvm.IRModule) -> bool:
    """Whether a module came out of `tvm_hetero.passes.annotate_devices`."""
    return mod.attrs is not None and SCHEDULE in mod.attrs


def problem_and_schedule(mod: tvm.IRModule) -> tuple[Problem, Schedule]:
    """The problem and the schedule that an annotated module carries.

    Raises
    ------
    UsageError
        If the module is not annotated.
    """
    if not is_annotated(mod):
        raise UsageError(
            "the module has no placement; expected the result of HeteroPartition()(module)"
        )
    problem = Problem.from_dict(parse_document(str(mod.attrs[PROBLEM]), "the module's problem"))
    return problem, Schedule.loads(str(mod.attrs[SCHEDULE]), "the module's schedule")


def without_attributes(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without problem and schedule."""
    kept = {k: v for k, v in dict(mod.attrs or {}).items() if k not in (PROBLEM, SCHEDULE)}
    plain = mod.without_attr(PROBLEM).without_attr(SCHEDULE) if mod.attrs else mod
    return plain.with_attrs(kept) if kept else plain
