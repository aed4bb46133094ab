"""A problem on some of its devices: what is left when others have been given away.

A schedule of it is one of the whole problem, too, once it is timed there: names stay.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.quote import quote


def restrict_devices(problem: Problem, names: Collection[str]) -> Problem:
    """The problem on these devices alone, and the links between them.

    Fabrics, which join whole platforms, are left out.

    Raises
    ------
    InfeasibleError
        If a task can run on none of them.
    """
    kept = set(names)
    whole = problem.platform
    platform = replace(
        whole,
        devices=tuple(each for each in whole.devices if each.name in kept),
        links=tuple(each for each in whole.links if {each.src, each.dst} <= kept),
        fabrics=(),
    )
    costs = {
        task: {name: cost for name, cost in row.items() if name in kept}
        for task, row in problem.costs.items()
    }
    for task, row in costs.items():
        if not row:
            raise InfeasibleError(
                f"task {quote(task)} runs on none of {', '.join(sorted(kept))}", proven=True
            )
    return replace(problem, costs=costs, platform=platform)
