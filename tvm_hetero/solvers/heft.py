"""HEFT: heterogeneous earliest finish time, a list scheduler with insertion.

H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling for
heterogeneous computing, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206.

Notation of the paper: w_i mean time of task i over the devices that can run it, c_ij mean time
of the transfer from i to j over pairs of different devices, and the upward rank

    rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))            -> `upward_ranks`

Tasks are taken by falling rank; each goes to the device on which it finishes first (EFT), into
the earliest gap that is long enough                                        -> `list_scheduler`

What this file adds to the paper:

- copies are made hop by hop, once per tensor and link, in the earliest gap that all they occupy
  has in common: ends without a copy engine and exclusive links (rules 3 and 4);
- memory (rule 6): a placement that would overflow a device at any moment is not chosen; until
  all readers of a tensor are placed it counts as never leaving its maker's device. If no device
  fits at the earliest time, later times at which memory is given back are tried;
- colors: the first task of a color decides for all, and their weights are reserved then;
- throughput is answered by `balance`, energy and cost by the best of HEFT on subsets of devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.instance import Instance
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.balance import balance
from tvm_hetero.solvers.list_scheduler import ListScheduler
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.score import within_limit
from tvm_hetero.units import format_seconds

# Up to so many devices, every subset of them is tried for energy and cost.
_SUBSETS = 4


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by HEFT (throughput: by greedy balancing).

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    """
    if problem.objective.kind == "throughput":
        return balance(problem, options)
    instance = Instance(problem)
    if problem.objective.kind == "latency":
        executions, copies = schedule_tasks(instance)
        return make_schedule(problem, "heft", executions, copies, seed=options.seed)
    answers = []
    reasons: list[InfeasibleError] = []
    for devices in _subsets(instance):
        try:
            executions, copies = schedule_tasks(instance, devices)
        except InfeasibleError as error:
            reasons.append(error)
            continue
        if within_limit(problem, executions):
            answers.append(make_schedule(problem, "heft", executions, copies, seed=options.seed))
    if not answers:
        raise _none_kept(problem, reasons)
    return min(answers, key=lambda answer: answer.value)


def _none_kept(problem: Problem, reasons: Sequence[InfeasibleError]) -> InfeasibleError:
    limit = problem.objective.latency_limit
    if limit is None:
        return reasons[0]
    return InfeasibleError(
        f"heft found no schedule within the latency limit of {format_seconds(limit)}; "
        "raise the limit, or use solver cpsat"
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
    instance: Instance, devices: Sequence[int] | None = None
) -> tuple[list[Execution], list[Copy]]:
    """HEFT on some devices (all by default); if memory stops it, once more choosing by space.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere.
    """
    allowed = set(range(len(instance.names)) if devices is None else devices)
    order = rank_order(instance)
    try:
        return ListScheduler(instance, allowed).run(order, by_space=False)
    except InfeasibleError:
        if not any(instance.memory_binds):
            raise
        return ListScheduler(instance, allowed).run(order, by_space=True)


def upward_ranks(instance: Instance) -> list[float]:
    """rank_u of every task, s."""
    ranks = [0.0] * len(instance)
    for v in reversed(instance.order):
        longest = 0.0
        for t in instance.outputs[v]:
            for reader in instance.tensors[t].readers:
                longest = max(longest, _mean_copy(instance, t, reader) + ranks[reader])
        times = [instance.seconds[v][d] for d in instance.devices[v]]
        ranks[v] = math.fsum(times) / len(times) + longest
    return ranks


def rank_order(instance: Instance) -> list[int]:
    """Tasks by falling rank; equal ranks in topological order, so that makers come first."""
    ranks = upward_ranks(instance)
    return sorted(instance.order, key=lambda v: -ranks[v])


def _mean_copy(instance: Instance, tensor: int, reader: int) -> float:
    """Mean time to bring a tensor to a reader, over the pairs of different devices, s."""
    flow = instance.tensors[tensor]
    times = [
        seconds
        for j in instance.devices[flow.maker]
        for k in instance.devices[reader]
        if j != k and (seconds := instance.copy_seconds(j, k, flow.nbytes)) < math.inf
    ]
    return math.fsum(times) / len(times) if times else 0.0
