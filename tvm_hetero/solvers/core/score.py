"""The value of a schedule, as the solvers compute it (rule 7 of the format).

Solvers need it to choose between candidates. What a user is told comes from `tvm_hetero.check`,
which computes it independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution


def busy_seconds(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[str | tuple[str, str], float]:
    """Busy time of every device in use and of every exclusive link in use, s.

    A device that lacks a copy engine is busy while it sends and receives (rule 4). The key of a
    link is (from, to).
    """
    parts: dict[str | tuple[str, str], list[float]] = {}
    for execution in executions:
        parts.setdefault(execution.device, []).append(execution.end - execution.start)
    for copy in copies:
        link = problem.platform.link(copy.src, copy.dst)
        for end in (copy.src, copy.dst):
            alone = not problem.platform.device(end).overlap
            parts.setdefault(end, []).append(copy.end - copy.start if alone else 0.0)
        if link is not None and link.exclusive:
            parts.setdefault((copy.src, copy.dst), []).append(copy.end - copy.start)
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
    used = [problem.platform.device(key) for key in sorted(k for k in busy if isinstance(k, str))]
    if kind == "cost":
        return math.fsum((device.price or 0.0) / 3600 * end for device in used)
    return math.fsum(
        (device.watts or 0.0) * busy[device.name]
        # A device that is never idle: the sum of its times may exceed the end by rounding.
        + device.idle_watts * max(0.0, end - busy[device.name])
        for device in used
    )


def within_limit(problem: Problem, executions: Sequence[Execution]) -> bool:
    """Whether the latency limit, if there is one, is kept (but for the rounding of sums)."""
    limit = problem.objective.latency_limit
    return limit is None or makespan(executions) <= limit * (1 + 1e-10)
