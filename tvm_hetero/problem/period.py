"""Energy, or cost, of a batch that comes again and again: done within its period, idle until then.

What a schedule spends is counted until it ends (rule 7): one that races is charged for no idling
after it. Where the next batch comes after a period P, devices in use idle until then, and whether
to race and then idle, or to be slow and steady, is another question. It needs no rule of its own:

    a device of its own, without watts or price, runs one task of P seconds that nothing waits for,
    and nothing may end after P

so the makespan is P, and each device in use is charged for all of it. Devices that a schedule does
not use at all are off. The device and the task are called ``period``, numbered if that is taken.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from itertools import count

from tvm_hetero.errors import UsageError
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.units import format_seconds

_NAME = "period"


def over_period(problem: Problem, seconds: float) -> Problem:
    """The problem of one batch every `seconds`: energy or cost of the whole period.

    Raises
    ------
    UsageError
        If the objective is neither energy nor cost, the period is not above 0 and finite, or there
        is a latency limit that is shorter: whoever wants a batch done before the next one comes
        asks for that period.
    """
    kind = problem.objective.kind
    if kind not in ("energy", "cost"):
        raise UsageError(f"a period is for energy or cost, not for {kind}; leave it out")
    if not 0 < seconds < math.inf:
        raise UsageError(f"a period of {seconds!r} s: expected more than 0")
    limit = problem.objective.latency_limit
    if limit is not None and limit < seconds:
        raise UsageError(
            f"a latency limit of {format_seconds(limit)} is below the period of "
            f"{format_seconds(seconds)}, until which idling is counted; leave the limit out, or "
            "ask for a period of no more"
        )
    task = Task(_free_name(problem.costs), op=_NAME)
    clock = Device(_free_name(problem.platform.names), overlap=True, watts=0.0, price=0.0)
    platform = replace(problem.platform, devices=(*problem.platform.devices, clock))
    each = Cost(((1, seconds / problem.batch),))
    return Problem(
        TaskGraph([*problem.tasks, task], problem.graph.edges),
        {**problem.costs, task.id: {clock.name: each}},
        platform,
        replace(problem.objective, latency_limit=seconds),
        problem.name,
    )


def _free_name(taken: Collection[str]) -> str:
    names = (f"{_NAME}_{n}" if n else _NAME for n in count())
    return next(name for name in names if name not in taken)
