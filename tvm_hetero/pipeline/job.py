"""What goes down the pipeline: a module, what is asked, and what is known of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import tvm

from tvm_hetero.cost_models.protocol import CostModel, Costs, MeasuringCostModel, Progress
from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.narrow_edges import KernelForms
from tvm_hetero.passes.placed_model import PlacedModel
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.graph import TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule


@dataclass
class Job:
    """A module on its way through `tvm_hetero.pipeline.steps`.

    Attributes
    ----------
    module, platform : as the last step left them; no one else's are changed.
    options, model : what is asked, and what knows the costs.
    progress : told of each phase as it begins, of 0 parts, and while kernels are measured.
    tasks, graph : of the lowered module.
    forms : of the kernels, where bfloat16 is asked for; else there are none in it.
    unable : why there are none on this platform.
    kernel_costs : of the distinct kernels.
    problem, schedule, placed : once they are known.
    seconds : the wall time of each phase.
    """

    module: tvm.IRModule
    platform: Platform
    options: PartitionOptions
    model: CostModel
    progress: Progress | None = None
    tasks: ExtractedTasks = field(init=False)
    graph: TaskGraph = field(init=False)
    forms: KernelForms = field(default_factory=lambda: KernelForms({}, {}))
    unable: str = ""
    kernel_costs: Costs = field(init=False)
    problem: Problem = field(init=False)
    schedule: Schedule = field(init=False)
    placed: PlacedModel = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def measuring(self) -> MeasuringCostModel | None:
        """The cost model, if it is one that runs kernels on the devices."""
        return self.model if isinstance(self.model, MeasuringCostModel) else None
