"""Annealing in C++ as a step of other solvers: from a solution to a better one, counted as work."""

from __future__ import annotations

from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.partial_schedule import Solution, solution
from tvm_hetero.solvers.native.library import NativeSearch, available
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance

# Steps of the library that make one unit of deterministic work (about a second).
STEPS = 1.5e8


def anneal_solution(
    instance: Instance, best: Solution, options: Options, budget: CpsatBudget, steps: float
) -> Solution | None:
    """What annealing makes of `best` with so many steps; None if nothing, or without the library.

    The work is taken from `budget`; where less is left there are fewer steps.
    """
    left = max(0.0, budget.deadline - now())
    if not available() or left <= 0:
        return None
    search = NativeSearch(instance)
    starts = [start for start, _ in best.times]
    position = {v: p for p, v in enumerate(instance.order)}
    order = sorted(range(len(instance)), key=lambda v: (starts[v], position[v]))
    found = search.anneal(
        best.placement,
        order,
        work=max(1, int(steps)),
        seed=options.seed,
        deadline=left,
    )
    budget.work -= found.work / STEPS
    if not found.feasible or found.value >= best.value:
        return None
    decoded = search.decode(found.placement, found.sequence)
    spans = list(zip(decoded.starts, decoded.ends, strict=True))
    return solution(instance, found.placement, spans, decoded.hops)
