"""Work-area rule: the allotment whose longer one of critical path and mean area is shortest.

Every schedule takes at least T_CP and at least T_A of its own allotment, and a list schedule little
more than their sum; so the allotment decides. K. Jansen, H. Zhang: An approximation algorithm for
scheduling malleable tasks under general precedence constraints, ACM TALG 2(3), 2006,
doi:10.1145/1159892.1159899, find the one with the least max(T_CP, T_A) by a linear program and
rounding. Here, as in L. Lepere, D. Trystram, G. Woeginger (IJFCS 13(4), 2002,
doi:10.1142/S0129054102001308), there is one price for area:

    p(i) = argmin over p of t_i(p) + m p t_i(p)                         -> `allot`

for prices m from "as quick as possible" to "as few core-seconds as possible"; of all prices the
allotment with the least max(T_CP, T_A) is laid out                      -> `work_area`

Memory, colors, copies and the other objectives are those of `list_scheduler` and `list_solver`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.allotment import Allotment, rule_of
from tvm_hetero.solvers.lists.list_solver import Rule, solve_by_list
from tvm_hetero.views.instance import Instance

# Prices of a core-second, in parts of a second; 0 is as quick as possible.
PRICES = (0.0, *(2.0**power for power in range(-8, 5)))


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by the work-area rule.

    Raises
    ------
    InfeasibleError
        If some task fits nowhere (says by how much), or no candidate keeps the latency limit.
    SolverError
        If the time is up.
    """
    return solve_by_list(problem, options, "work-area", work_area)


def work_area(instance: Instance, devices: Sequence[int]) -> Rule:
    """The list schedule of the best allotment; of equals that of the least price."""
    allotment = Allotment(instance, devices)
    best: tuple[float, list[int]] | None = None
    for price in PRICES:
        allot(allotment, price)
        longer = max(max(allotment.levels()), allotment.area())
        if best is None or longer < best[0]:
            best = longer, list(allotment.width)
    assert best is not None, "there are prices"
    allotment.width = best[1]
    return rule_of(allotment)


def allot(allotment: Allotment, price: float) -> None:
    """Give every part the width that is least with time at 1 and core-seconds at `price`."""
    for v, row in enumerate(allotment.times):
        allotment.width[v] = min(row, key=lambda p, row=row: (row[p] * (1 + price * p), p))  # type: ignore[misc]
