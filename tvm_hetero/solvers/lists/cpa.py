"""CPA: critical path and area, how many cores each task gets, then a list schedule.

A. Radulescu, A. J. C. van Gemund: A low-cost approach towards mixed task and data parallel
scheduling, ICPP 2001, doi:10.1109/ICPP.2001.952048.

Every task begins with one core. As long as the critical path T_CP is longer than the mean area T_A,
the task of a critical path that gains most from one step more,

    t_i(p) / p - t_i(p') / p'        p' the next width that there is,

gets it: the time falls on the path, the area rises, and where they meet neither is in excess. Then
tasks go out by bottom level. Notation, T_CP and T_A are those of `allotment`; widths are those of
the platform's teams, where the paper has every number of processors.

Memory, colors, copies and the other objectives are those of `list_scheduler` and `list_solver`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.allotment import Allotment, rule_of
from tvm_hetero.solvers.lists.list_solver import Rule, solve_by_list
from tvm_hetero.views.instance import Instance

# Whether a part may have so many cores.
Allowed = Callable[[int, int], bool]


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by CPA.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    return solve_by_list(problem, options, "cpa", cpa)


def cpa(instance: Instance, devices: Sequence[int]) -> Rule:
    """The list schedule of CPA's allotment."""
    allotment = Allotment(instance, devices)
    widen(allotment, lambda v, p: True)
    return rule_of(allotment)


def widen(allotment: Allotment, allowed: Allowed) -> None:
    """Give cores to the critical path until it is no longer than the area."""
    stuck: set[int] = set()
    while True:
        levels = allotment.levels()
        if max(levels) <= allotment.area():
            return
        best: tuple[float, int, int] | None = None
        for v in allotment.critical_path(levels):
            p = allotment.wider(v)
            if p is None or v in stuck:
                continue
            if not allowed(v, p):
                stuck.add(v)
                continue
            gain = allotment.seconds(v) / allotment.width[v] - allotment.times[v][p] / p
            if best is None or gain > best[0]:
                best = gain, v, p
        if best is None:
            return
        _, v, p = best
        # What a wider team takes longer for stays as it is: the paper's times never rise.
        if allotment.times[v][p] >= allotment.seconds(v):
            stuck.add(v)
            continue
        allotment.width[v] = p
