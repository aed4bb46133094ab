"""The pass that places a lowered module as a schedule says."""

from __future__ import annotations

import tvm

from tvm_hetero.cost_models.store.traces import with_stored_traces
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule


@tvm.transform.module_pass(opt_level=0, name="AnnotateDevices")
class AnnotateDevices:
    """Place the tasks of a lowered module as a schedule says (`annotate_devices`).

    The problem may have come from a file: the traces of tuned kernels that the module lacks are
    looked for in the user's store.
    """

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem = problem
        self.schedule = schedule

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return `mod` annotated."""
        complete = with_stored_traces(mod, self.problem)
        return annotate_devices(complete, self.problem, self.schedule)
