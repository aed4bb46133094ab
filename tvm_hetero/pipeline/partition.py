"""From a module to a placed module: lower, extract, cost, solve, annotate; each step timed.

`HeteroPartition` (the pass) and the command line are thin covers of these functions. What is done,
and in which order, is in `tvm_hetero.pipeline.steps`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import tvm

from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.cost_models.registry import by_name
from tvm_hetero.passes.placed_model import PlacedModel
from tvm_hetero.pipeline.job import Job
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.steps import PLACE, PREPARE, run_phases
from tvm_hetero.platform.frequency_levels import refuse_levels
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import check_objective
from tvm_hetero.problem.precision_promise import INT8
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, check_name
from tvm_hetero.solvers.registry import check_teams


@dataclass(frozen=True)
class Prepared:
    """A lowered module and its scheduling problem.

    `kernels` counts the distinct kernels; `seconds` maps each step to its wall time.
    """

    module: tvm.IRModule
    problem: Problem
    kernels: int
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Partition:
    """A placed model (see `Prepared` for the rest)."""

    placed: PlacedModel
    kernels: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        """What was solved."""
        return self.placed.problem

    @property
    def schedule(self) -> Schedule:
        """Its answer."""
        return self.placed.schedule

    @cached_property
    def module(self) -> tvm.IRModule:
        """The module to print, save or run: problem and schedule are in its attributes."""
        return self.placed.to_module()


def make_problem(
    mod: tvm.IRModule,
    platform: Platform,
    options: PartitionOptions = PartitionOptions(),
    progress: Progress | None = None,
) -> Prepared:
    """Lower a module and find out what its tasks cost on each device.

    Parameters
    ----------
    mod : a Relax module, lowered or not; a placed one is taken apart first.
    platform : with measured costs, links that it leaves open are measured too; other cost models
        are for devices that may be elsewhere.
    options : its objective, cost model, annotations and convolutions matter here.
    progress : told of each phase (of 0 parts), and while kernels are measured.

    Raises
    ------
    ModelError
        If the module cannot be lowered to kernels of fixed shapes.
    ProfileError
        If some kernel runs on no device.
    InfeasibleError
        If the devices' memory holds no placement at all.
    PlatformError
        If no device can take inputs and outputs, since none is a CPU with the machine's memory.
    """
    job = _prepared(mod, platform, options, progress)
    return Prepared(job.module, job.problem, len(job.tasks.kernels), job.seconds)


def partition(
    mod: tvm.IRModule,
    platform: Platform,
    options: PartitionOptions = PartitionOptions(),
    progress: Progress | None = None,
) -> Partition:
    """Decide where and when each task of a module runs, and write that into the module.

    See `make_problem` for errors, `tvm_hetero.solvers` for the solvers.
    """
    # What can be refused is refused before kernels are measured, not after.
    check_name(options.solver)
    refuse_levels(platform.devices)
    check_teams(platform, options.objective, options.solver)
    Options(time_limit=options.time_limit, seed=options.seed, gap=options.gap)
    job = _prepared(mod, platform, options, progress)
    run_phases(job, PLACE)
    return Partition(job.placed, len(job.tasks.kernels), job.seconds)


def _prepared(
    mod: tvm.IRModule, platform: Platform, options: PartitionOptions, progress: Progress | None
) -> Job:
    """A job whose problem is known."""
    check_objective(options.objective, platform)
    asked = options.cost_model
    model = by_name(asked) if isinstance(asked, str) else asked
    if options.precision == INT8:
        # It loads onnx, which other modules than an ONNX file's can do without.
        from tvm_hetero.pipeline.int8_module import int8_module

        mod = int8_module(mod, platform, options, model, progress)
    job = Job(mod, platform, options, model, progress)
    run_phases(job, PREPARE)
    return job
