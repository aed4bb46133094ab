"""Whole elements: every element of a batch on one device, which runs the whole graph for it.

Data parallelism and nothing else, so that nothing is handed from device to device. The elements
are dealt out one by one, each to the device whose load is the smallest with it (the list rule of
R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2), 1969,
doi:10.1137/0117039, with elements for jobs); what n elements take on a device is the sum of the
tasks' tables, so kernels that compute several elements at once count. Devices that cannot run every
task get none.

Between devices that are alike this is as good as anything for large batches, and the bound beside
it (that of dividing the work of each task at will, `views.task_classes`) often proves it at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import SolverError
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Execution, Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.stage_dp.ideals_dp import check_kind
from tvm_hetero.util.units import format_bytes
from tvm_hetero.views.instance import instance_of
from tvm_hetero.views.task_classes import shares_of

NAME = "elements"


def solve(problem: Problem, options: Options) -> Schedule:
    """Whole elements on each device.

    Raises
    ------
    UsageError
        If the objective is not throughput.
    SolverError
        If no device can run every task, or colors or memory do not allow it.
    """
    check_kind(problem, NAME)
    shares = dealt(problem)
    if not shares:
        raise SolverError(
            f"{NAME}: no device can run every task of {problem.name!r}, so none takes whole "
            "elements; use solver throughput"
        )
    executions = [
        execution
        for device, elements in shares.items()
        for execution in _in_turn(problem, device, elements)
    ]
    _check(problem, executions)
    instance = instance_of(problem)
    bound = shares_of(instance, rates(instance)).value
    return make_schedule(problem, NAME, executions, (), lower_bound=bound, seed=options.seed)


def _check(problem: Problem, executions: Sequence[Execution]) -> None:
    """Refuse what breaks a color or overflows a memory."""
    used = sorted({execution.device for execution in executions})
    if problem.colors and len(used) > 1:
        color = min(problem.colors)
        raise SolverError(
            f"{NAME}: the tasks of color {color!r} must share one device, and whole elements would "
            f"run them on {', '.join(used)}; use solver throughput"
        )
    peaks = memory_peaks(problem, executions, ())
    for name in used:
        limit = problem.platform.device(name).memory
        if limit is not None and peaks[name] > limit:
            raise SolverError(
                f"{NAME}: device {name!r} would need {format_bytes(peaks[name])} of its "
                f"{format_bytes(limit)} of memory; use solver throughput"
            )


def dealt(problem: Problem) -> dict[str, tuple[int, ...]]:
    """The elements of each device that gets some."""
    able = [
        device
        for device in problem.platform.names
        if all(device in problem.costs[task.id] for task in problem.tasks)
    ]
    taken: dict[str, list[int]] = {device: [] for device in able}

    def load(device: str) -> float:
        count = len(taken[device]) + 1
        return sum(problem.seconds(task.id, device, count) for task in problem.tasks)

    for element in range(problem.batch if able else 0):
        taken[min(able, key=load)].append(element)
    return {device: tuple(elements) for device, elements in taken.items() if elements}


def _in_turn(problem: Problem, device: str, elements: tuple[int, ...]) -> list[Execution]:
    """Every task for these elements, one after the other."""
    executions, now = [], 0.0
    for task in problem.graph.topological_order:
        end = now + problem.seconds(task, device, len(elements))
        executions.append(Execution(task, device, elements, now, end))
        now = end
    return executions
