"""One batch with one CP-SAT model: resolution, hint, bound, and exact times for what is found.

A bound is claimed for one element only: for larger batches the model leaves out divided batches,
so what it proves about its own class says nothing about the problem (`tvm_hetero.bounds` does).

Energy and cost are in `spending`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.bounds.latency.critical_path import critical_path
from tvm_hetero.bounds.latency.heads_tails import heads_and_tails
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, CpsatOutcome, run
from tvm_hetero.solvers.core.integer_scaling import COARSE, FINE, Ticks, choose
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.cpsat.model import BatchModel
from tvm_hetero.solvers.cpsat.spending import Spending, bound_spending
from tvm_hetero.solvers.cpsat.symmetry_breaking import (
    add_orderings,
    rename_devices,
    symmetry_of,
    weight,
)
from tvm_hetero.solvers.timing.decomposed_schedule import read_plan
from tvm_hetero.solvers.timing.timing import has_empty_lives, make_plan, retime, to_schedule
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Hop, Instance

# Variables above which no model is built: 12,000 (772 tasks) take 0.4 s, larger ones are untried.
MOST_VARIABLES = 60_000
# Variables that are built, twice where memory binds, in a part of a second's limit.
_VARIABLES_A_SECOND = 10_000
_NOISE = 1e-6

Keys = list[tuple[float, float]]


def solve_whole(
    instance: Instance,
    options: Options,
    start: Schedule | None,
    budget: CpsatBudget,
    share: float = 1.0,
    *,
    any_size: bool = False,
) -> Schedule:
    """Solve in one model, with `any_size` in one that is larger than any that was of use.

    Where memory binds, first with few ticks: CP-SAT sees a cycle of waits (a for b's memory, b
    for a's data) only by pushing both to the horizon, one shortest duration at a time.
    """
    problem = instance.problem
    if not any_size and too_large(instance):
        return _keep(problem, start, f"cpsat: {len(instance)} tasks are too many for one model")
    if not any_size and not fits_time(instance, options):
        limit = format_seconds(options.time_limit)
        return _keep(problem, start, f"cpsat: {limit} are too short to build the model")
    best, bound = start, 0.0
    errors = (COARSE, FINE) if any(instance.memory_binds) else (FINE,)
    for error in errors:
        part = share if error == errors[-1] else share / 2
        found, proven, infeasible = _search(instance, options, best, budget, part, error)
        if infeasible and best is None:
            raise _no_schedule(problem)
        bound = max(bound, proven)
        if found is not None and (best is None or found.value < best.value):
            best = found
        if best is not None and best.value - bound <= OPTIMAL_GAP * best.value:
            break
    if best is None:
        limit = format_seconds(options.time_limit)
        return _keep(problem, None, f"cpsat found no schedule within its time limit of {limit}")
    return make_schedule(
        problem, "cpsat", best.executions, best.copies, lower_bound=bound, seed=options.seed
    )


def _search(
    instance: Instance,
    options: Options,
    start: Schedule | None,
    budget: CpsatBudget,
    share: float,
    error: float,
) -> tuple[Schedule | None, float, bool]:
    """One run at one resolution: a schedule, a bound, and whether there is provably none.

    Rounded up, a schedule may miss the latency limit that it keeps, so the horizon is wider than
    the limit. If what is found there misses it, the limit itself becomes the horizon.
    """
    problem = instance.problem
    known = start is not None and problem.objective.kind == "latency"
    ticks = resolution(instance, start.value if start and known else math.inf, error)
    symmetry = symmetry_of(instance, options.symmetry)
    weigh = weight(instance, options.symmetry, lambda v, d: ticks.ticks(instance.seconds[v][d]))
    hint = _hint_of(instance, start)
    if hint is not None:
        # Equal devices have equal routes, so the hops keep their order and with it their keys.
        hint = rename_devices(symmetry, weigh, hint[0]), hint[1]
    bound = 0.0
    for slack in (ticks.slack, 0.0):
        model = BatchModel(instance, ticks, _horizon(instance, ticks, hint, slack))
        add_orderings(model.model, model.x, symmetry, weigh)
        exact, finer = _set_objective(model, problem)
        exact = exact and model.exact
        if hint is not None:
            model.hint(*_whole_times(instance, ticks, *hint))
        outcome = run(model.model, options, budget, share, linear=0)
        if slack == ticks.slack:
            bound = _bound(problem, ticks, outcome.bound / finer) if exact else 0.0
        if not outcome.found:
            none = outcome.infeasible and model.exact and slack == ticks.slack
            return None, bound if not outcome.infeasible else 0.0, none
        found = _exact_times(problem, model, outcome, bound, options)
        if found is not None:
            return found, bound, False
    return None, bound, False


def too_large(instance: Instance) -> bool:
    """Whether the model would have more variables than CP-SAT can make use of."""
    return count_variables(instance) > MOST_VARIABLES


def fits_time(instance: Instance, options: Options) -> bool:
    """Whether the model can be built and searched in the time that there is."""
    most = min(MOST_VARIABLES, options.time_limit * _VARIABLES_A_SECOND)
    return count_variables(instance) <= most


def count_variables(instance: Instance) -> int:
    """About how many variables the model has."""
    k = len(instance.names)
    hops = sum(min(k - 1, len(flow.readers)) for flow in instance.tensors) * k
    count = len(instance) * (k + 1) + 2 * hops * instance.contended
    if any(instance.memory_binds):
        # Every hop there is (whether and when), and on each device what it made and received.
        count += len(instance.tensors) * (2 * k * (k - 1) + sum(instance.memory_binds) * k)
    return count


def resolution(instance: Instance, most: float, error: float) -> Ticks:
    """Ticks as fine as `error` asks for (see `core.integer_scaling.choose`)."""
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
        lambda t: instance.copies(instance.tensors[t].nbytes),
    )
    path = critical_path(head, tail)
    return choose(durations, activities, path if path < math.inf else 0.0, most, error)


def _hint_of(instance: Instance, start: Schedule | None) -> tuple[list[int], Keys] | None:
    """Placement and keys of a start that divides the batch as the instance does; else None."""
    found = None if start is None else read_plan(instance, start)
    return None if found is None else (list(found[0].placement), found[1])


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
    instance: Instance, ticks: Ticks, hint: tuple[list[int], Keys] | None, slack: float
) -> int:
    """A makespan (ticks) that some optimal schedule does not exceed; limits plus `slack`."""
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
        limit = math.floor(objective.latency_limit * ticks.per_second + slack + _NOISE)
        return min(longest, limit)
    return longest


def _set_objective(model: BatchModel, problem: Problem) -> tuple[bool, int]:
    """Minimise; whether the bound is one of the problem (see the head of this file), and by how
    much finer its units are than those of times or `bound_spending`."""
    if problem.objective.kind == "latency":
        model.model.minimize(model.makespan)
        return problem.batch == 1, 1
    spending = Spending(model, problem, model.makespan)
    goal, finer = spending.goal()
    model.model.minimize(goal)
    return problem.batch == 1 and spending.whole, finer


def _bound(problem: Problem, ticks: Ticks, bound: float) -> float:
    """What CP-SAT's bound proves: every time in it may be rounded up by `ticks.slack`."""
    if problem.objective.kind == "latency":
        return ticks.bound(bound)
    return bound_spending(problem, ticks, bound)


def _exact_times(
    problem: Problem, model: BatchModel, outcome: CpsatOutcome, bound: float, options: Options
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
    exact: Sequence[float] = retime(plan, keys)
    if has_empty_lives(plan, keys):
        # The whole-number starts are valid too (durations were rounded up), if a little later.
        exact = [begin / model.ticks.per_second for begin, _ in keys]
    executions, copies = to_schedule(plan, exact)
    if not within_limit(problem, executions):
        return None
    return make_schedule(problem, "cpsat", executions, copies, lower_bound=bound, seed=options.seed)


def _keep(problem: Problem, start: Schedule | None, why: str) -> Schedule:
    """The start, unimproved."""
    if start is None:
        raise SolverError(f"{why}, and neither heft nor single finds a schedule; relax a limit")
    return make_schedule(problem, "cpsat", start.executions, start.copies, seed=start.seed)


def _no_schedule(problem: Problem) -> InfeasibleError:
    """CP-SAT proved that there is none (for batches: none that keeps a batch whole)."""
    limits = "memory and the links"
    if problem.objective.latency_limit is not None:
        limits += f" and the latency limit of {format_seconds(problem.objective.latency_limit)}"
    if problem.batch == 1:
        return InfeasibleError(
            f"cpsat proved that no placement and order keeps within {limits}; add memory or "
            "links, or raise the limit",
            proven=True,
        )
    return InfeasibleError(
        f"cpsat proved that no schedule which runs each task once for all {problem.batch} "
        f"elements keeps within {limits}, and neither heft nor single finds one that divides "
        "the batch; make the batch smaller, or add memory or links"
    )
