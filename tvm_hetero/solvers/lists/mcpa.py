"""MCPA: CPA that leaves room for what can run side by side.

S. Bansal, P. Kumar, K. Singh: An improved two-step algorithm for task and data parallel scheduling
in distributed memory machines, Parallel Computing 32(10), 2006, doi:10.1016/j.parco.2006.08.004.

CPA gives cores to the critical path until it is as short as the mean area, and then has too few
left for the tasks beside it. MCPA looks at *precedence levels*, tasks as many steps from an entry:
the tasks of one level together never get more than all P cores, so that they can run at once
                                                                                    -> `mcpa`

Where a level has more than P tasks, none of them gets more than one core. All else is `cpa`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.allotment import Allotment, rule_of
from tvm_hetero.solvers.lists.cpa import widen
from tvm_hetero.solvers.lists.list_solver import Rule, solve_by_list
from tvm_hetero.views.instance import Instance


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by MCPA.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    return solve_by_list(problem, options, "mcpa", mcpa)


def mcpa(instance: Instance, devices: Sequence[int]) -> Rule:
    """The list schedule of MCPA's allotment."""
    allotment = Allotment(instance, devices)
    level = precedence_levels(instance)
    members: defaultdict[int, list[int]] = defaultdict(list)
    for v, depth in enumerate(level):
        members[depth].append(v)

    def fits(v: int, p: int) -> bool:
        beside = sum(allotment.width[w] for w in members[level[v]] if w != v)
        return beside + p <= allotment.cores

    widen(allotment, fits)
    return rule_of(allotment)


def precedence_levels(instance: Instance) -> list[int]:
    """For every part how many others there are on the longest way to it."""
    level = [0] * len(instance)
    for v in instance.order:
        makers = (instance.tensors[t].maker for t in instance.inputs[v])
        level[v] = max((level[u] + 1 for u in makers), default=0)
    return level
