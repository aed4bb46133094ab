"""CP-SAT: exact schedules (latency, energy, cost) and exact placements (throughput).

The models are in `cpsat_model` (one batch) and `cpsat_throughput`. This file chooses the
resolution, tells CP-SAT the best schedule known (the start), and turns what it finds back into
exact times. The result is never worse than the start.

A bound is claimed for one element only: for larger batches the model leaves out divided batches,
so what it proves about its own class says nothing about the problem (`tvm_hetero.bounds` does).

Energy and cost add to the model (P_d watts while busy, I_d watts while idle; price_d per hour)

    used_d          1 if an execution or an end of a hop is on d
    z_d >= T - H (1 - used_d)                      T if d is used, else 0
    energy = sum_d (P_d - I_d) busy_d + I_d z_d    cost = sum_d price_d / 3600 z_d

with coefficients in thousandths; they must be whole for a bound to be claimed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem import Problem
from tvm_hetero.schedule import Schedule
from tvm_hetero.solvers import cpsat_throughput, heft, single
from tvm_hetero.solvers.articulation import Module, Parts, cut
from tvm_hetero.solvers.cpsat_model import BatchModel
from tvm_hetero.solvers.cpsat_run import Budget, Outcome, run
from tvm_hetero.solvers.heads import critical_path, heads_and_tails
from tvm_hetero.solvers.instance import Hop, Instance
from tvm_hetero.solvers.options import Options, make_schedule
from tvm_hetero.solvers.scaling import Ticks, choose
from tvm_hetero.solvers.score import within_limit
from tvm_hetero.solvers.timing import make_plan, retime, to_schedule
from tvm_hetero.units import format_seconds

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

# Variables above which CP-SAT only burns time: nothing was ever found on larger models.
MOST_VARIABLES = 60_000
_THOUSANDTHS = 1000
# The part of the work left that a module may take at its first attempt.
_FIRST_SHARE = 0.2
_ROUNDING = 1 - 1e-12

Keys = list[tuple[float, float]]


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve with CP-SAT, from `options.start` or from the better of heft and single.

    Raises
    ------
    InfeasibleError
        If no schedule exists (proven, for one element), or none was found by any means.
    SolverError
        If the time ran out before the first schedule.
    """
    began = time.monotonic()
    return improve(problem, options, options.start or best_start(problem, options), began)


def improve(
    problem: Problem, options: Options, start: Schedule | None, began: float
) -> Schedule:
    """Solve from `start`; the time limit counts from `began` (of `time.monotonic`) on."""
    budget = Budget.of(options, began)
    if problem.objective.kind == "throughput":
        return cpsat_throughput.solve(problem, options, start, budget)
    instance = Instance(problem)
    modules = cut(instance) if problem.objective.kind == "latency" else None
    if modules is not None:
        return _by_parts(instance, modules, options, start, budget)
    return _whole(instance, options, start, budget)


def _by_parts(
    instance: Instance,
    modules: Sequence[Module],
    options: Options,
    start: Schedule | None,
    budget: Budget,
) -> Schedule:
    """Solve module by module (see `articulation`)."""
    problem = instance.problem

    def solve_entry(module: Problem, known: Schedule, attempt: int) -> Schedule:
        share = 1.0 if attempt else _FIRST_SHARE
        return _whole(Instance(module), options, known, budget, share)

    parts = Parts(instance, modules, lambda p: heft.solve(p, options), _entry_bound)
    parts.close(solve_entry, budget.exhausted)
    bound, _ = parts.best_path(low=True)
    placement, times, hops = parts.join()
    plan = make_plan(instance, placement)
    keys = [*times, *(hops[hop] for hop in plan.hops)]
    executions, copies = to_schedule(plan, retime(plan, keys))
    found = make_schedule(
        problem, "cpsat", executions, copies, lower_bound=bound * _ROUNDING, seed=options.seed
    )
    return found if start is None or found.value < start.value else _bounded(start, found)


def _entry_bound(module: Problem, value: float) -> float:
    """A bound of a module; the linear program only where the critical path leaves a gap."""
    from tvm_hetero.bounds import critical_path, latency_bound

    instance = Instance(module)
    bound = critical_path(instance)
    return bound if bound >= value * _ROUNDING else latency_bound(instance)


def _bounded(start: Schedule, found: Schedule) -> Schedule:
    """The start with the bound that was proven, under this solver's name."""
    return replace(start, solver="cpsat", lower_bound=found.lower_bound, seed=found.seed)


def _whole(
    instance: Instance,
    options: Options,
    start: Schedule | None,
    budget: Budget,
    share: float = 1.0,
) -> Schedule:
    """Solve in one model."""
    problem = instance.problem
    if too_large(instance):
        return _keep(problem, start, f"cpsat: {len(instance)} tasks are too many for one model")
    ticks = resolution(instance)
    hint = _hint_of(instance, start)
    model = BatchModel(instance, ticks, _horizon(instance, ticks, hint))
    exact = _set_objective(model, problem)
    if hint is not None:
        model.hint(*_whole_times(instance, ticks, *hint))
    outcome = run(model.model, options, budget, share, relaxation=False)
    if not outcome.found:
        return _nothing_found(problem, model, outcome, start, options)
    bound = _bound(problem, ticks, outcome.bound) if exact and model.exact else 0.0
    found = _exact_times(problem, model, outcome, bound, options)
    if found is not None and (start is None or found.value < start.value):
        return found
    if start is not None:
        return make_schedule(
            problem, "cpsat", start.executions, start.copies, lower_bound=bound, seed=options.seed
        )
    raise SolverError(
        "cpsat: rounding pushed the schedule over the latency limit; raise it slightly"
    )


def best_start(problem: Problem, options: Options) -> Schedule | None:
    """The better of single and heft; None if neither finds a schedule."""
    found = []
    for other in (single.solve, heft.solve):
        try:
            found.append(other(problem, options))
        except HeteroError:
            continue
    return min(found, key=lambda schedule: schedule.value, default=None)


def too_large(instance: Instance) -> bool:
    """Whether the model would have more variables than CP-SAT can make use of."""
    k = len(instance.names)
    hops = sum(min(k - 1, len(flow.readers)) for flow in instance.tensors) * k
    return len(instance) * (k + 1) + 2 * hops * instance.contended > MOST_VARIABLES


def resolution(instance: Instance) -> Ticks:
    """Ticks fine enough that rounding does not reach the proof (see `scaling`)."""
    durations = [s for row in instance.seconds for s in row if s < math.inf]
    activities = len(instance)
    k = len(instance.names)
    for flow in instance.tensors:
        routes = {
            (j, d): instance.route(j, d, flow.nbytes) or ()
            for j in instance.devices[flow.maker]
            for d in range(k)
        }
        hops = {hop for route in routes.values() for hop in route}
        durations += [instance.hop_seconds(hop, flow.nbytes) for hop in sorted(hops)]
        activities += max(
            len({hop for d in range(k) for hop in routes[j, d]})
            for j in instance.devices[flow.maker]
        )
    run = instance.seconds
    head, tail = heads_and_tails(
        instance,
        lambda v, d: run[v][d],
        lambda t, j, d: instance.copy_seconds(j, d, instance.tensors[t].nbytes),
    )
    return choose(durations, activities, critical_path(instance, head, tail))


def _hint_of(instance: Instance, start: Schedule | None) -> tuple[list[int], Keys] | None:
    """Placement and keys of a start that lies in the model's class; None otherwise."""
    if start is None or len(start.executions) != len(instance):
        return None
    index = instance.problem.graph.index
    device = instance.problem.platform.index
    placement = [0] * len(instance)
    keys: Keys = [(0.0, 0.0)] * len(instance)
    for e in start.executions:
        placement[index[e.task]] = device[e.device]
        keys[index[e.task]] = (e.start, e.end)
    times = {(c.tensor, device[c.src], device[c.dst]): (c.start, c.end) for c in start.copies}
    plan = make_plan(instance, placement)
    for t, (a, b) in plan.hops:
        keys.append(times[instance.tensors[t].name, a, b])
    return placement, keys


def _whole_times(
    instance: Instance, ticks: Ticks, placement: Sequence[int], keys: Keys
) -> tuple[Sequence[int], list[int], dict[tuple[int, Hop], int]]:
    """A start in ticks: placement, starts of tasks, starts of hops."""
    plan = make_plan(instance, placement)
    times = retime(plan, keys, lambda activity: ticks.ticks(plan.seconds(activity)))
    n = len(instance)
    hops = {hop: int(times[n + i]) for i, hop in enumerate(plan.hops)}
    return placement, [int(time) for time in times[:n]], hops


def _horizon(
    instance: Instance, ticks: Ticks, hint: tuple[list[int], Keys] | None
) -> int:
    """A makespan (ticks) that some optimal schedule does not exceed."""
    objective = instance.problem.objective
    if objective.kind == "latency" and hint is not None:
        placement, starts, _ = _whole_times(instance, ticks, *hint)
        seconds = instance.seconds
        return max(s + ticks.ticks(seconds[v][placement[v]]) for v, s in enumerate(starts))
    # Nothing need ever wait while all is idle, so a schedule is no longer than all it does.
    longest = sum(
        max(ticks.ticks(instance.seconds[v][d]) for d in instance.devices[v])
        for v in range(len(instance))
    )
    for flow in instance.tensors:
        k = range(len(instance.names))
        routes = [instance.route(j, d, flow.nbytes) or () for j in k for d in k]
        hops = {hop for route in routes for hop in route}
        longest += sum(ticks.ticks(instance.hop_seconds(hop, flow.nbytes)) for hop in hops)
    if objective.latency_limit is not None:
        limit = math.ceil(objective.latency_limit * ticks.per_second + ticks.slack)
        return min(longest, limit)
    return longest


def _set_objective(model: BatchModel, problem: Problem) -> bool:
    """Minimise; whether the bound is one of the problem (see the head of this file)."""
    if problem.objective.kind == "latency":
        model.model.minimize(model.makespan)
        return problem.batch == 1
    terms: list[cp_model.LinearExpr] = []
    whole = True
    for d, device in enumerate(problem.platform.devices):
        lasting = model.while_used(d)
        if lasting is None:
            continue
        if problem.objective.kind == "cost":
            factors = [(device.price or 0.0, lasting)]
        else:
            active = (device.watts or 0.0) - device.idle_watts
            factors = [(active, model.busy(d)), (device.idle_watts, lasting)]
        for factor, expression in factors:
            coefficient = round(factor * _THOUSANDTHS)
            whole = whole and abs(coefficient - factor * _THOUSANDTHS) < 1e-9
            terms.append(coefficient * expression)
    model.model.minimize(sum(terms))
    return problem.batch == 1 and whole


def _bound(problem: Problem, ticks: Ticks, bound: float) -> float:
    """What CP-SAT's bound proves: every time in it may be rounded up by `ticks.slack`."""
    kind = problem.objective.kind
    if kind == "latency":
        return ticks.bound(bound)
    devices = problem.platform.devices
    if kind == "cost":
        unit, rates = 3600.0, sum(device.price or 0.0 for device in devices)
    else:
        unit = 1.0
        rates = sum(max(device.watts or 0.0, device.idle_watts) * 2 for device in devices)
    return max(0.0, (bound / _THOUSANDTHS - rates * ticks.slack) / ticks.per_second / unit)


def _exact_times(
    problem: Problem, model: BatchModel, outcome: Outcome, bound: float, options: Options
) -> Schedule | None:
    """The found placement and order with exact times; None if that misses the latency limit."""
    instance = model.instance
    placement, starts, hops = model.read(outcome.solver.value)
    plan = make_plan(instance, placement)
    keys: Keys = [(s, s + model.run(v, placement[v])) for v, s in enumerate(starts)]
    reached: dict[tuple[int, int], float] = {}
    for t, hop in plan.hops:
        maker = instance.tensors[t].maker
        # A hop without variables is a mere delay: it starts when its tensor is there.
        begin = hops.get((t, hop), reached.get((t, hop[0]), keys[maker][1]))
        reached[t, hop[1]] = begin + model.hop(t, hop)
        keys.append((begin, reached[t, hop[1]]))
    executions, copies = to_schedule(plan, retime(plan, keys))
    if not within_limit(problem, executions):
        return None
    return make_schedule(
        problem, "cpsat", executions, copies, lower_bound=bound, seed=options.seed
    )


def _keep(problem: Problem, start: Schedule | None, why: str) -> Schedule:
    """The start, unimproved."""
    if start is None:
        raise SolverError(f"{why}, and neither heft nor single finds a schedule; relax a limit")
    return make_schedule(problem, "cpsat", start.executions, start.copies, seed=start.seed)


def _nothing_found(
    problem: Problem,
    model: BatchModel,
    outcome: Outcome,
    start: Schedule | None,
    options: Options,
) -> Schedule:
    if start is None and outcome.infeasible and model.exact:
        limits = "memory and the links"
        if problem.objective.latency_limit is not None:
            limits += f" and the latency limit of {format_seconds(problem.objective.latency_limit)}"
        if problem.batch == 1:
            raise InfeasibleError(
                f"cpsat proved that no placement and order keeps within {limits}; add memory or "
                "links, or raise the limit"
            )
        raise InfeasibleError(
            f"cpsat proved that no schedule which runs each task once for all {problem.batch} "
            f"elements keeps within {limits}, and neither heft nor single finds one that divides "
            "the batch; make the batch smaller, or add memory or links"
        )
    limit = format_seconds(options.time_limit)
    return _keep(problem, start, f"cpsat found no schedule within its time limit of {limit}")
