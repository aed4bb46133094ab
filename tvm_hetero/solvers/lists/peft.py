"""PEFT: predict earliest finish time, a list scheduler that looks ahead at no extra order of cost.

H. Arabnejad, J. G. Barbosa: List scheduling algorithm for heterogeneous systems by an optimistic
cost table, IEEE TPDS 25(3), 2014, doi:10.1109/TPDS.2013.57.

Notation of the paper: w(i, p) time of task i on device p, c_ij mean time of the transfer from i to
j between different devices. The optimistic cost table says for task i on p how long the way to an
exit is at least, with every task after it where it suits that way best:

    OCT(i, p) = max over successors j of min over devices q of
                (OCT(j, q) + w(j, q) + (c_ij if q != p else 0))      -> `optimistic_cost_table`
    rank_oct(i) = mean over devices of OCT(i, p)                     -> `peft`
    O_EFT(i, p) = EFT(i, p) + OCT(i, p)                              -> `peft`

Of the tasks that are ready, the one with the largest rank_oct is taken and goes where O_EFT is
least: not always where it ends first, but where what follows can end early. As c >= 0, the inner
minimum is the smaller of staying on p and of the best device plus c, so the table takes time in
proportion to edges times devices.

Memory, colors, copies and the other objectives are those of `list_scheduler` and `list_solver`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.list_solver import Rule, solve_by_list
from tvm_hetero.solvers.lists.ranks import MeanCopies, ready_order
from tvm_hetero.views.instance import Instance


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by PEFT.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    return solve_by_list(problem, options, "peft", peft)


def peft(instance: Instance, devices: Sequence[int]) -> Rule:
    """rank_oct among the ready, and O_EFT."""
    table = optimistic_cost_table(instance, devices)
    allowed = frozenset(devices)
    ranks = [0.0] * len(instance)
    for v, row in enumerate(table):
        able = [row[d] for d in _able(instance, v, allowed)]
        ranks[v] = math.fsum(able) / len(able)
    return Rule(ready_order(instance, ranks), lambda v, d, end: end + table[v][d])


def optimistic_cost_table(instance: Instance, devices: Sequence[int]) -> list[list[float]]:
    """OCT of every part on every device, s."""
    copies, allowed = MeanCopies(instance), frozenset(devices)
    table = [[0.0] * len(instance.names) for _ in range(len(instance))]
    for i in reversed(instance.order):
        row = table[i]
        for t in instance.outputs[i]:
            for j in instance.tensors[t].readers:
                after = {
                    q: table[j][q] + instance.seconds[j][q] for q in _able(instance, j, allowed)
                }
                away = min(after.values()) + copies.seconds(t, j)
                for p in _able(instance, i, allowed):
                    row[p] = max(row[p], min(after.get(p, math.inf), away))
    return table


def _able(instance: Instance, v: int, devices: Collection[int]) -> Sequence[int]:
    """The devices in use that can run a part; all that can if none of those in use does."""
    allowed = instance.devices[v]
    return [d for d in allowed if d in devices] or allowed
