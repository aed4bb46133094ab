"""Plans of a steady state under watts, judged as throughput plans, with the period they are run at.

    >>> from tvm_hetero import zoo
    >>> from tvm_hetero.planning.power import most_throughput
    >>> from tvm_hetero.problem import Objective
    >>> problem = zoo.problem("layers-synthnet", "chiplets-4", Objective("throughput"))
    >>> plan = most_throughput(problem, watts=40.0)
    >>> plan.watts <= 40.0 + 1e-9
    True

A batch begins every `period`; each device that the plan uses idles for the rest of it, one that it
does not use is off. The program is in `tvm_hetero.planning.power.program`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.check.checker import verified
from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.power.program import (
    PowerModel,
    as_energy,
    bound_energy,
    bound_period,
)
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import charge, loads
from tvm_hetero.problem.restrict import restrict_devices
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, CpsatOutcome, run
from tvm_hetero.solvers.core.integer_scaling import Ticks, choose
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Instance, instance_of

# Rounding of all durations together, as a part of their mean load: energies stay below 2^63.
_ERROR = 1e-5
# Periods, as multiples of all work, beyond which none is looked for: of watts that are just above
# those of idling they have more ticks than there are numbers.
_FAR = 1000.0
# How far a sum of times may be above a given one, as the judge takes it.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class PowerPlan:
    """A steady state.

    Attributes
    ----------
    schedule : of the throughput problem; its value is the busiest device's work.
    period : s from one batch to the next, at least the schedule's value.
    joules : energy of a period.
    bound : of the period where watts are limited, s; of the energy where the period is given, J;
        0 where nothing is proven (batches of several elements are not divided).
    """

    problem: Problem
    schedule: Schedule
    period: float
    joules: float
    bound: float

    @property
    def watts(self) -> float:
        """In the mean."""
        return self.joules / self.period

    def gap(self, value: float) -> float:
        """What a value (the period or the energy) may lack of the best one, a share of it."""
        return max(0.0, 1 - self.bound / value) if value > 0 else 0.0


def most_throughput(problem: Problem, watts: float, options: Options = Options(10.0)) -> PowerPlan:
    """The steady state of most batches a second that draws `watts` in the mean at most.

    Raises
    ------
    FormatError
        If a device has no watts.
    UsageError
        If the objective is not throughput, stages are contiguous, or the watts are not above 0.
    InfeasibleError
        If the watts are too few for any placement, or memory or links allow none.
    SolverError
        If no placement was found in the time.
    """
    _check(problem, watts, "watts")
    instance, ticks = instance_of(problem), _resolution(problem)
    # What all devices draw at most is no cap, and of far more there would be no whole numbers.
    watts = min(watts, _most_watts(problem))
    longest, sure = _longest(problem, watts)
    model = PowerModel(instance, ticks, longest)
    model.limit_watts(watts)
    sure = sure and model.spending.whole
    outcome = _run(model, problem, options, f"{watts:g} W in the mean", sure=sure)
    bound = bound_period(problem, ticks, outcome.bound) if _proves(model) else 0.0
    schedule = _write(instance, model.read(outcome.solver), options)
    return _at_watts(problem, schedule, watts, bound)


def least_energy(problem: Problem, period: float, options: Options = Options(10.0)) -> PowerPlan:
    """The steady state of least energy with a batch every `period` seconds.

    See `most_throughput` for errors.
    """
    _check(problem, period, "seconds")
    instance, ticks = instance_of(problem), _resolution(problem)
    bound = 0.0
    # What is a rounding above the period is looked at in exact times.
    for slack in (ticks.slack, 0.0):
        model = PowerModel(instance, ticks, period)
        model.fix_period(period, slack)
        outcome = _run(model, problem, options, f"a batch every {format_seconds(period)}")
        if slack == ticks.slack:
            bound = bound_energy(problem, ticks, outcome.bound) if _proves(model) else 0.0
        schedule = _write(instance, model.read(outcome.solver), options)
        if schedule.value <= period * (1 + _TOLERANCE):
            return PowerPlan(problem, schedule, period, _joules(problem, schedule, period), bound)
    raise SolverError(f"no placement keeps within {format_seconds(period)} by more than rounding")


def _check(problem: Problem, number: float, what: str) -> None:
    objective = problem.objective
    if objective.kind != "throughput" or objective.contiguous:
        stages = " of contiguous stages" if objective.contiguous else ""
        raise UsageError(
            f"watts in a steady state are for throughput, not for {objective.kind}{stages}"
        )
    if not 0 < number < math.inf:
        raise UsageError(f"expected {what} above 0, got {number!r}")
    as_energy(problem)  # says which device lacks watts


def _resolution(problem: Problem) -> Ticks:
    """Ticks for sums of all costs and copies."""
    platform = problem.platform
    durations = [c.seconds(problem.batch) for row in problem.costs.values() for c in row.values()]
    count = len(problem.costs)
    for tensor in problem.graph.tensors.values():
        for src in range(len(platform.names)):
            hops = platform.links_from(src).values()
            durations += [late + tensor.bytes * problem.batch / rate for late, rate in hops]
        count += len(platform.names)
    least = (min(c.seconds(problem.batch) for c in row.values()) for row in problem.costs.values())
    size = math.fsum(least) / len(platform.names)
    found = choose(durations, count, size, error=_ERROR)
    if size == 0:
        return found
    # Costs may be whole in few ticks, and the period then is not: a tick has to be small beside it.
    finer = 10.0 ** max(0, math.ceil(-math.log10(_ERROR * size * found.per_second)))
    return Ticks(found.per_second * finer, found.slack * finer)


def _longest(problem: Problem, watts: float) -> tuple[float, bool]:
    """A period (s), and whether the best plan is surely no longer.

    One device alone that draws few enough watts is a plan; and if all devices idle with fewer, any
    placement is one, with a period of all work one by one and the joules of it at most.
    """
    work = _all_work(instance_of(problem))
    periods = (_alone(problem, d, watts) for d in problem.platform.names)
    alone = [found for found in periods if found is not None and found <= _FAR * work]
    if alone:
        return min(alone) * (1 + _ERROR), True
    spare = watts - math.fsum(d.idle_watts for d in problem.platform.devices)
    times = _most_watts(problem) / spare if spare > 0 else math.inf
    return work * min(max(1.0, times), _FAR), times <= _FAR


def _most_watts(problem: Problem) -> float:
    """What all devices draw at most, each of them busy or idle."""
    return math.fsum(max(d.watts or 0.0, d.idle_watts) for d in problem.platform.devices)


def _alone(problem: Problem, device: str, watts: float) -> float | None:
    """The period of one device that does everything, s; None if it cannot with so few watts."""
    try:
        mine = restrict_devices(problem, [device])
        found = solve(mine, "single", Options(1.0))
    except (InfeasibleError, SolverError):
        return None
    idle, above = _idle_and_above(mine, found)
    return shortest_period(found.value, idle, above, watts)


def _all_work(instance: Instance) -> float:
    """All tasks at their slowest and all hops that there can be, one by one, s."""
    total = math.fsum(max(s for s in row if s < math.inf) for row in instance.seconds)
    for flow in instance.tensors:
        routes = (
            instance.route(j, k, flow.nbytes) or ()
            for j in instance.devices[flow.maker]
            for k in range(len(instance.names))
        )
        hops = {hop for route in routes for hop in route}
        total += math.fsum(instance.hop_seconds(hop, flow.nbytes) for hop in hops)
    return total


def _run(
    model: PowerModel, problem: Problem, options: Options, what: str, *, sure: bool = True
) -> CpsatOutcome:
    """The program solved; `sure`: what it has no solution of there is none of."""
    outcome = run(model.model, options, CpsatBudget.of(options, options.clock()), linear=2)
    if outcome.infeasible:
        raise InfeasibleError(
            f"no placement of {problem.name!r} keeps {what}, its memory and its links; allow "
            "more, or add devices or levels",
            proven=sure and problem.batch == 1,
        )
    if not outcome.found:
        limit = format_seconds(options.time_limit)
        raise SolverError(f"no placement was found within {limit}; give it more time")
    return outcome


def _proves(model: PowerModel) -> bool:
    return model.instance.problem.batch == 1 and model.spending.whole


def _write(instance: Instance, placement: Sequence[int], options: Options) -> Schedule:
    """One period of a placement, judged."""
    problem = instance.problem
    steps = write_period(instance, placement)
    return verified(problem, make_schedule(problem, "power", *steps, seed=options.seed))


def _joules(problem: Problem, schedule: Schedule, period: float) -> float:
    busy = loads(problem, schedule.executions, schedule.copies)
    return charge(as_energy(problem), period, busy)


def _at_watts(problem: Problem, schedule: Schedule, watts: float, bound: float) -> PowerPlan:
    """The shortest period of a placement that draws no more than so many watts in the mean."""
    idle, above = _idle_and_above(problem, schedule)
    period = shortest_period(schedule.value, idle, above, watts)
    if period is None:
        raise SolverError(f"the best placement draws more than {watts:g} W by rounding")
    return PowerPlan(problem, schedule, period, above + idle * period, bound)


def shortest_period(load: float, idle: float, above: float, watts: float) -> float | None:
    """The least period (s) of at least `load` with no more than `watts` in the mean; None: none.

    A period Q takes above + idle Q joules. Devices that draw less while they are busy than while
    they idle make `above` negative: then longer periods are no help.
    """
    if idle < watts:
        return max(load, above / (watts - idle))
    return load if above + idle * load <= watts * load * (1 + _TOLERANCE) else None


def _idle_and_above(problem: Problem, schedule: Schedule) -> tuple[float, float]:
    """Watts with which what is in use idles, and joules of a period above that.

    Energy is linear in the period, so two periods say both.
    """
    once, twice = (n * schedule.value for n in (1, 2))
    least = _joules(problem, schedule, once)
    if once == 0:
        return 0.0, least
    idle = (_joules(problem, schedule, twice) - least) / once
    return idle, least - idle * once
