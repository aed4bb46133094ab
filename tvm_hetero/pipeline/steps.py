"""The way from a module to a placed module: all of its steps, in order.

    phase             what it does                                     what holds after it
    lower             the module becomes calls of kernels; these       `verify_lowered`
                      become a graph of tasks; memory is looked at
    measure           what each kernel costs on each device; which     every task runs somewhere
                      tasks are in bfloat16, if that is asked for
                      (`choose_precision`); from that a scheduling
                      problem (`Problem`)
    measure in place  costs again, as they are in the whole network;   (a `Problem` checks itself)
                      only for cost models that do that
    weigh branches    tasks of branches cost what they cost on
                      average; only where probabilities are given
    pin               tasks lose the devices that the model's own      every task runs somewhere
                      annotations exclude; only where that is asked
    solve             a schedule; for throughput perhaps a plainer     `solve` has it checked by
                      one (`prefer_fewer_transfers`)
                      `tvm_hetero.check`
    annotate          the schedule goes into the module                `verify_placed`

`PREPARE` ends with a problem, as ``tvm-hetero problem`` writes it; ``tvm-hetero schedule`` does
what `solve` does. A plan that is given goes from `LOWER` to `ANNOTATE`
(`tvm_hetero.pipeline.given_plan`). What comes out is built by `tvm_hetero.compiler.build`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import tvm

from tvm_hetero.cost_models.registry import ESTIMATING
from tvm_hetero.cost_models.store.traces import with_stored_traces
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import ProfileError
from tvm_hetero.passes.annotate_devices import place_tasks, strip_devices
from tvm_hetero.passes.attributes import ESTIMATED, MODEL_NAME
from tvm_hetero.passes.branch_probabilities import expected_costs, with_probabilities
from tvm_hetero.passes.conditional_branches import skip_branches
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.io_tasks import host_device, io_costs, needs_io_tasks
from tvm_hetero.passes.kernel_choices import with_choices
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.pins import apply_pins, with_hints
from tvm_hetero.passes.placed_model import is_annotated
from tvm_hetero.passes.task_graph import task_graph, where_states_can_be
from tvm_hetero.passes.verify import verify_lowered, verify_placed
from tvm_hetero.pipeline.choose_precision import (
    choose_precision,
    find_narrow_kernels,
    kernels_to_measure,
)
from tvm_hetero.pipeline.job import Job
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.model import Problem
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.feasibility import check_memory
from tvm_hetero.solvers.throughput.fewer_transfers import prefer_fewer_transfers
from tvm_hetero.util.tvm_state import TVM_STATE
from tvm_hetero.views.instance import instance_of

Step = Callable[[Job], None]


def strip_placement(job: Job) -> None:
    """Take a placed module apart."""
    if is_annotated(job.module):
        job.module = strip_devices(job.module)


def hint_annotated_operators(job: Job) -> None:
    """Keep operators apart that the model itself wants on some device."""
    if job.options.respect_annotations:
        job.module = with_hints(job.module)


def lower_to_kernels(job: Job) -> None:
    """Make calls of kernels of all operators, for all targets of the platform alike."""
    targets = [device_target(d) for d in job.platform.devices if d.target is not None]
    if targets and needs_io_tasks(job.platform):
        host_device(job.platform)
    lower: tvm.transform.Pass = LowerToTasks(targets, job.options.plain_sums)
    job.module = lower(job.module)


def extract_graph(job: Job) -> None:
    """Read the tasks, and what goes between them."""
    job.tasks = extract_tasks(job.module)
    job.graph = task_graph(job.tasks, job.platform, job.options.objective.batch)


def refuse_too_little_memory(job: Job) -> None:
    """Refuse memory in which no placement fits, whatever the tasks may turn out to cost."""
    platform, objective = job.platform, job.options.objective
    if all(device.memory is None for device in platform.devices):
        return
    row = {device: Cost(((1, 1.0),)) for device in platform.names}
    costs = dict.fromkeys(job.graph.index, row)
    problem = Problem(job.graph, {**costs, **io_costs(job.graph, platform)}, platform, objective)
    check_memory(instance_of(problem))


def note_probabilities(job: Job) -> None:
    """Write into the module how often its conditions hold, once that is known to make sense."""
    job.module = with_probabilities(job.module, job.options.probabilities)


def measure_links(job: Job) -> None:
    """Fill in the links that the platform leaves open, if the devices are here to be measured."""
    if job.measuring is not None:
        job.platform = job.measuring.with_links(job.platform)


def cost_kernels(job: Job) -> None:
    """Ask the cost model for the costs of each distinct kernel on each device."""
    job.kernel_costs = job.model.costs(kernels_to_measure(job), job.platform, job.progress)


def note_choices(job: Job) -> None:
    """Write into the module what was chosen for its kernels, where they were measured, and whether
    the costs are estimates.
    """
    model, own = job.measuring, {kernel.name for kernel in job.tasks.kernels}
    choices = () if model is None else [c for c in model.choices() if c.kernel in own]
    job.module = with_choices(job.module, choices, None if model is None else model.traces())
    if job.module.attrs is not None and ESTIMATED in job.module.attrs:
        job.module = job.module.without_attr(ESTIMATED)  # of an earlier placement
    if job.model.name == ESTIMATING:
        job.module = job.module.with_attr(ESTIMATED, job.model.name)


def slow_by_interference(job: Job) -> None:
    """Make of costs that were measured alone those while the other devices are busy too."""
    platform = job.platform
    if job.measuring is None or sum(d.target is not None for d in platform.devices) < 2:
        return

    def slower(cost: Cost, device: str) -> Cost:
        factor = platform.device(device).interference
        return cost.scaled(factor)

    job.kernel_costs = {
        kernel: {device: slower(cost, device) for device, cost in row.items()}
        for kernel, row in job.kernel_costs.items()
    }


def state_problem(job: Job) -> None:
    """Put tasks, costs and platform together as a scheduling problem."""
    platform = job.platform
    table = {task: job.kernel_costs[kernel] for task, kernel in job.tasks.kernel_of.items()}
    table |= where_states_can_be(table, job.tasks, platform)
    for task, row in table.items():
        if not row:
            raise ProfileError(f"task {task!r} runs on no device of {platform.name!r}")
    job.problem = Problem(
        graph=job.graph,
        costs={**table, **io_costs(job.graph, platform)},
        platform=platform,
        objective=job.options.objective,
        name=_model_name(job.module),
    )


def refine_costs(job: Job) -> None:
    """Measure the whole network, with what was chosen for its kernels."""
    if job.measuring is not None:
        job.problem = job.measuring.refine(job.module, job.problem, job.progress)


def weigh_branches(job: Job) -> None:
    """Take expected costs for costs of tasks that do not always run."""
    job.problem = expected_costs(job.module, job.problem)


def pin_tasks(job: Job) -> None:
    """Leave tasks the devices that the model's own annotations name."""
    costs = apply_pins(job.module, job.problem.costs, job.platform)
    job.problem = replace(job.problem, costs=costs)


def find_schedule(job: Job) -> None:
    """Solve the problem."""
    asked = job.options
    options = Options(time_limit=asked.time_limit, seed=asked.seed, gap=asked.gap)
    job.schedule = solve(job.problem, asked.solver, options)


def settle_schedule(job: Job) -> None:
    """For throughput: take a plainer plan where devices pay less for it."""
    job.schedule = prefer_fewer_transfers(job.problem, job.schedule)


def place(job: Job) -> None:
    """Write the schedule into the module."""
    complete = skip_branches(with_stored_traces(job.module, job.problem))
    job.placed = place_tasks(complete, job.problem, job.schedule)


def check_placement(job: Job) -> None:
    """Check that the module says what the schedule says."""
    verify_placed(job.placed, read_main(job.placed.placed))


def _nothing(_: Job) -> None:
    """Check nothing: see the file's text."""


def _always(_: Job) -> bool:
    return True


@dataclass(frozen=True)
class Phase:
    """Steps that are timed together.

    `verify` checks what holds after them; `wanted` says whether a job has the phase at all. Other
    threads may be in one that `is_free`, and in no other; nor would they measure well at once.
    """

    name: str
    steps: Sequence[Step]
    verify: Step = _nothing
    wanted: Callable[[Job], bool] = _always
    is_free: bool = False


LOWER = Phase(
    "lower",
    (
        strip_placement,
        hint_annotated_operators,
        lower_to_kernels,
        extract_graph,
        find_narrow_kernels,
        note_probabilities,
        refuse_too_little_memory,
    ),
    verify=lambda job: verify_lowered(job.module, job.tasks),
)
ANNOTATE = Phase("annotate", (place,), verify=check_placement)
PREPARE = (
    LOWER,
    Phase(
        "measure",
        (
            measure_links,
            cost_kernels,
            choose_precision,
            note_choices,
            slow_by_interference,
            state_problem,
        ),
    ),
    Phase(
        "measure in place",
        (refine_costs,),
        wanted=lambda job: job.measuring is not None and job.measuring.in_place,
    ),
    Phase("weigh branches", (weigh_branches,), wanted=lambda job: bool(job.options.probabilities)),
    Phase("pin", (pin_tasks,), wanted=lambda job: job.options.respect_annotations),
)
PLACE = (
    Phase("solve", (find_schedule, settle_schedule), is_free=True),
    ANNOTATE,
)


def run_phases(job: Job, phases: Sequence[Phase]) -> None:
    """Take a job through phases, each timed and, where something can be, checked."""
    for phase in phases:
        if not phase.wanted(job):
            continue
        if job.progress is not None:
            job.progress(phase.name, 0, 0)
        start = time.perf_counter()
        with nullcontext() if phase.is_free else TVM_STATE:
            for step in phase.steps:
                step(job)
            phase.verify(job)
        job.seconds[phase.name] = time.perf_counter() - start


def _model_name(mod: tvm.IRModule) -> str:
    attrs = mod["main"].attrs
    return str(attrs[MODEL_NAME]) if attrs and MODEL_NAME in attrs else "model"
