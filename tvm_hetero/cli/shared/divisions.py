"""A model partitioned for this machine: its cores divided, as teams, or the quicker of the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared.clusters import prepare_costs
from tvm_hetero.cli.shared.partition_steps import compile_executable, partition_module
from tvm_hetero.cli.shared.platforms import Division
from tvm_hetero.errors import HeteroError, UsageError

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.artifact.executable import Executable
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.cost_models.store import KernelKey
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.problem.schedule import Schedule

# Seconds of a network below which no kernel's loop is worth a meeting of cores.
_SHORT = 5e-5
# Of `tvm_hetero.platform.core_teams`, which is not loaded for a help's text.
_NONE, _ALL = "none", "all"
# Cores up to which there are teams of all widths: each is measured.
_ALL_WIDTHS = 8

SplitOption = Annotated[
    int | None,
    typer.Option(
        "--split",
        metavar="N",
        min=1,
        help="Divide this machine's cores into N CPU devices. [default: as suits the machine]",
    ),
]
TeamsOption = Annotated[
    str | None,
    typer.Option(
        "--teams",
        metavar="none|all|1,2,4",
        help="Let CPU devices be teams of so many of this machine's cores, which overlap. "
        "[default: for latency all, and none beside it: what runs quicker is kept]",
    ),
]


@dataclass(frozen=True)
class TargetMachine:
    """What a model is partitioned for, as the command line has it; see its options."""

    platform: Path | None
    cost_model: str
    cluster: str | None
    split: int | None
    teams: str | None = None

    def __post_init__(self) -> None:
        other = "--platform" if self.platform else "--cluster" if self.cluster else ""
        for option, given in (("--split", self.split), ("--teams", self.teams)):
            if given is not None and other:
                raise UsageError(f"{option} divides this machine's cores, and {other} names others")
        if self.split is not None and self.teams not in (None, _NONE):
            raise UsageError("--split divides cores, --teams lets them overlap; give one")

    @property
    def division(self) -> Division:
        """What was asked for."""
        return Division(self.split, self.teams or _NONE)

    @property
    def is_asked(self) -> bool:
        """Whether devices were named or asked for."""
        asked = (self.platform, self.cluster, self.split, self.teams)
        return any(each is not None for each in asked)


def ways_to_divide(machine: TargetMachine, objective: str, *, measure: bool) -> list[Division]:
    """How this machine's cores are divided.

    Two ways are tried only where both can be measured, kernels and plans: for latency, on more
    than one CPU device and nothing else. In a pipeline a core for each request is never behind.
    """
    from tvm_hetero.cost_models.registry import measures
    from tvm_hetero.platform.model import Platform

    if machine.is_asked or objective != "latency" or not measure:
        return [machine.division]
    devices = Platform.detect().devices
    several = len(devices) > 1 and all(device.cores for device in devices)
    if not several or not measures(machine.cost_model):
        return [machine.division]
    cores = sum(len(device.cores) for device in devices)
    return [Division(teams=_ALL if cores <= _ALL_WIDTHS else f"1,{cores}"), Division()]


def partition_on(
    steps: Steps,
    module: tvm.IRModule,
    machine: TargetMachine,
    how: PartitionOptions,
    *,
    measure: bool,
) -> tuple[Partition, Executable]:
    """Steps: partition and compile for each way to divide the machine, and keep the quickest."""
    ways = ways_to_divide(machine, how.objective.kind, measure=measure)
    tried: list[tuple[Partition, Executable]] = []
    decided: dict[KernelKey, str] = {}
    for way in ways:
        if tried and not may_gain(tried[0][0].schedule, tried[0][0].problem.platform):
            continue
        try:
            tried.append(_partition_once(steps, module, machine, way, how, measure, decided))
        except HeteroError as error:
            if way == ways[-1] and not tried:
                raise
            steps.say(f"cores divided otherwise: {error}", "yellow")
    return tried[0] if len(tried) == 1 else _keep_quickest(steps, tried)


def may_gain(schedule: Schedule, platform: Platform) -> bool:
    """Whether the cores each by itself may be quicker than a plan on teams: if it uses any."""
    used = {execution.device for execution in schedule.executions}
    return any(len(platform.device(name).cores) > 1 for name in used) and schedule.value > _SHORT


def _partition_once(
    steps: Steps,
    module: tvm.IRModule,
    machine: TargetMachine,
    division: Division,
    how: PartitionOptions,
    measure: bool,
    decided: dict[KernelKey, str],
) -> tuple[Partition, Executable]:
    """`decided` are the contests of kernels that another division has held; filled for the next."""
    from tvm_hetero.cost_models.profiled import ProfiledCosts
    from tvm_hetero.cost_models.registry import by_name

    with prepare_costs(steps, machine.platform, machine.cost_model, machine.cluster, division) as (
        place,
        costs,
    ):
        model = by_name(costs) if isinstance(costs, str) else costs
        if isinstance(model, ProfiledCosts):
            model.decided.update(decided)
        result = partition_module(steps, module, place, replace(how, cost_model=model))
        if isinstance(model, ProfiledCosts):
            decided.update(model.winners())
    return result, compile_executable(steps, result, measure=measure)


def _keep_quickest(
    steps: Steps, tried: Sequence[tuple[Partition, Executable]]
) -> tuple[Partition, Executable]:
    from tvm_hetero.executor.choose_division import DIVISIONS, divisions_text, quickest_division

    with steps.step("Compare divisions") as step:
        best = quickest_division([executable for _, executable in tried])
        assert best.decision is not None
        step.note = divisions_text(best.decision[DIVISIONS], best.problem.platform)
    return next(result for result, each in tried if each.problem is best.problem), best
