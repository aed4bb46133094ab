"""From a module to a placed module: lower, extract, cost, solve, annotate; each step timed.

`HeteroPartition` (the pass) and the command line are thin covers of these two functions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import tvm

from tvm_hetero.cost_models.in_network.costs import measure_in_place
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import CostModel, Costs, Progress
from tvm_hetero.cost_models.registry import by_name
from tvm_hetero.cost_models.stored_traces import with_stored_traces
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import ProfileError
from tvm_hetero.passes.annotate_devices import (
    annotate_devices,
    is_annotated,
    strip_devices,
)
from tvm_hetero.passes.attributes import MODEL_NAME
from tvm_hetero.passes.extract_tasks import ExtractedTasks, extract_tasks
from tvm_hetero.passes.io_tasks import add_io_tasks, host_device, io_costs, needs_io_tasks
from tvm_hetero.passes.kernel_choices import with_choices
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import tensor_bytes
from tvm_hetero.passes.pins import pinned, with_hints
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective, check_objective
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, check_name, solve
from tvm_hetero.solvers.core.feasibility import check_memory
from tvm_hetero.solvers.throughput.fewer_transfers import prefer_fewer_transfers
from tvm_hetero.views.instance import instance_of

# A search ends within this share of the least value: costs are not measured more exactly.
MEASURED_GAP = 1e-3


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
    """An annotated module with its problem and schedule (see `Prepared`)."""

    module: tvm.IRModule
    problem: Problem
    schedule: Schedule
    kernels: int
    seconds: dict[str, float] = field(default_factory=dict)


def make_problem(
    mod: tvm.IRModule,
    platform: Platform,
    objective: Objective = Objective(),
    cost_model: str | CostModel = "profiled",
    progress: Progress | None = None,
    respect_annotations: bool = False,
    plain_sums: bool = False,
) -> Prepared:
    """Lower a module and find out what its tasks cost on each device.

    Parameters
    ----------
    mod : a Relax module, lowered or not; a placed one is taken apart first.
    platform : with measured costs, links that it leaves open are measured too; other cost models
        are for devices that may be elsewhere.
    cost_model : a cost model, or the name of one (``profiled``, ``profiled-alone``,
        ``analytical``, ``table:FILE``).
    respect_annotations : run what the model's own annotations name a device for on that device
        (`tvm_hetero.passes.pins`); otherwise they say nothing.
    plain_sums : sum convolutions up as they are written, never by Winograd's tiles: slower, with
        errors about a tenth (`tvm_hetero.kernels.convolution.winograd.kernel`).

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
    check_objective(objective, platform)
    model = by_name(cost_model) if isinstance(cost_model, str) else cost_model
    seconds: dict[str, float] = {}
    with _timed(seconds, "lower"):
        mod = strip_devices(mod) if is_annotated(mod) else mod
        mod = with_hints(mod) if respect_annotations else mod
        targets = [device_target(d) for d in platform.devices if d.target is not None]
        if targets and needs_io_tasks(platform):
            host_device(platform)
        lower: tvm.transform.Pass = LowerToTasks(targets, plain_sums)
        mod = lower(mod)
        tasks = extract_tasks(mod)
        graph = task_graph(tasks, platform, objective.batch)
        _check_room(graph, platform, objective)
    with _timed(seconds, "measure"):
        if isinstance(model, ProfiledCosts):
            platform = measure_links(platform)
        costs = model.costs(tasks.kernels, platform, progress)
        mod = _with_choices(mod, model)
    if isinstance(model, ProfiledCosts):
        costs = _under_load(costs, platform)
    table = {task: costs[kernel] for task, kernel in tasks.kernel_of.items()}
    table |= _where_states_can_be(table, tasks, platform)
    for task, row in table.items():
        if not row:
            raise ProfileError(f"task {task!r} runs on no device of {platform.name!r}")
    problem = Problem(
        graph=graph,
        costs={**table, **io_costs(graph, platform)},
        platform=platform,
        objective=objective,
        name=_model_name(mod),
    )
    if isinstance(model, ProfiledCosts) and model.in_place:
        with _timed(seconds, "measure in place"):
            found = measure_in_place(mod, problem, model.store, progress, again=model.again)
            problem = found.applied_to(problem)
    if respect_annotations:
        problem = replace(problem, costs=pinned(mod, problem.costs, platform))
    return Prepared(mod, problem, len(tasks.kernels), seconds)


def partition(
    mod: tvm.IRModule,
    platform: Platform,
    objective: Objective = Objective(),
    solver: str = "auto",
    time_limit: float = 60.0,
    seed: int = 0,
    cost_model: str | CostModel = "profiled",
    progress: Progress | None = None,
    gap: float = MEASURED_GAP,
    respect_annotations: bool = False,
    plain_sums: bool = False,
) -> Partition:
    """Decide where and when each task of a module runs, and write that into the module.

    See `make_problem` for the arguments and errors, `tvm_hetero.solvers` for the solvers and what
    `time_limit`, `seed` and `gap` are to them.
    """
    # What can be refused is refused before kernels are measured, not after.
    check_name(solver)
    options = Options(time_limit=time_limit, seed=seed, gap=gap)
    prepared = make_problem(
        mod, platform, objective, cost_model, progress, respect_annotations, plain_sums
    )
    seconds = dict(prepared.seconds)
    with _timed(seconds, "solve"):
        schedule = prefer_fewer_transfers(
            prepared.problem, solve(prepared.problem, solver, options)
        )
    with _timed(seconds, "annotate"):
        module = with_stored_traces(prepared.module, prepared.problem)
        module = annotate_devices(module, prepared.problem, schedule)
    return Partition(module, prepared.problem, schedule, prepared.kernels, seconds)


def _check_room(graph: TaskGraph, platform: Platform, objective: Objective) -> None:
    """Refuse memory in which no placement fits, whatever the tasks may turn out to cost."""
    if all(device.memory is None for device in platform.devices):
        return
    row = {device: Cost(((1, 1.0),)) for device in platform.names}
    costs = dict.fromkeys(graph.index, row)
    problem = Problem(graph, {**costs, **io_costs(graph, platform)}, platform, objective)
    check_memory(instance_of(problem))


def _under_load(costs: Costs, platform: Platform) -> Costs:
    """Costs that were measured alone, as they are while the other devices are busy too."""
    if sum(device.target is not None for device in platform.devices) < 2:
        return costs

    def slower(cost: Cost, device: str) -> Cost:
        factor = platform.device(device).interference
        return replace(cost, points=tuple((n, s * factor) for n, s in cost.points))

    return {
        kernel: {device: slower(cost, device) for device, cost in row.items()}
        for kernel, row in costs.items()
    }


def task_graph(tasks: ExtractedTasks, platform: Platform, batch: int) -> TaskGraph:
    """The graph of a module's tasks, with those for inputs and outputs where some device has its
    own memory, and with the states of a batch.
    """
    return _with_states(_with_io(tasks, platform), tasks, batch)


def _with_io(tasks: ExtractedTasks, platform: Platform) -> TaskGraph:
    """The task graph, with tasks for inputs and outputs if some device has its own memory."""
    if not needs_io_tasks(platform):
        return tasks.graph
    main = tasks.main
    inputs = [
        None if i in tasks.states else (tensor_bytes(param.ty), readers)
        for i, (param, readers) in enumerate(zip(main.params, tasks.input_readers, strict=True))
    ]
    outputs = [
        None
        if root is None or root.call is None
        else (main.task_ids[root.call], main.tensor_name(root), tensor_bytes(main.type_of(root)))
        for root in tasks.output_roots
    ]
    return add_io_tasks(tasks.graph, inputs, outputs)


def _with_states(graph: TaskGraph, tasks: ExtractedTasks, batch: int) -> TaskGraph:
    """The task graph, with the states of a whole batch as memory of the tasks that keep them."""
    if not tasks.state_bytes:
        return graph

    def keeping(task: Task) -> Task:
        own = batch * tasks.state_sets * tasks.state_bytes.get(task.id, 0)
        return replace(task, weight_bytes=task.weight_bytes + own)

    return TaskGraph([keeping(task) for task in graph.tasks], graph.edges)


def _where_states_can_be(
    table: Mapping[str, Mapping[str, Cost]], tasks: ExtractedTasks, platform: Platform
) -> dict[str, dict[str, Cost]]:
    """The costs of tasks that keep states, without boards: nothing is kept there."""
    boards = {device.name for device in platform.devices if device.rpc is not None}
    return {
        task: {name: cost for name, cost in table[task].items() if name not in boards}
        for task, size in tasks.state_bytes.items()
        if size
    }


def _with_choices(mod: tvm.IRModule, model: CostModel) -> tvm.IRModule:
    """The module with what was chosen for its kernels, where they were measured."""
    if not isinstance(model, ProfiledCosts):
        return with_choices(mod)
    return with_choices(mod, tuple(model.profile.choices.values()), model.profile.traces)


def _model_name(mod: tvm.IRModule) -> str:
    attrs = mod["main"].attrs
    return str(attrs[MODEL_NAME]) if attrs and MODEL_NAME in attrs else "model"


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - start
