"""Size classes: a size that was not measured is planned as the nearest one that was.

The class of a size is the measured size at the least distance (`axes.distance`), of equals the
smaller. Its schedule's placement and order are kept, with times of their own; so a range has as
many schedules as measured sizes, and each of them was looked at. Where the class runs the best
single device, since its plan lost when both were run, that is the new size's plan. Where the two
sizes do not have the same tasks, or the plan breaks a limit at the new size (its memory), the new
size is solved by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.bounds import lower_bound
from tvm_hetero.check.checker import verified
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule, SingleDevice
from tvm_hetero.problem.simulate import simulate
from tvm_hetero.sizes.axes import Size, distance
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.lists.best_single import best_single, main_device

# The name of the solver in schedules that are another size's.
SOLVER = "size class"


def class_of(size: Size, measured: Sequence[Size]) -> Size:
    """The measured size whose schedule a size has."""
    return min(sorted(measured), key=lambda other: distance(size, other))


def single_of_class(problem: Problem) -> Schedule | None:
    """The best single device's schedule; None if there is none."""
    alone = best_single(problem, Options())
    return None if alone is None else _judged(problem, alone)


def schedule_of_class(problem: Problem, schedule: Schedule) -> Schedule | None:
    """Another size's schedule with the times of this problem; None if it is none of it."""
    position = {task: i for i, task in enumerate(problem.graph.topological_order)}
    if {e.task for e in schedule.executions} != position.keys():
        return None
    # By start; of what starts at once (tasks may take no time) makers come before readers.
    ordered = sorted(schedule.executions, key=lambda e: (e.start, position[e.task]))
    if schedule.kind == "throughput":  # a period, which has no order of makers and readers
        ordered.sort(key=lambda e: position[e.task])
    try:
        timed = simulate(problem, [(e.task, e.device, e.elements) for e in ordered])
        made = make_schedule(problem, SOLVER, timed.executions, timed.copies, seed=schedule.seed)
        return _judged(problem, made)
    except HeteroError:
        return None


def _judged(problem: Problem, schedule: Schedule) -> Schedule:
    """A schedule that is valid, with the quickest of bounds and the best single device beside it.

    Raises
    ------
    SolverError
        If it is not valid.
    """
    alone = best_single(problem, Options())
    single = None if alone is None else SingleDevice(main_device(alone), alone.value)
    bound = lower_bound(problem, schedule.value, seconds=0.0)
    return verified(problem, replace(schedule, lower_bound=bound, best_single_device=single))
