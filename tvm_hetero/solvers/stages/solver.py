"""Contiguous stages by the whole ladder, from what takes a moment to what takes the time.

    1. `linear_dp`      any graph, in a second                     a plan
    2. `ideals_dp`      where the ideals are few                   a bound, mostly of the same value
    3. `device_orders`   few devices: a program for each order      a plan and a bound, mostly equal
    4. annealing        of many devices                            a plan
       `near_plan`      programs over ideals around it, and annealing, cold, in turns
    5. CP-SAT           `pipeline_model`, from the best plan       a bound for what is small

Each rung stops the climb when its value meets the bound. How many ideals are few follows from the
time limit, so that a run can be repeated; between pieces of each rung the clock is looked at. For
throughput without contiguous stages the plan is found in the same way, but only CP-SAT's rung of
`cpsat.throughput` bounds it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.cpsat import throughput as cpsat_throughput
from tvm_hetero.solvers.search.stage_annealing import COLD, LONG, WARM, anneal_stages
from tvm_hetero.solvers.stage_dp.ideals_dp import (
    MOST_IDEALS,
    MOST_LISTED,
    all_ideals,
    stage_bound,
)
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.stage_dp.stage_dp import best_plan, check_kind
from tvm_hetero.solvers.stages.device_orders import search_orders
from tvm_hetero.solvers.stages.near_plan import improve_near
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import placement_of, write_period
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance, instance_of

# Executions x devices x stages that the model of CP-SAT may have for each second of the time
# limit. It takes 40 microseconds for each to be made, and no one looks at the clock meanwhile.
_CELLS_A_SECOND = 5_000
# Ideals for each second of the time limit, and most of them where nothing but work counts.
_IDEALS_A_SECOND, _MOST_PLAIN = 1_500, 20_000
# Ideals that are listed for each second of it, of which the best value leaves out most.
_LISTED_A_SECOND = 6_000
# Rounds of programs over ideals near a plan for each second of the limit, and steps of the annealer
# between such rounds, in parts of those before.
_ROUNDS_A_SECOND, _COLD_STEPS = 0.2, 0.25
# Ideals times parts and tensors, which go into tables of up to 8 bytes each.
_MOST_ENTRIES = 80_000_000


def solve(problem: Problem, options: Options) -> Schedule:
    """Place contiguous stages; proven where the objective asks for them.

    Raises
    ------
    UsageError
        If the objective is not throughput.
    InfeasibleError
        If no contiguous stages fit (proven).
    SolverError
        If the time ran out before the first plan.
    """
    check_kind(problem, "stages")
    began = now()
    contiguous = replace(problem.objective, contiguous=True)
    staged = problem.with_objective(contiguous)
    own = options.start if problem.objective.contiguous else None
    climb = _Climb(staged, replace(options, start=own), CpsatBudget.of(options, began))
    try:
        answer = climb.run()
    except InfeasibleError as error:
        # Of stages alone; other placements there may be.
        proven = error.proven and problem.objective.contiguous
        raise InfeasibleError(str(error), proven=proven) from error
    if problem.objective.contiguous:
        return answer
    return replace(answer, problem=problem.digest, lower_bound=0.0)


class _Climb:
    """The ladder at the head of this file, and the best plan and bound so far."""

    def __init__(self, problem: Problem, options: Options, budget: CpsatBudget) -> None:
        self.problem, self.options, self.budget = problem, options, budget
        self.instance = instance_of(problem)
        self.best = options.start
        self.plan = _placement(self.instance, options.start)
        self.bound = 0.0

    def run(self) -> Schedule:
        """All rungs.

        Raises
        ------
        HeteroError
            If none finds a plan: what CP-SAT says.
        """
        with suppress(SolverError):
            self._take(linear_plan(self.instance, math.inf, self.budget.deadline))
        self._ideals(MOST_IDEALS if self.instance.contended else _MOST_PLAIN)
        ordered = self._open() and self._orders()
        if self._open() and not ordered:
            self._anneal()
        if self.best is None:
            return self._exact(None)
        best = replace(self.best, lower_bound=self.bound)
        if self._open() and not ordered and self._affordable():
            with suppress(HeteroError):
                return self._exact(best)
        return best

    def _open(self) -> bool:
        """Whether there is a plan, and a gap."""
        best = self.best
        return best is not None and best.value - self.bound > OPTIMAL_GAP * best.value

    def _affordable(self) -> bool:
        """Whether a model for CP-SAT is made in a fifth of the time, and of what is left."""
        cells = len(self.instance) * len(self.instance.names) ** 2
        left = self.budget.deadline - now()
        return cells <= _CELLS_A_SECOND * min(self.options.time_limit, left)

    def _ideals(self, most: int) -> None:
        """All ideals, if they are few."""
        most = self._most_ideals(most)
        known = math.inf if self.best is None else self.best.value
        listed = math.ceil(self.options.time_limit * _LISTED_A_SECOND)
        listed = min(MOST_LISTED, listed, self._most_rows())
        with suppress(SolverError):
            family = all_ideals(self.instance, most, known=known, listed=listed)
            plan, chain = best_plan(self.instance, family, known, self.budget.deadline)
            self.bound = max(self.bound, stage_bound(self.problem, family, chain))
            self._take(plan)

    def _most_ideals(self, most: int) -> int:
        """So many ideals, or fewer where time or tables do not allow them."""
        within = math.ceil(self.options.time_limit * _IDEALS_A_SECOND)
        return min(most, within, self._most_rows())

    def _most_rows(self) -> int:
        return _MOST_ENTRIES // max(1, len(self.instance) + len(self.instance.tensors))

    def _orders(self) -> bool:
        """A program for each order of devices; whether they are few enough."""
        if self.plan is None:
            return False
        found = search_orders(self.instance, self.plan, self.options, self.budget.deadline)
        if found is None:
            return False
        if self.problem.batch == 1:
            self.bound = max(self.bound, found.bound)
        self._take(found.placement)
        return True

    def _anneal(self) -> None:
        """Annealing, then what is near its plan; where nothing comes after, again, cold."""
        self._anneal_near(WARM, LONG)
        if self._open() and not self._affordable():
            self._anneal_near(COLD, int(_COLD_STEPS * LONG))

    def _anneal_near(self, heat: float, steps: int) -> None:
        if self.plan is not None:
            args = self.instance, self.plan, self.options, self.budget.deadline, steps, heat
            self._take(anneal_stages(*args))
            self._near()

    def _near(self) -> None:
        """The best chains of ideals around the plan."""
        if self.plan is None:
            return
        self._take(
            improve_near(
                self.instance,
                self.plan,
                most=self._most_ideals(MOST_IDEALS),
                rounds=max(1, int(_ROUNDS_A_SECOND * self.options.time_limit)),
                seed=self.options.seed,
                deadline=self.budget.deadline,
            )
        )

    def _exact(self, best: Schedule | None) -> Schedule:
        exact = cpsat_throughput.solve(self.problem, self.options, best, self.budget)
        return replace(exact, solver="stages", lower_bound=max(self.bound, exact.lower_bound))

    def _take(self, plan: list[int] | None) -> None:
        """Keep a plan if it is better."""
        if plan is None:
            return
        executions, copies = write_period(self.instance, plan)
        found = make_schedule(self.problem, "stages", executions, copies, seed=self.options.seed)
        if self.best is None or found.value < self.best.value:
            self.best, self.plan = found, plan
        else:
            self.best = replace(self.best, solver="stages")


def _placement(instance: Instance, start: Schedule | None) -> list[int] | None:
    """The placement of a start that runs every task once, in valid stages; None otherwise."""
    placement = placement_of(instance, start)
    if placement is None or exact_value(instance, placement) == math.inf:
        return None
    return placement
