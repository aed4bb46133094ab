"""What all list schedulers share: from an order and a score to an answer for every objective.

- latency: the list schedule itself; if memory stops it, once more, choosing by space;
- energy and cost: the best of the list schedules on subsets of the devices that keeps the latency
  limit. With fewer devices less is idle or paid for;
- throughput: in the method's order, every group of tasks that share a device goes where the
  largest load grows least (`place_by_load`). With contiguous stages, only where the devices
  still form a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.deadline import Deadline, check_time, time_is_up
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler, Score, earliest_finish
from tvm_hetero.solvers.timing.device_loads import Loads
from tvm_hetero.solvers.timing.stage_acyclicity import StageGraph
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.util.units import format_bytes, format_seconds
from tvm_hetero.views.instance import Instance, instance_of

# Up to so many devices, every subset of them is tried for energy and cost.
_SUBSETS = 4


@dataclass(frozen=True)
class Rule:
    """In which order parts are placed, and what decides where.

    `apart` are devices that the score treats unlike others of their kind.
    """

    order: Sequence[int]
    score: Score = earliest_finish
    apart: Sequence[int] = ()


# What a method makes of a problem on the devices that may be used.
Method = Callable[[Instance, Sequence[int]], Rule]


def solve_by_list(problem: Problem, options: Options, name: str, method: Method) -> Schedule:
    """Solve by a list scheduler.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    instance = instance_of(problem)
    everything = tuple(range(len(instance.names)))
    if problem.objective.kind == "throughput":
        rule = method(instance, everything)
        placement = place_by_load(instance, rule.order, name, options.ends)
        period = write_period(instance, placement)
        return make_schedule(problem, name, *period, seed=options.seed)
    if problem.objective.kind == "latency":
        executions, copies = schedule_tasks(instance, method, name, everything, options.ends)
        return make_schedule(problem, name, executions, copies, seed=options.seed)
    answers: list[Schedule] = []
    reasons: list[InfeasibleError] = []
    for devices in _subsets(instance):
        if answers and time_is_up(options.ends):
            break
        try:
            executions, copies = schedule_tasks(instance, method, name, devices, options.ends)
        except InfeasibleError as error:
            reasons.append(error)
            continue
        if within_limit(problem, executions):
            answers.append(make_schedule(problem, name, executions, copies, seed=options.seed))
    if not answers:
        raise _none_kept(problem, name, reasons)
    return min(answers, key=lambda answer: answer.value)


def _none_kept(problem: Problem, name: str, reasons: Sequence[InfeasibleError]) -> InfeasibleError:
    limit = problem.objective.latency_limit
    if limit is None:
        return reasons[0]
    return InfeasibleError(
        f"{name} found no schedule within the latency limit of {format_seconds(limit)}; "
        "raise the limit"
    )


def _subsets(instance: Instance) -> list[tuple[int, ...]]:
    """Sets of devices to try, all of them first; those that cannot run some task are left out."""
    everything = tuple(range(len(instance.names)))
    sizes = range(len(everything) - 1, 0, -1) if len(everything) <= _SUBSETS else [1]
    smaller = (devices for size in sizes for devices in combinations(everything, size))
    return [everything] + [
        devices
        for devices in smaller
        if all(set(devices).intersection(allowed) for allowed in instance.devices)
    ]


def schedule_tasks(
    instance: Instance,
    method: Method,
    name: str,
    devices: Sequence[int],
    ends: Deadline | None = None,
) -> tuple[list[Execution], list[Copy]]:
    """A list schedule on some devices; if memory stops it, once more choosing by space.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere.
    SolverError
        If the time is up.
    """
    rule = method(instance, devices)

    def scheduler() -> ListScheduler:
        return ListScheduler(instance, set(devices), rule.score, name, rule.apart, ends)

    try:
        return scheduler().run(rule.order, by_space=False)
    except InfeasibleError:
        if not any(instance.memory_binds):
            raise
        return scheduler().run(rule.order, by_space=True)


def place_by_load(
    instance: Instance, order: Sequence[int], name: str, ends: Deadline | None = None
) -> list[int]:
    """For throughput: every group where the largest load (s) grows least.

    Raises
    ------
    InfeasibleError
        If memory, missing links or contiguous stages leave some group no place.
    SolverError
        If the time is up.
    """
    loads, arrows = Loads(instance), StageGraph(instance)
    for i, g in enumerate(dict.fromkeys(instance.group_of[v] for v in order)):
        if i > 0:  # small problems are not cut; of many devices, a group takes milliseconds
            check_time(ends, name, i, len(instance.groups))
        group = instance.groups[g]
        device, short = loads.best_place(group, partial(arrows.allow, group))
        if device is None:
            raise _nowhere(instance.tasks[group[0]], short, name)
        loads.move(group, device)
        arrows.place(group, device)
    return loads.placement()


def _nowhere(task: str, short: Sequence[int], name: str) -> InfeasibleError:
    lack = f"{format_bytes(min(short))} of memory lacks" if short else "no device is left that "
    lack += "" if short else "links lead to and contiguous stages allow"
    return InfeasibleError(
        f"{name}: after the tasks placed before it, task {task!r} fits on no device: {lack}; "
        "add memory or links"
    )
