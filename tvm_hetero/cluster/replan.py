"""The plan for those that are left, and plans that share the states of another.

Costs stay as they were measured: the problem loses the devices of a node, and is solved again.
A model that works on the states of another one (the prefill of a decoder, on the caches of its
steps) must have each state where the other keeps it: tasks that keep states may then run on these
devices alone.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import tvm

from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.cluster.parts.part_plan import without_node
from tvm_hetero.compiler.build import Network
from tvm_hetero.compiler.module_text import module_from_text
from tvm_hetero.cost_models.store.traces import with_stored_traces
from tvm_hetero.errors import (
    ArtifactError,
    InfeasibleError,
    PlatformError,
    SolverError,
    UsageError,
)
from tvm_hetero.passes.annotate_devices import strip_devices
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.placed_model import is_annotated, problem_and_schedule
from tvm_hetero.passes.states import state_readers
from tvm_hetero.pipeline.options import MEASURED_GAP
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.throughput.fewer_transfers import prefer_fewer_transfers

# Seconds that finding another plan may take while everybody waits for it.
TIME_LIMIT = 5.0


@dataclass(frozen=True)
class ScheduledModel:
    """A lowered module with its problem, and a schedule of it."""

    module: tvm.IRModule
    problem: Problem
    schedule: Schedule

    @property
    def network(self) -> Network:
        """What parts of the model are built as parts of."""
        return Network(self.module, self.problem)

    @classmethod
    def of(cls, mod: tvm.IRModule) -> ScheduledModel:
        """What an annotated module says."""
        if not is_annotated(mod):
            raise UsageError("the module has no placement; partition it first")
        problem, schedule = problem_and_schedule(mod)
        return cls(with_stored_traces(strip_devices(mod), problem), problem, schedule)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScheduledModel:
        """What an artifact for several nodes says.

        Raises
        ------
        ArtifactError
            If it is none, damaged, of another version, or for one node alone.
        """
        executable = load_artifact(path)
        nodes = {device.node for device in executable.problem.platform.devices}
        if executable.module is None or len(nodes) == 1:
            raise ArtifactError(
                f"{path}: is for one node; partition the model for a platform of several, such as "
                "'tvm-hetero cluster FILE -o PLATFORM.yaml' writes"
            )
        module = module_from_text(executable.module, executable.weights)
        module = with_stored_traces(module, executable.problem)
        return cls(module, executable.problem, executable.schedule)


def solve_again(
    placed: ScheduledModel, problem: Problem, seconds: float = TIME_LIMIT
) -> ScheduledModel:
    """The same module by the best schedule of another problem."""
    options = Options(time_limit=seconds, gap=MEASURED_GAP)
    return ScheduledModel(
        placed.module, problem, prefer_fewer_transfers(problem, solve(problem, "auto", options))
    )


def replan_without(
    placed: ScheduledModel, nodes: Collection[str], seconds: float = TIME_LIMIT
) -> ScheduledModel:
    """The model on what is left when these nodes are lost.

    Raises
    ------
    InfeasibleError
        If what is left cannot run the model.
    SolverError
        If no plan was found for what is left.
    """
    problem = placed.problem
    if not any(device.node in nodes for device in problem.platform.devices):
        return placed
    try:
        platform = problem.platform
        for node in nodes:
            if any(device.node == node for device in platform.devices):
                platform = without_node(platform, node)
        return solve_again(placed, on_platform(problem, platform), seconds)
    except (InfeasibleError, PlatformError) as error:
        lost = ", ".join(sorted(nodes))
        raise InfeasibleError(
            f"nodes lost: {lost}; those left cannot run the model: {error}"
        ) from None
    except SolverError as error:
        lost = ", ".join(sorted(nodes))
        raise SolverError(
            f"nodes lost: {lost}; no plan was found for those left: {error}"
        ) from None


def on_platform(problem: Problem, platform: Platform) -> Problem:
    """The problem on a platform of fewer devices.

    Raises
    ------
    InfeasibleError
        If some task runs on none of them.
    """
    costs = {}
    for task, row in problem.costs.items():
        costs[task] = {device: c for device, c in row.items() if device in platform.index}
        if not costs[task]:
            raise InfeasibleError(
                f"task {task!r} runs on none of {', '.join(platform.names)}; it needs one of "
                f"{', '.join(row)}"
            )
    return replace(problem, costs=costs, platform=platform)


def locate_states(placed: ScheduledModel, element: int = 0) -> dict[str, str]:
    """The device that keeps each state of an element."""
    device = {e.task: e.device for e in placed.schedule.executions if element in e.elements}
    main = read_main(placed.module)
    return {
        main.inputs[state]: device[main.task_ids[call]]
        for state, call in state_readers(main).items()
    }


def place_states(
    placed: ScheduledModel, kept: Mapping[str, str], seconds: float = TIME_LIMIT
) -> ScheduledModel:
    """The model with its states where they are kept: as it is, if they are, else solved again.

    Parameters
    ----------
    placed : a model of one element.
    kept : for each state the device that keeps it.
    """
    problem = placed.problem
    main = read_main(placed.module)
    costs = {task: dict(row) for task, row in problem.costs.items()}
    for state, call in state_readers(main).items():
        name, task = main.inputs[state], main.task_ids[call]
        if name not in kept:
            raise UsageError(f"state {name!r} is kept by no one; the two models do not go together")
        near = _alike(problem.platform, kept[name])
        costs[task] = {device: c for device, c in costs[task].items() if device in near}
        if not costs[task]:
            raise InfeasibleError(
                f"task {task!r} keeps {name!r}, which is on {kept[name]!r}, and cannot run there"
            )
    pinned = replace(problem, costs=costs)
    if all(e.device in costs[e.task] for e in placed.schedule.executions):
        return placed
    return solve_again(placed, pinned, seconds)


def _alike(platform: Platform, device: str) -> set[str]:
    """The devices that compute in the memory in which a device keeps its states."""
    row = platform.device(device)
    if not is_host(row):
        return {device}
    return {d.name for d in platform.devices if d.node == row.node and is_host(d)}
