"""HEFT: heterogeneous earliest finish time, a list scheduler with insertion.

H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling for
heterogeneous computing, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206.

Notation of the paper: w_i mean time of task i over the devices that can run it, c_ij mean time
of the transfer from i to j over pairs of different devices, and the upward rank

    rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))            -> `ranks`

Tasks are taken by falling rank; each goes to the device on which it finishes first (EFT), into
the earliest gap that is long enough                                        -> `list_scheduler`

What this file adds to the paper:

- copies are made hop by hop, once per tensor and link, in the earliest gap that all they occupy
  has in common: ends without a copy engine and exclusive links (rules 3 and 4);
- memory (rule 6): a placement that would overflow a device at any moment is not chosen; until
  all readers of a tensor are placed it counts as never leaving its maker's device. If no device
  fits at the earliest time, later times at which memory is given back are tried;
- colors: the first task of a color decides for all, and their weights are reserved then;
- throughput is answered by `balance`, energy and cost by the best of HEFT on subsets of devices
  (`list_solver`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists import list_solver
from tvm_hetero.solvers.lists.load_balancing import balance
from tvm_hetero.solvers.lists.ranks import rank_order
from tvm_hetero.views.instance import Instance


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by HEFT (throughput: by greedy balancing).

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    found = _solve(problem, options.ends)
    if isinstance(found, InfeasibleError):
        raise found
    return replace(found, seed=options.seed)


@cached_per_problem
def _solve(problem: Problem, ends: Deadline | None) -> Schedule | InfeasibleError:
    """The schedule, or why there is none: whoever begins from HEFT asks again."""
    told = Options(ends=ends)
    try:
        if problem.objective.kind == "throughput":
            return balance(problem, told)
        return list_solver.solve_by_list(problem, told, "heft", heft)
    except InfeasibleError as error:
        return error


def heft(instance: Instance, devices: Sequence[int]) -> list_solver.Rule:
    """Falling upward rank over all devices, and the earliest finish."""
    return list_solver.Rule(rank_order(instance))


def schedule_tasks(
    instance: Instance, devices: Sequence[int] | None = None
) -> tuple[list[Execution], list[Copy]]:
    """HEFT on some devices (all by default); if memory stops it, once more choosing by space.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere.
    """
    allowed = range(len(instance.names)) if devices is None else devices
    return list_solver.schedule_tasks(instance, heft, "heft", allowed)
