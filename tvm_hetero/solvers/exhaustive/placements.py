"""Exhaustive: every placement, and of each every order that can be best; for small problems.

Placements are listed depth first, task by task in topological order; the orders of a placement
are those of `orders`. What cannot be better than the best known is cut off. Let a partial
placement be given, v the task that was placed last, d its device, p its time there:

    head(v) = p + max over inputs t of v (head(maker of t) + copy of t to d)
    makespan >= head(v) + tail(v, d)            tail as in `tvm_hetero.bounds.latency.heads_tails`
    makespan, period >= sum of p over the tasks on d

From a bound T of the makespan follow bounds of the other objectives (`_least_value`): with W, I
the watts of a device in use, busy and idle, and L the work on it so far,

    cost   >= sum of price * T / 3600
    energy >= sum of min(W, I) T + max(0, W - I) L

since a device is busy for L at least and for T at most. For throughput there are no orders: the
value is the largest load.

One task runs whole. For one element that is all there is, so once everything has been looked at,
the value is proven; larger batches could be divided, so for them nothing is claimed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.bounds.latency.heads_tails import heads_and_tails
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.exhaustive.orders import (
    OrderWork,
    everything_fits,
    least_makespan,
    loads,
    static_bytes,
    tails,
)
from tvm_hetero.solvers.lists import best_single, heft
from tvm_hetero.solvers.timing.device_loads import is_pipeline
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.solvers.timing.timing import TimedPlan, make_plan, to_schedule
from tvm_hetero.views.instance import Instance

# The largest problem that is taken on: tasks, and placements (before any are cut off).
MOST_TASKS = 20
MOST_PLACEMENTS = 5_000_000
# Steps of a search in a second of time limit, about a third of what an idle core makes.
_STEPS_A_SECOND = 10_000
# Times are sums of floats: a limit may be exceeded by their rounding.
_ROUNDING = 1 + 1e-12


def solve(problem: Problem, options: Options) -> Schedule:
    """The best of all schedules that run every task whole.

    Raises
    ------
    InfeasibleError
        If there is none (proven for one element).
    SolverError
        If the problem is too large, or the time limit too short to find anything.
    """
    instance = Instance(problem)
    _check_size(instance)
    best = _start(problem, options)
    work = OrderWork(
        int(options.time_limit * _STEPS_A_SECOND), time.monotonic() + options.wall_limit
    )
    search = _Placements(instance, math.inf if best is None else best.value, work)
    search.visit(0)
    if search.found is not None:
        best = search.found
    complete = work.left >= 0
    if best is None:
        raise _nothing(problem, complete)
    proven = best.value if complete and problem.batch == 1 else 0.0
    return replace(best, solver="exhaustive", lower_bound=proven, seed=options.seed)


def _check_size(instance: Instance) -> None:
    placements = math.prod(len(instance.devices[group[0]]) for group in instance.groups)
    if len(instance) > MOST_TASKS or placements > MOST_PLACEMENTS:
        raise SolverError(
            f"exhaustive takes at most {MOST_TASKS} tasks and {MOST_PLACEMENTS:,} placements; "
            f"this problem has {len(instance)} tasks and {placements:.3g} placements"
        )


def _start(problem: Problem, options: Options) -> Schedule | None:
    """The best of what is given, HEFT and the best single device."""
    found = [options.start] if options.start is not None else []
    for other in (heft.solve, best_single.solve):
        try:
            found.append(other(problem, options))
        except HeteroError:
            continue
    return min(found, key=lambda schedule: schedule.value, default=None)


def _nothing(problem: Problem, complete: bool) -> SolverError | InfeasibleError:
    if not complete:
        return SolverError("exhaustive found no schedule within its time limit; raise it")
    whole = "" if problem.batch == 1 else " that runs every task for the whole batch at once"
    return InfeasibleError(
        f"there is no schedule{whole}: no placement keeps memory, latency limit and links; "
        "add memory or links, or raise the limit"
    )


class _Placements:
    """Depth first through the placements; `found` is the best schedule below the start's value."""

    def __init__(self, instance: Instance, best: float, work: OrderWork) -> None:
        self.instance, self.best, self.work = instance, best, work
        self.found: Schedule | None = None
        seconds, tensors = instance.seconds, instance.tensors
        _, self.tail = heads_and_tails(
            instance,
            lambda v, d: seconds[v][d],
            lambda t: instance.copies(tensors[t].nbytes),
        )
        limit = instance.problem.objective.latency_limit
        self.limit = math.inf if limit is None else limit * _ROUNDING
        self.home: dict[int, int] = {}
        self.place = [0] * len(instance)
        self.head = [0.0] * len(instance)
        self.load = [0.0] * len(instance.names)

    def visit(self, depth: int, makespan: float = 0.0) -> None:
        """Place what comes after `depth` tasks, given what the makespan is at least, s."""
        if not self.work.spend():
            return
        if depth == len(self.instance):
            self.finish()
            return
        v = self.instance.order[depth]
        group = self.instance.group_of[v]
        fixed = self.home.get(group)
        options = []
        for d in self.instance.devices[v] if fixed is None else (fixed,):
            head = self.earliest_end(v, d)
            options.append((max(makespan, head + self.tail[v][d]), head, d))
        for least, head, d in sorted(options):
            self.home[group], self.place[v], self.head[v] = d, d, head
            before = self.load[d]
            self.load[d] += self.instance.seconds[v][d]
            if self.promising(max(least, self.load[d])):
                self.visit(depth + 1, max(least, self.load[d]))
            self.load[d] = before
            if fixed is None:
                del self.home[group]

    def earliest_end(self, v: int, d: int) -> float:
        """head(v) on d; inf where an input cannot get there."""
        instance, ready = self.instance, 0.0
        for t in instance.inputs[v]:
            flow = instance.tensors[t]
            there = instance.copy_seconds(self.place[flow.maker], d, flow.nbytes)
            ready = max(ready, self.head[flow.maker] + there)
        return ready + instance.seconds[v][d]

    def promising(self, makespan: float) -> bool:
        """Whether a placement with at least this makespan can be better than the best."""
        if makespan == math.inf:
            return False
        objective = self.instance.problem.objective
        if objective.kind == "throughput":
            return max(self.load) < self.best
        if makespan > self.limit:
            return False
        used = sorted(set(self.home.values()))
        return _least_value(self.instance, used, self.load, makespan) < self.best

    def finish(self) -> None:
        """Look at the orders of a whole placement."""
        plan = make_plan(self.instance, self.place)
        if self.instance.problem.objective.kind == "throughput":
            self.finish_period(plan)
            return
        cutoff = self.cutoff(plan)
        if max(0.0, *tails(plan), *loads(plan).values()) >= cutoff or not _weights_fit(plan):
            return
        starts = least_makespan(plan, cutoff, self.work)
        if starts is not None:
            timed = to_schedule(plan, starts)
            self.keep(make_schedule(self.instance.problem, "exhaustive", *timed))

    def finish_period(self, plan: TimedPlan) -> None:
        """The same for throughput, which has no orders."""
        contiguous = self.instance.problem.objective.contiguous
        fits = everything_fits(plan) and (not contiguous or is_pipeline(self.instance, self.place))
        if fits and max(loads(plan).values()) < self.best:
            period = write_period(self.instance, self.place)
            self.keep(make_schedule(self.instance.problem, "exhaustive", *period))

    def keep(self, schedule: Schedule) -> None:
        """Remember a schedule if it is better."""
        if schedule.value < self.best:
            self.best, self.found = schedule.value, schedule

    def cutoff(self, plan: TimedPlan) -> float:
        """What the makespan must be below for the value to be better and the limit to be kept, s.

        With devices fixed, energy and cost are linear in the makespan.
        """
        problem = self.instance.problem
        if problem.objective.kind == "latency":
            return self.best
        base, slope = _line(plan)
        most = math.nextafter(self.limit, math.inf)
        if slope > 0:
            return min(most, (self.best - base) / slope)
        return most if base < self.best else 0.0


def _least_value(
    instance: Instance, used: Sequence[int], load: Sequence[float], makespan: float
) -> float:
    """What the objective is at least (see the head of this file): s, J or money per batch."""
    kind = instance.problem.objective.kind
    devices = instance.problem.platform.devices
    if kind == "latency":
        return makespan
    if kind == "cost":
        return math.fsum((devices[d].price or 0.0) / 3600 * makespan for d in used)
    parts = []
    for d in used:
        watts, idle = devices[d].watts or 0.0, devices[d].idle_watts
        parts.append(min(watts, idle) * makespan + max(0.0, watts - idle) * load[d])
    return math.fsum(parts)


def _line(plan: TimedPlan) -> tuple[float, float]:
    """(a, b) such that energy or cost of a placement is a + b * makespan."""
    instance = plan.instance
    devices = instance.problem.platform.devices
    used = set(plan.placement).union(*(hop for _, hop in plan.hops))
    if instance.problem.objective.kind == "cost":
        return 0.0, math.fsum((devices[d].price or 0.0) / 3600 for d in sorted(used))
    load = loads(plan)
    busy = [
        ((devices[d].watts or 0.0) - devices[d].idle_watts) * load.get(d, 0.0) for d in sorted(used)
    ]
    return math.fsum(busy), math.fsum(devices[d].idle_watts for d in sorted(used))


def _weights_fit(plan: TimedPlan) -> bool:
    limits = zip(static_bytes(plan), plan.instance.capacity, strict=True)
    return all(limit is None or held <= limit for held, limit in limits)
