"""From schedules to sequences and back: where a search in C++ begins, and what it found.

A schedule says when everything happens; a search wants the order in which to decide it (see
`native`). Parts and hops are put in the order of their starts, and a fetch comes where the first
of its hops does that was not made before; decoding that order gives a schedule that is no later
than the one it came from (where every tensor has a direct link; else hops of one route that others
come between are moved together).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.native.library import NativeAnswer, NativeSearch
from tvm_hetero.solvers.timing.decomposed_schedule import division_of, read_plan
from tvm_hetero.solvers.timing.timing import (
    TimedPlan,
    activity_order,
    make_plan,
    retime,
    to_schedule,
)
from tvm_hetero.views.instance import Instance, instance_of


def divided_as(problem: Problem, schedule: Schedule) -> Instance:
    """The instance whose parts are the executions of a schedule."""
    division = division_of(schedule)
    if all(len(parts) == 1 for parts in division.values()):
        return instance_of(problem)
    return Instance(problem, division)


def start_of(instance: Instance, schedule: Schedule) -> tuple[list[int], list[int]]:
    """Placement and sequence of a schedule whose executions are the parts of `instance`."""
    found = read_plan(instance, schedule)
    assert found is not None, "its executions are the parts"
    plan, keys = found
    return list(plan.placement), sequence_of(plan, keys)


def sequence_of(plan: TimedPlan, keys: Sequence[tuple[float, float]]) -> list[int]:
    """The sequence of a plan's activities in the order of their keys (start, end)."""
    instance, n = plan.instance, len(plan.instance)
    fetches: list[tuple[int, int]] = []
    reads: list[list[int]] = [[] for _ in range(n)]
    brought: dict[tuple[int, tuple[int, int]], list[int]] = {}
    for t, flow in enumerate(instance.tensors):
        home = plan.placement[flow.maker]
        for reader in flow.readers:
            fetch = n + len(fetches)
            fetches.append((t, reader))
            reads[reader].append(fetch)
            for hop in instance.route(home, plan.placement[reader], flow.nbytes) or ():
                brought.setdefault((t, hop), []).append(fetch)
    taken: set[int] = set()
    sequence: list[int] = []

    def take(items: Sequence[int]) -> None:
        fresh = [item for item in items if item not in taken]
        taken.update(fresh)
        sequence.extend(fresh)

    for activity in activity_order(plan, keys):
        if activity < n:
            take([*reads[activity], activity])
        else:
            take(brought[plan.hops[activity - n]][:1])
    return sequence


def exact_schedule(
    search: NativeSearch, found: NativeAnswer
) -> tuple[tuple[Execution, ...], tuple[Copy, ...]]:
    """Executions and copies of what a search found, with exact times."""
    decoded = search.decode(found.placement, found.sequence or found.order)
    plan = make_plan(search.instance, found.placement)
    return to_schedule(plan, retime(plan, decoded.keys(plan)))
