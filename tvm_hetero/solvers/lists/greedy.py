"""Greedy: tasks in topological order, each on the device where it ends first.

This is the rule "minimum completion time" of T. D. Braun et al.: A comparison of eleven static
heuristics for mapping a class of independent tasks onto heterogeneous distributed computing
systems, JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714, with the order of the graph, which makes
it the greedy baseline that DiviML compares itself with. Nothing is ranked: what HEFT gains over
it is worth its ranks.

Memory, colors, copies and the other objectives are those of `list_scheduler` and `list_solver`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.list_solver import Rule, solve_by_list
from tvm_hetero.views.instance import Instance


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve greedily.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    return solve_by_list(problem, options, "greedy", greedy)


def greedy(instance: Instance, devices: Sequence[int]) -> Rule:
    """The topological order, and the earliest finish."""
    return Rule(instance.order)
