"""A problem on some of its devices: what is left when others have been given away."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.quote import quote


def restrict_devices(problem: Problem, names: Collection[str]) -> Problem:
    """The problem in which only these devices compute; the platform stays as it is.

    Raises
    ------
    InfeasibleError
        If a task can run on none of them.
    """
    kept = set(names)
    costs = {
        task: {name: cost for name, cost in row.items() if name in kept}
        for task, row in problem.costs.items()
    }
    for task, row in costs.items():
        if not row:
            raise InfeasibleError(
                f"task {quote(task)} runs on none of {', '.join(sorted(kept))}", proven=True
            )
    return replace(problem, costs=costs)
