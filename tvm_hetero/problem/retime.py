"""A schedule whose placement was edited, with times, copies and value that go with it.

Who moves a task to another device in a schedule's file changes one word; what has to be copied
then, when everything can start, and what the whole is worth follow from placement and order alone.
The order is that of the starts in the file, but for executions that would come before what they
read: those wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import objective_value
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Execution, Schedule
from tvm_hetero.problem.simulate import simulate


def retime(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule of `problem` with the placement and the order of this one.

    Of a schedule of this very problem the lower bound and the best single device stay, which are
    the problem's and not the plan's; a bound that the new value contradicts is dropped. One of
    another problem (measured anew, say) lends its placement alone. Memory and limits are for the
    judge to look at.

    Raises
    ------
    UsageError
        If a task or an element is unknown, missing, given twice, or on a device that cannot run it.
    PlatformError
        If no path of links leads where a tensor is needed.
    """
    order = executable_order(problem, schedule.executions)
    timed = simulate(problem, [(e.task, e.device, e.elements) for e in order])
    value = objective_value(problem, timed.executions, timed.copies)
    known = schedule if schedule.problem == problem.digest else None
    bound = known.lower_bound if known is not None else 0.0
    bound = bound if bound <= value * (1 + OPTIMAL_GAP) else 0.0
    return replace(
        schedule,
        problem=problem.digest,
        kind=problem.objective.kind,
        executions=timed.executions,
        copies=timed.copies,
        value=value,
        lower_bound=min(bound, value),
        status="optimal" if value - bound <= OPTIMAL_GAP * value else "feasible",
        best_single_device=None if known is None else known.best_single_device,
        robust=None,
    )


def executable_order(problem: Problem, executions: Sequence[Execution]) -> list[Execution]:
    """Executions by start, each after those that make what it reads; ties by their place.

    Of executions that wait for each other (one of several elements, another way round) those that
    are left come last, as they stand.
    """
    makers = {(e.task, n): i for i, e in enumerate(executions) for n in e.elements}
    needs: list[set[int]] = []
    for e in executions:
        tasks = problem.graph.predecessors.get(e.task, ())
        found = (makers.get((task, n)) for task in tasks for n in e.elements)
        needs.append({i for i in found if i is not None})
    readers: list[list[int]] = [[] for _ in executions]
    for i, makers_of in enumerate(needs):
        for maker in makers_of:
            readers[maker].append(i)
    ready = [(e.start, i) for i, e in enumerate(executions) if not needs[i]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for reader in readers[i]:
            needs[reader].discard(i)
            if not needs[reader]:
                heapq.heappush(ready, (executions[reader].start, reader))
    taken = set(order)
    left = [i for i in range(len(executions)) if i not in taken]
    return [executions[i] for i in (*order, *left)]
