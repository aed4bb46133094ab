"""The cheapest day, by an exact program that begins with hours alone.

1. Each hour alone (`hours`): bounds of what its machines cost, and plans.
2. Those plans one after the other (`chain`): a day to begin from, if the judge takes it.
3. The program of the day (`day_model`) with the hours' bounds as limits, solved by CP-SAT. Its
   bound is that of the search, or the sum of the hours', whichever is higher.

A day in which nothing moves has one decision for all hours; only hours below no other one count.

Time goes in thousandths: a plan that divided it finer might do with less, and is none of this
problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_hetero.errors import SolverError, SolverFault
from tvm_hetero.planning.sharing.chain import chain_hours
from tvm_hetero.planning.sharing.day_model import DayModel, no_day
from tvm_hetero.planning.sharing.hours import HourTable, is_below
from tvm_hetero.planning.sharing.judge import judge
from tvm_hetero.planning.sharing.problem import DayPlan, SharingPolicy, SharingProblem
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.util.search_clock import now

# Of the time, what an hour alone may take.
_HOUR_SHARE = 0.1


@dataclass(frozen=True)
class SharedDay:
    """A plan of a day: what it costs and what no plan of the policy is below, in millionths."""

    plan: DayPlan
    value: int
    bound: int

    @property
    def gap(self) -> float:
        """How far the value may be from the best one, as a share of it."""
        return (self.value - self.bound) / self.value if self.value else 0.0


def solve_day(
    problem: SharingProblem, policy: SharingPolicy, options: Options, table: HourTable | None = None
) -> SharedDay:
    """The cheapest day of a policy that was found, with its bound.

    `table` keeps what is known of hours from one call to the next.

    Raises
    ------
    InfeasibleError
        If there is none.
    SolverError
        If none was found in the time.
    """
    if not policy.moving:
        return _standing_day(problem, policy, options)
    table = table or HourTable(problem, policy)
    each = replace(options, time_limit=_HOUR_SHARE * options.time_limit)
    hours = table.look_up(problem.need, each)
    start = None
    if all(hour.plan for hour in hours):
        start = _taken(problem, policy, chain_hours(problem, hours))
    return _search(problem, policy, options, [hour.floor for hour in hours], start)


def _taken(problem: SharingProblem, policy: SharingPolicy, plan: DayPlan) -> SharedDay | None:
    """A day to begin from; None where the judge does not take it (weights that have no room)."""
    try:
        return SharedDay(plan, judge(problem, plan, policy), 0)
    except SolverFault:
        return None


def _search(
    problem: SharingProblem,
    policy: SharingPolicy,
    options: Options,
    floors: list[int],
    start: SharedDay | None = None,
) -> SharedDay:
    """The program of all hours."""
    program = DayModel(problem, policy)
    program.limit_hours(floors)
    if start is not None:
        program.hint(start.plan)
    program.model.minimize(program.cost())
    outcome = run(program.model, options, CpsatBudget.of(options, now()), linear=2)
    if outcome.infeasible:
        raise no_day(problem, policy)
    bound = max(math.ceil(outcome.bound - 1e-6), sum(floors))
    found = start
    if outcome.found:
        plan, said = program.plan(outcome.solver), round(outcome.solver.objective_value)
        value = judge(problem, plan, policy)
        # A search that ends early may pay for starts and loads that there are none of.
        if not bound <= value <= said:
            raise SolverFault(f"sharing: a day for {said} of at least {bound} costs {value}")
        if found is None or value < found.value:
            found = SharedDay(plan, value, 0)
    if found is None:
        raise SolverError("sharing: no plan of the day was found in the time; give it more")
    return replace(found, bound=min(found.value, bound))


def _standing_day(problem: SharingProblem, policy: SharingPolicy, options: Options) -> SharedDay:
    """Nothing moves: the hours that are below no other one decide, and tell the others' time."""
    needs = list(dict.fromkeys(problem.need))
    top = [n for n in needs if not any(n != other and is_below(n, other) for other in needs)]
    day = _search(replace(problem, need=tuple(top)), policy, options, [])
    of = {n: next(k for k, other in enumerate(top) if is_below(n, other)) for n in needs}
    scale = len(problem.need)
    # All hours of the day cost what one of them does.
    return SharedDay(
        tuple(day.plan[of[need]] for need in problem.need),
        day.value // len(top) * scale,
        -(-day.bound // len(top)) * scale,
    )
