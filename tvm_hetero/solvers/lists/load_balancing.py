"""Throughput by greedy balancing and local search: where every task goes, to even out the loads.

The value is the largest load of a device or exclusive link (rule 7): its executions, and the
hops that occupy it. Groups of tasks that share a device are placed by falling work, each where
the largest load grows least; then single groups are moved as long as that makes the sorted
loads smaller, the largest first. Memory (weights plus every tensor made on or copied to a
device) is a limit that no step may break. Contiguous stages are left to the linearised DP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.deadline import Deadline, check_time, time_is_up
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.stage_dp import linear_dp
from tvm_hetero.solvers.timing.device_loads import Loads
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.util.units import format_bytes
from tvm_hetero.views.instance import Instance, instance_of

# Moves that are looked at in all, times the tensors that a move touches, bound the work.
_MOST_MOVES = 20_000
# A move must gain more than rounding noise, or the search would cycle.
_GAIN = 1 - 1e-9


def balance(problem: Problem, options: Options) -> Schedule:
    """Place for throughput.

    Raises
    ------
    InfeasibleError
        If memory or missing links leave some task no place.
    """
    if problem.objective.contiguous:
        return replace(linear_dp.solve(problem, options), solver="heft", lower_bound=0.0)
    instance = instance_of(problem)
    executions, copies = write_period(instance, balance_loads(instance, options.ends))
    return make_schedule(problem, "heft", executions, copies, seed=options.seed)


def balance_loads(instance: Instance, ends: Deadline | None = None) -> list[int]:
    """The device of every part.

    Raises
    ------
    InfeasibleError
        If memory or missing links leave some part no place.
    SolverError
        If the time is up.
    """
    loads = Loads(instance)
    for i, group in enumerate(_by_work(instance)):
        if i > 0:  # small problems are not cut
            check_time(ends, "heft", i, len(instance.groups))
        _place(loads, group)
    improve(loads, ends)
    return loads.placement()


def _by_work(instance: Instance) -> list[tuple[int, ...]]:
    """Groups by falling least work; equal ones in topological order."""

    def work(group: tuple[int, ...]) -> float:
        devices = instance.devices[group[0]]
        return min(math.fsum(instance.seconds[v][d] for v in group) for d in devices)

    return sorted(instance.groups, key=lambda group: -work(group))


def _place(loads: Loads, group: Sequence[int]) -> None:
    """Put a group where the largest load grows least."""
    device, short = loads.best_place(group)
    if device is None:
        task = loads.instance.tasks[group[0]]
        lack = f"{format_bytes(min(short))} of memory lacks" if short else "no links lead there"
        raise InfeasibleError(
            f"heft: after the tasks placed before it, task {task!r} fits on no device: {lack} "
            "at the best of them; add memory or links"
        )
    loads.move(group, device)


def improve(loads: Loads, ends: Deadline | None = None) -> None:
    """Move single groups while that makes the sorted loads smaller."""
    instance = loads.instance
    left = _MOST_MOVES
    moved = True
    while moved and left > 0:
        moved = False
        for group in _by_work(instance):
            # A move takes milliseconds where a device has many links: a look is never too many.
            if time_is_up(ends):
                return
            for device in instance.devices[group[0]]:
                home = loads.home[group[0]]
                if device == home:
                    continue
                left -= 1
                before = loads.profile()
                loads.move(group, device)
                good = loads.overflow() == 0 and loads.reachable(group)
                if good and _smaller(loads.profile(), before):
                    moved = True
                else:
                    loads.move(group, home)
            if left <= 0:
                return


def _smaller(new: Sequence[float], old: Sequence[float]) -> bool:
    """Whether sorted loads are smaller at the first place where they really differ."""
    for a, b in zip(new, old, strict=False):
        if a < b * _GAIN:
            return True
        if b < a * _GAIN:
            return False
    return False
