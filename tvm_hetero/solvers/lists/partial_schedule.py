"""A schedule of a piece by positions: what modules are solved with, before names come back.

A solution is a placement and the exact times of everything that it does. It is made from any
times (rounded, of other durations): only their order counts (see `timing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.integer_scaling import Ticks
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler
from tvm_hetero.solvers.lists.ranks import rank_order
from tvm_hetero.solvers.timing.decomposed_schedule import read_plan
from tvm_hetero.solvers.timing.timing import TimedPlan, make_plan, retime
from tvm_hetero.views.instance import Hop, Instance

Span = tuple[float, float]
HopTimes = Mapping[tuple[int, Hop], Span]


@dataclass(frozen=True)
class Solution:
    """A placement with exact times: `times[a]` is (start, end) of activity a of `plan`, s."""

    plan: TimedPlan
    times: tuple[Span, ...]
    value: float

    @property
    def placement(self) -> tuple[int, ...]:
        """Device of every part."""
        return self.plan.placement

    def in_ticks(self, ticks: Ticks) -> tuple[list[int], dict[tuple[int, Hop], int], int]:
        """Starts of parts, starts of hops and makespan in whole ticks, in the same order."""
        plan, n = self.plan, len(self.placement)
        length = [ticks.ticks(plan.seconds(a)) for a in range(len(plan))]
        starts = [int(s) for s in retime(plan, self.times, length.__getitem__)]
        end = max(s + p for s, p in zip(starts[:n], length, strict=False))
        return starts[:n], dict(zip(plan.hops, starts[n:], strict=True)), end

    @property
    def hops(self) -> dict[tuple[int, Hop], Span]:
        """Times of every hop."""
        n = len(self.placement)
        return dict(zip(self.plan.hops, self.times[n:], strict=True))


def solution(
    instance: Instance, placement: Sequence[int], spans: Sequence[Span], hops: HopTimes
) -> Solution:
    """The exact times of the order that is given by `spans` (of parts) and `hops`, in any unit.

    A hop without times is a mere delay: it comes when its tensor is there.
    """
    plan = make_plan(instance, placement)
    keys = list(spans)
    reached: dict[tuple[int, int], float] = {}
    for t, hop in plan.hops:
        there = reached.get((t, hop[0]), spans[instance.tensors[t].maker][1])
        begin, end = hops.get((t, hop), (there, there))
        reached[t, hop[1]] = end
        keys.append((begin, end))
    return _in_order(plan, keys)


def _in_order(plan: TimedPlan, keys: Sequence[Span]) -> Solution:
    """The exact times of a plan in the order of its keys."""
    starts = retime(plan, keys)
    times = tuple((s, s + plan.seconds(a)) for a, s in enumerate(starts))
    return Solution(plan, times, max(end for _, end in times[: len(plan.placement)]))


def list_schedule(instance: Instance, order: Sequence[int] | None = None) -> Solution:
    """HEFT.

    Raises
    ------
    InfeasibleError
        If some part fits nowhere.
    """
    scheduler = ListScheduler(instance, set(range(len(instance.names))))
    scheduler.run(rank_order(instance) if order is None else order, by_space=False)
    return of_scheduler(scheduler)


def of_scheduler(scheduler: ListScheduler) -> Solution:
    """What a list scheduler that has placed everything has decided."""
    instance = scheduler.instance
    placement = [d if d is not None else -1 for d in scheduler.place_of]
    seconds = instance.seconds
    spans = [(s, s + seconds[v][placement[v]]) for v, s in enumerate(scheduler.starts)]
    hops = {(t, hop): (start, end) for t, hop, start, end in scheduler.hops}
    return solution(instance, placement, spans, hops)


def of_schedule(instance: Instance, schedule: Schedule) -> Solution | None:
    """A schedule by positions; None if it divides the batch otherwise than the instance."""
    found = read_plan(instance, schedule)
    return None if found is None else _in_order(*found)
