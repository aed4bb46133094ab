"""CPOP: critical path on a processor, a list scheduler that keeps the critical path together.

H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling for
heterogeneous computing, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206, section 4.2.

Notation of the paper: rank_u and rank_d as in `ranks`, SET_CP the tasks of a critical path.

    priority(i) = rank_u(i) + rank_d(i)                                            -> `cpop`
    SET_CP = from the entry of highest priority on, always a successor through which
             the longest way leads                                  -> `critical_path_tasks`
    p_CP = the device with the least sum of w(i, p) over SET_CP   -> `critical_path_device`

Of the tasks that are ready, the one of highest priority is taken. Tasks of SET_CP go to p_CP, the
others where they end first. Where a device cannot run some task of SET_CP, that counts with its
time on the slowest device that can: in GPT-24 only the CPU can run 2 of the 124 tasks of the
path, and it is 27 times slower than the GPU on the others. A task that p_CP cannot run, or
has no memory for, goes where it ends first.

Memory, colors, copies and the other objectives are those of `list_scheduler` and `list_solver`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.list_solver import Rule, solve_by_list
from tvm_hetero.solvers.lists.ranks import MeanCopies, downward_ranks, ready_order, upward_ranks
from tvm_hetero.views.instance import Instance


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by CPOP.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    return solve_by_list(problem, options, "cpop", cpop)


def cpop(instance: Instance, devices: Sequence[int]) -> Rule:
    """rank_u + rank_d among the ready; p_CP for SET_CP, the earliest finish for the others."""
    copies = MeanCopies(instance)
    up, down = upward_ranks(instance, copies), downward_ranks(instance, copies)
    priority = [u + d for u, d in zip(up, down, strict=True)]
    path = critical_path_tasks(instance, up, copies)
    home = critical_path_device(instance, path, devices)
    critical = frozenset(path)

    def score(v: int, d: int, end: float) -> float:
        return -1.0 if d == home and v in critical else end

    return Rule(ready_order(instance, priority), score, (home,))


def critical_path_tasks(instance: Instance, up: Sequence[float], copies: MeanCopies) -> list[int]:
    """SET_CP in order. For an entry, rank_d is 0, so the highest priority is the largest rank_u."""
    entries = [v for v in instance.order if not instance.inputs[v]]
    v = max(entries, key=lambda entry: up[entry])
    path = [v]
    while True:
        ways = [
            (copies.seconds(t, reader) + up[reader], reader)
            for t in instance.outputs[v]
            for reader in instance.tensors[t].readers
        ]
        if not ways:
            return path
        v = max(ways, key=lambda way: way[0])[1]
        path.append(v)


def critical_path_device(instance: Instance, path: Sequence[int], devices: Sequence[int]) -> int:
    """p_CP: the device with the least time for a path (see the head of this file)."""

    def price(device: int) -> float:
        return math.fsum(
            instance.seconds[v][device]
            if device in instance.devices[v]
            else max(instance.seconds[v][d] for d in instance.devices[v])
            for v in path
        )

    return min(devices, key=price)
