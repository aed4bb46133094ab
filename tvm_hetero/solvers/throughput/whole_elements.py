"""Whole elements: every element of a batch on one device, which runs the whole graph for it.

Data parallelism and nothing else, so that nothing is handed from device to device. The elements
are dealt out one by one, each to the device whose load is the smallest with it (the list rule of
R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2), 1969,
doi:10.1137/0117039, with elements for jobs); what n elements take on a device is the sum of the
tasks' tables, so kernels that compute several elements at once count. Devices that cannot run every
task get none.

Of teams, which share cores, those of one width take part together: all cores for every task,
element after element, is one of the ways, one core for each element another, and the best is the
answer.

Between devices that are alike this is as good as anything for large batches, and the bound beside
it (that of dividing the work of each task at will, `views.task_classes`) often proves it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import SolverError
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Execution, Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.util.units import format_bytes
from tvm_hetero.views.division_patterns import (
    DivisionPattern,
    ElementShare,
    elements_by_device,
)
from tvm_hetero.views.instance import instance_of
from tvm_hetero.views.task_classes import shares_of

NAME = "elements"


def solve(problem: Problem, options: Options) -> Schedule:
    """Whole elements on each device.

    Raises
    ------
    SolverError
        If no device can run every task, or colors, memory or the latency limit do not allow it.
    """
    answers, reason = [], None
    for family in problem.platform.families:
        for executions in _ways(problem, family):
            try:
                _check(problem, executions)
            except SolverError as error:
                reason = error
                continue
            answers.append(make_schedule(problem, NAME, executions, (), seed=options.seed))
    if not answers:
        raise reason or SolverError(
            f"{NAME}: no device can run every task of {problem.name!r}, so none takes whole "
            f"elements; use solver {_other(problem)}"
        )
    best = min(answers, key=lambda answer: answer.value)
    if problem.objective.kind not in ("latency", "throughput"):
        return best
    instance = instance_of(problem)
    # A batch ends no sooner than its work is done, however it is divided.
    return replace(best, lower_bound=shares_of(instance, rates(instance)).value)


def _other(problem: Problem) -> str:
    """Whom to ask instead."""
    plain = problem.objective.kind == "throughput" and not problem.platform.cliques
    return "throughput" if plain else "auto"


def _ways(problem: Problem, devices: Sequence[int]) -> Iterator[list[Execution]]:
    """The elements that each device has: all of them together, and one after the other."""
    names = problem.platform.names
    for most in dict.fromkeys((problem.batch, 1)):
        held = elements_by_device(deal(problem, devices, most))
        executions = [
            execution
            for device in devices
            if device in held
            for execution in _in_turn(problem, names[device], held[device], most)
        ]
        if executions:
            yield executions


def _check(problem: Problem, executions: Sequence[Execution]) -> None:
    """Refuse what breaks a color or overflows a memory."""
    used = sorted({execution.device for execution in executions})
    if problem.colors and len(used) > 1:
        color = min(problem.colors)
        raise SolverError(
            f"{NAME}: the tasks of color {color!r} must share one device, and whole elements would "
            f"run them on {', '.join(used)}; use solver {_other(problem)}"
        )
    peaks = memory_peaks(problem, executions, ())
    for name in used:
        limit = problem.platform.device(name).memory
        if limit is not None and peaks[name] > limit:
            raise SolverError(
                f"{NAME}: device {name!r} would need {format_bytes(peaks[name])} of its "
                f"{format_bytes(limit)} of memory; use solver {_other(problem)}"
            )
    if not within_limit(problem, executions):
        raise SolverError(f"{NAME}: not within the latency limit; use solver auto")


def deal(problem: Problem, devices: Sequence[int], most: int) -> DivisionPattern:
    """Shares of one element, those of every task, in the order in which they are dealt out.

    Parameters
    ----------
    devices : positions.
    most : elements that a device runs at once.
    """
    names = problem.platform.names
    able = [d for d in devices if all(names[d] in problem.costs[task.id] for task in problem.tasks)]
    taken = dict.fromkeys(able, 0)

    @cache
    def seconds(device: int, count: int) -> float:
        rounds, last = divmod(count, most)
        return sum(
            (rounds * problem.seconds(task.id, names[device], most) if rounds else 0.0)
            + (problem.seconds(task.id, names[device], last) if last else 0.0)
            for task in problem.tasks
        )

    pattern = []
    for _ in range(problem.batch if able else 0):
        least = min(able, key=lambda device: seconds(device, taken[device] + 1))
        taken[least] += 1
        pattern.append(ElementShare(least, 1))
    return pattern


def _in_turn(
    problem: Problem, device: str, elements: tuple[int, ...], most: int
) -> list[Execution]:
    """Every task one after the other for `most` elements, then for the next."""
    executions, now = [], 0.0
    for first in range(0, len(elements), most):
        own = elements[first : first + most]
        for task in problem.graph.topological_order:
            end = now + problem.seconds(task, device, len(own))
            executions.append(Execution(task, device, own, now, end))
            now = end
    return executions
