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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tvm_hetero.check.checker import verified
from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.power.longest_period import FAR, all_work, choose_ticks, longest_period
from tvm_hetero.planning.power.program import (
    TOLERANCE,
    PowerModel,
    as_energy,
    bound_period,
    longest_whole,
    stretch,
)
from tvm_hetero.planning.power.steady_energy import energy_of, idle_and_above, shortest_period
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, CpsatOutcome, run
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.cpsat.spending import THOUSANDTHS, bound_spending, sum_watts
from tvm_hetero.solvers.registry import check_teams
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import Instance, instance_of

# How often what a resource cannot do within the period by less than rounding is ruled out.
_MOST_CUTS = 20
# Of what is left of the time limit for a try after which there may be another one.
_SHARE = 0.6
# How near to what the program says a plan's period is good enough, as a share.
_NEAR = 1e-4
# Rounding noise of thousandths of a watt.
_NOISE = 1e-9


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
        If the objective is not throughput, stages are contiguous, the watts are not above 0, or
        a placement takes no time, so that no period is the shortest.
    InfeasibleError
        If the watts are too few for any placement, or memory or links allow none.
    SolverError
        If no placement was found in the time, or teams are such that no period may be as short as
        the busiest core is busy.
    """
    _check(problem, watts, "watts")
    # What all devices draw at most is no cap, and of far more there would be no whole numbers.
    cap = min(watts, sum_watts(problem))
    best, needed = None, math.inf
    for attempt in _attempts(problem, cap, watts, options):
        needed = min(needed, attempt.draws)
        plan = _at_watts(problem, attempt.schedule, cap, attempt.bound)
        if plan is not None and (best is None or plan.period < best.period):
            best = plan
        if best is not None and best.period <= attempt.period * (1 + _NEAR):
            break
    if best is None:
        raise InfeasibleError(
            f"no placement of {problem.name!r} was found that keeps {watts:g} W in the mean but by "
            f"rounding; allow {needed * 1.001:.4g} W"
        )
    if best.period == 0:
        raise _timeless(problem)
    return best


@dataclass(frozen=True)
class _Attempt:
    """A placement for a cap in whole thousandths, the period (s) that it was found with and what
    it then draws (W), and what is proven of the period."""

    schedule: Schedule
    period: float
    draws: float
    bound: float


def _attempts(problem: Problem, cap: float, watts: float, options: Options) -> Iterator[_Attempt]:
    """Placements for the cap rounded up, which proves, and then down as far as rounding asks."""
    instance, budget = instance_of(problem), CpsatBudget.of(options, options.clock())
    longest, alone = longest_period(problem, cap)
    if longest == 0:
        raise _timeless(problem)
    limits, bound, turn, coarse = [0], 0.0, 0, False
    while turn < len(limits):
        ticks = choose_ticks(problem, longest, coarse=coarse)
        room = stretch(problem, ticks)
        most = longest * max(2.0, min(room, FAR)) + ticks.slack / ticks.per_second
        model = PowerModel(instance, ticks, most)
        limits = _whole_limits(cap, 0 if model.spending.whole else 2 * len(instance.names))
        model.limit_watts(limits[turn])
        outcome = run(model.model, options, budget, _share(limits[turn:]), linear=2)
        if outcome.infeasible and model.clipped and not coarse:
            coarse = True  # none within the periods that so fine ticks have numbers for
            continue
        if turn == 0:
            sure = alone and room <= FAR and _proves(model) and not model.clipped
            _refuse(outcome, problem, options, f"{watts:g} W in the mean", sure=sure)
            bound = bound_period(problem, ticks, outcome.bound) if _proves(model) else 0.0
        if not outcome.found:
            return
        schedule = _write(instance, model.read(outcome.solver), options)
        period = max(outcome.solver.value(model.period) / ticks.per_second, schedule.value)
        draws = energy_of(problem, schedule, period) / period if period > 0 else 0.0
        yield _Attempt(schedule, period, draws, bound)
        turn += 1


def _whole_limits(cap: float, allowance: int) -> list[int]:
    """A cap (W) in thousandths: up, with what coefficients may be off, then down, then without."""
    exact = cap * THOUSANDTHS
    up, down = math.ceil(exact - _NOISE), math.floor(exact + _NOISE)
    return list(dict.fromkeys((up + allowance, down, down - allowance)))


def _share(tries: Sequence[object]) -> float:
    return _SHARE if len(tries) > 1 else 1.0


def _at_watts(problem: Problem, schedule: Schedule, watts: float, bound: float) -> PowerPlan | None:
    """The shortest period of a placement with no more than so many watts in the mean, if any."""
    idle, above = idle_and_above(problem, schedule)
    period = shortest_period(schedule.value, idle, above, watts)
    if period is None:
        return None
    return PowerPlan(problem, schedule, period, above + idle * period, bound)


def least_energy(problem: Problem, period: float, options: Options = Options(10.0)) -> PowerPlan:
    """The steady state of least energy with a batch every `period` seconds.

    Of periods so much longer than the work that there are no whole numbers for their joules the
    longest that has some is solved, and its plan runs at the period that is asked for: see
    `_at_longer` for what is proven then. For errors see `most_throughput`.
    """
    _check(problem, period, "seconds")
    longest = longest_whole(instance_of(problem), choose_ticks(problem, period), period)
    if longest >= period or longest < all_work(instance_of(problem)):
        return _least_energy(problem, period, options)
    return _at_longer(_least_energy(problem, longest, options), period)


def _at_longer(plan: PowerPlan, period: float) -> PowerPlan:
    """A plan of least energy in Q at a longer period Q'; both are longer than all work.

    A placement takes E(Q) = A + I Q joules, A above idling and I watts idle. If none takes less
    than B in Q, and A is at most M (every device at work for all work one by one), then I is at
    least (B - M) / Q, and E(Q') = E(Q) + I (Q' - Q) at least B + (Q' - Q) (B - M) / Q.
    """
    problem, most = plan.problem, sum_watts(plan.problem) * all_work(instance_of(plan.problem))
    idle = max(0.0, plan.bound - most) / plan.period
    return replace(
        plan,
        period=period,
        joules=energy_of(problem, plan.schedule, period),
        bound=plan.bound + idle * (period - plan.period),
    )


def _least_energy(problem: Problem, period: float, options: Options) -> PowerPlan:
    """The same for a period of which the program has whole numbers."""
    instance, ticks = instance_of(problem), choose_ticks(problem, period)
    budget, bound = CpsatBudget.of(options, options.clock()), 0.0
    most, what = period * (1 + TOLERANCE), f"a batch every {format_seconds(period)}"
    # The second time without room for rounding: a plan may be found, and nothing is proven.
    for exact, tries in ((False, _MOST_CUTS), (True, 1)):
        model = PowerModel(instance, ticks, period)
        model.fix_period(period, 0.0 if exact else ticks.slack)
        for _ in range(tries):
            outcome = run(model.model, options, budget, 1.0 if exact else _SHARE, linear=2)
            sure = problem.batch == 1 and not exact
            _refuse(outcome, problem, options, what, sure=sure)
            if _proves(model) and not exact:
                bound = max(bound, bound_spending(as_energy(problem), ticks, outcome.bound))
            placement = model.read(outcome.solver)
            schedule = _write(instance, placement, options)
            if schedule.value <= most:
                joules = energy_of(problem, schedule, period)
                return PowerPlan(problem, schedule, period, joules, bound)
            model.forbid_overload(placement, most)
    raise SolverError(
        f"no placement was found within {format_seconds(period)} that keeps it by more than "
        "rounding; allow a thousandth more"
    )


def _check(problem: Problem, number: float, what: str) -> None:
    objective = problem.objective
    if objective.kind != "throughput" or objective.contiguous:
        stages = " of contiguous stages" if objective.contiguous else ""
        raise UsageError(
            f"watts in a steady state are for throughput, not for {objective.kind}{stages}"
        )
    if not 0 < number < math.inf:
        raise UsageError(f"expected {what} above 0, got {number!r}")
    if problem.has_energies:
        raise UsageError(
            "watts in a steady state are counted by those of devices; leave 'energy' out of the "
            f"tasks of {problem.name!r}, or ask for the energy of a batch"
        )
    as_energy(problem)  # says which device lacks watts
    check_teams(problem.platform, objective, "cpsat")
    if all_work(instance_of(problem)) == 0:
        raise UsageError(f"nothing of {problem.name!r} takes any time; say in 'costs' what does")


def _timeless(problem: Problem) -> UsageError:
    return UsageError(
        f"the tasks of {problem.name!r} can be placed so that a batch takes no time, so that no "
        "period is the shortest; say in 'costs' what they take"
    )


def _refuse(
    outcome: CpsatOutcome, problem: Problem, options: Options, what: str, *, sure: bool
) -> None:
    """Raise if nothing was found; `sure`: what the program has no solution of there is none of."""
    if outcome.infeasible:
        raise InfeasibleError(
            f"no placement of {problem.name!r} keeps {what}, its memory and its links; allow "
            "more, or add devices or levels",
            proven=sure,
        )
    if not outcome.found:
        limit = format_seconds(options.time_limit)
        raise SolverError(f"no placement was found within {limit}; give it more time")


def _proves(model: PowerModel) -> bool:
    return model.instance.problem.batch == 1 and model.spending.whole


def _write(instance: Instance, placement: Sequence[int], options: Options) -> Schedule:
    """One period of a placement, judged."""
    problem = instance.problem
    steps = write_period(instance, placement)
    return verified(problem, make_schedule(problem, "power", *steps, seed=options.seed))
