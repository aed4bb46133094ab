"""The value of a schedule, as the solvers compute it (rule 7 of the format).

Solvers need it to choose between candidates. What a user is told comes from `tvm_hetero.check`,
which computes it independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import (
    Resource,
    charge,
    list_engaged,
    list_occupied,
    own_energies,
)
from tvm_hetero.problem.schedule import Copy, Execution


def busy_seconds(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[Resource, float]:
    """Busy time of every device, core of teams and exclusive link in use, s.

    A device that lacks a copy engine is busy while it sends and receives (rule 4). The key of a
    link is (from, to), that of a core ("core", node, number).
    """
    parts: dict[Resource, list[float]] = {}
    for execution in executions:
        for resource in list_engaged(problem.platform, execution.device):
            parts.setdefault(resource, []).append(execution.end - execution.start)
    for copy in copies:
        link = problem.platform.link(copy.src, copy.dst)
        for end in (copy.src, copy.dst):
            parts.setdefault(end, [])
        for resource in () if link is None else list_occupied(problem, link):
            parts.setdefault(resource, []).append(copy.end - copy.start)
    return {key: math.fsum(row) for key, row in parts.items()}


def makespan(executions: Sequence[Execution]) -> float:
    """End of the last execution, s."""
    return max(execution.end for execution in executions)


def value_of(problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]) -> float:
    """Value of the problem's objective: s, s per batch, J per batch, or money per batch."""
    kind = problem.objective.kind
    end = makespan(executions)
    if kind == "latency":
        return end
    busy = busy_seconds(problem, executions, copies)
    if kind == "throughput":
        return max(busy.values())
    return charge(problem, end, busy, own_energies(problem, executions))


def within_limit(problem: Problem, executions: Sequence[Execution]) -> bool:
    """Whether the latency limit, if there is one, is kept (but for the rounding of sums)."""
    limit = problem.objective.latency_limit
    return limit is None or makespan(executions) <= limit * (1 + 1e-10)
