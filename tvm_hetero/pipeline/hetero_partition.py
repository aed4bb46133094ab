"""The pass that the project is about: a module in, the same module on several devices out."""

from __future__ import annotations

import tvm

from tvm_hetero.cost_models.protocol import CostModel
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.objective_kinds import Kind, Objective


@tvm.transform.module_pass(opt_level=0, name="HeteroPartition")
class HeteroPartition:
    """Annotate every operator of a Relax module with the device that shall run it.

    The module is lowered to kernels, each kernel is measured on each device, the scheduling
    problem is solved, and places, copies and order are written into the IR (see
    `tvm_hetero.passes.annotate_devices`). It is an ordinary TVM pass: it composes in
    ``tvm.transform.Sequential`` and obeys ``PassContext``.

    Parameters
    ----------
    platform : the devices; default: this machine. With measured costs, links that the platform
        leaves open are measured too.
    objective : ``latency``, ``throughput``, ``energy`` or ``cost``, or a whole `Objective`.
    solver : the name of a solver (``tvm_hetero.solvers.names()``).
    batch : elements per batch.
    time_limit : seconds for the solver.
    gap : it may end where its plan is proven to be within this share of the best.
    seed : of the solver.
    cost_model : a cost model or the name of one.
    respect_annotations : run operators that the model itself is annotated for a device (Relay's
        ``on_device``) on that device; otherwise annotations say nothing.
    plain_sums : sum convolutions up as they are written, never by Winograd's tiles: slower, with
        errors about a tenth.
    """

    def __init__(
        self,
        platform: Platform | None = None,
        objective: Kind | Objective = "latency",
        solver: str = "auto",
        batch: int = 1,
        time_limit: float = 60.0,
        seed: int = 0,
        cost_model: str | CostModel = "profiled",
        gap: float = 1e-3,
        respect_annotations: bool = False,
        plain_sums: bool = False,
    ) -> None:
        self.platform = platform
        self.objective = (
            objective if isinstance(objective, Objective) else Objective(objective, batch)
        )
        self.solver = solver
        self.time_limit = time_limit
        self.seed = seed
        self.gap = gap
        self.cost_model = cost_model
        self.respect_annotations = respect_annotations
        self.plain_sums = plain_sums

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return `mod` annotated."""
        from tvm_hetero.pipeline.partition import partition

        result = partition(
            mod,
            self.platform or Platform.detect(),
            self.objective,
            self.solver,
            self.time_limit,
            self.seed,
            self.cost_model,
            gap=self.gap,
            respect_annotations=self.respect_annotations,
            plain_sums=self.plain_sums,
        )
        return result.module
