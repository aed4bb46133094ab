"""The pass that the project is about: a module in, the same module on several devices out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm

from tvm_hetero.cost_models.protocol import CostModel
from tvm_hetero.pipeline.options import CHECKS, MEASURED_GAP, SECONDS, PartitionOptions
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
    platform : the devices; default: this machine's, for latency as teams of cores
        (`tvm_hetero.pipeline.divisions.division_here`). With measured costs, links that the
        platform leaves open are measured too.
    objective : ``latency``, ``throughput``, ``energy`` or ``cost``, or a whole `Objective`.
    batch : elements per batch, where the objective does not say it.
    solver, time_limit, gap, seed, cost_model, respect_annotations, plain_sums, probabilities, \
    precision, accuracy, metric, calibration, checks : see \
    `tvm_hetero.pipeline.options.PartitionOptions`.
    """

    def __init__(
        self,
        platform: Platform | None = None,
        objective: Kind | Objective = "latency",
        solver: str = "auto",
        batch: int = 1,
        time_limit: float = SECONDS,
        seed: int = 0,
        cost_model: str | CostModel = "profiled",
        gap: float = MEASURED_GAP,
        respect_annotations: bool = False,
        plain_sums: bool = False,
        probabilities: Mapping[str, float] | None = None,
        precision: str = "float32",
        accuracy: float | None = None,
        metric: Callable[[Any, Any], float] | None = None,
        calibration: Sequence[Mapping[str, Any]] = (),
        checks: int = CHECKS,
    ) -> None:
        self.platform = platform
        goal = objective if isinstance(objective, Objective) else Objective(objective, batch)
        self.options = PartitionOptions(
            objective=goal,
            solver=solver,
            time_limit=time_limit,
            gap=gap,
            seed=seed,
            cost_model=cost_model,
            respect_annotations=respect_annotations,
            plain_sums=plain_sums,
            probabilities=probabilities or {},
            precision=precision,
            accuracy=accuracy,
            metric=metric,
            calibration=calibration,
            checks=checks,
        )

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return `mod` annotated."""
        from tvm_hetero.pipeline.divisions import division_here
        from tvm_hetero.pipeline.partition import partition

        platform = self.platform or division_here(self.options).detect()
        return partition(mod, platform, self.options).module
