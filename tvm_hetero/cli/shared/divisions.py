"""A model partitioned for this machine: its cores divided, as teams, or the quicker of the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared.clusters import prepare_costs
from tvm_hetero.cli.shared.partition_steps import (
    compile_executable,
    partition_module,
    quantize_module,
)
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.artifact.executable import Executable
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.pipeline.divisions import Contests
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.platform.division import Division

# Of `tvm_hetero.platform.core_teams`, which is not loaded for a help's text.
_NONE = "none"

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
        from tvm_hetero.platform.division import Division

        return Division(self.split, self.teams or _NONE)

    @property
    def is_asked(self) -> bool:
        """Whether devices were named or asked for."""
        asked = (self.platform, self.cluster, self.split, self.teams)
        return any(each is not None for each in asked)


def divisions_of(machine: TargetMachine, how: PartitionOptions, *, measure: bool) -> list[Division]:
    """How this machine's cores are divided: as was asked for, else in each way that may be best."""
    from tvm_hetero.pipeline.divisions import division_here, ways_to_divide

    if machine.is_asked:
        return [machine.division]
    how = replace(how, cost_model=machine.cost_model)
    return ways_to_divide(how) if measure else [division_here(how)]


def partition_on(
    steps: Steps,
    module: tvm.IRModule,
    machine: TargetMachine,
    how: PartitionOptions,
    *,
    measure: bool,
) -> tuple[Partition, Executable]:
    """Steps: partition and compile for each way to divide the machine, and keep the quickest."""
    from tvm_hetero.pipeline.divisions import try_divisions

    shared = _Shared(module)
    tried = try_divisions(
        divisions_of(machine, how, measure=measure),
        lambda way: _partition_once(steps, shared, machine, way, how, measure),
        lambda error: steps.say(f"cores divided otherwise: {error}", "yellow"),
    )
    return tried[0] if len(tried) == 1 else _keep_quickest(steps, tried)


@dataclass
class _Shared:
    """What one division leaves to the next.

    Attributes
    ----------
    module : the model; quantised, where that was asked for, once the first has measured it.
    decided : contests of kernels that were held.
    """

    module: tvm.IRModule
    decided: Contests = field(default_factory=dict)


def _partition_once(
    steps: Steps,
    shared: _Shared,
    machine: TargetMachine,
    division: Division,
    how: PartitionOptions,
    measure: bool,
) -> tuple[Partition, Executable]:
    from tvm_hetero.cost_models.registry import by_name
    from tvm_hetero.pipeline.divisions import shared_contests

    with prepare_costs(steps, machine.platform, machine.cost_model, machine.cluster, division) as (
        place,
        costs,
    ):
        model = by_name(costs) if isinstance(costs, str) else costs
        asked = replace(how, cost_model=model)
        with shared_contests(model, shared.decided):
            shared.module = quantize_module(steps, shared.module, place, asked, model)
            result = partition_module(steps, shared.module, place, asked)
    return result, compile_executable(steps, result, measure=measure)


def _keep_quickest(
    steps: Steps, tried: Sequence[tuple[Partition, Executable]]
) -> tuple[Partition, Executable]:
    from tvm_hetero.executor.choose_division import DIVISIONS, divisions_text, quickest_division

    with steps.step("Compare divisions") as step:
        executables = [executable for _, executable in tried]
        best = quickest_division(executables, step.counter("runs"))
        assert best.decision is not None
        step.note = divisions_text(best.decision[DIVISIONS], best.problem.platform)
    return next(result for result, each in tried if each.problem is best.problem), best
