"""Throughput by modules: plans and proofs by turns, until they meet or the work is used up.

With U the value of the best plan and L what is proven, labels (`lagrangian.probe`) are asked for
a plan below a target t between L and U. The answer is that there is none, and L = t; or plans, and
U is the value of the best; or neither, since labels were merged. So

    prices        L                                              -> `lagrangian.best_weights`
    start         the start that is given, a list schedule, rounded shares, or labels; annealed;
                  where memory binds also CP-SAT on the whole graph, for half of the time
    hunt          t = (L + U) / 2, then nearer to U where that was settled and nearer to L where
                  it was not; with more labels when that leads nowhere          -> `Hunt.run`
    annealing     from the best plan; then the hunt goes on

All of it is counted work. Where a module has too many placements, where stages are asked for (rule
8: whether they form a pipeline is no sum over modules), or where labels find no plan at all, the
whole graph goes to CP-SAT. A batch may be divided, which no column knows: no bound is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

from tvm_hetero.bounds.core.time_is_up import TimeIsUp
from tvm_hetero.bounds.throughput.module_columns import ColumnChain, throughput_chain
from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.cpsat_run import WORK_PER_SECOND, CpsatBudget
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.cpsat import throughput as cpsat_throughput
from tvm_hetero.solvers.lists import best_single, heft
from tvm_hetero.solvers.milp_split.labels import WORK_A_SECOND
from tvm_hetero.solvers.milp_split.lagrangian import Multipliers, Probe, best_weights, probe
from tvm_hetero.solvers.search.load_annealing import MOST_PLACES, anneal_loads, places
from tvm_hetero.solvers.throughput.class_rounding import share_plan
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import placement_of, write_period
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.task_classes import shares_of

# Labels at one cut and device, when the interval is gone through for the first, second, ... time.
_WIDTHS = (300, 1_000, 3_000, 10_000, 30_000)
# A target this much below the best plan: what is then proven is optimal.
_BELOW = 1 - 0.1 * OPTIMAL_GAP
# The part of the interval that is tried first, and the part that is too little to try.
_FIRST, _LITTLE = 0.5, 0.1
# Work of hunts for each second of the limit; of it and of the limit's annealing, parts for each.
_WORK = 0.8 * WORK_A_SECOND
_HUNTS = ((0.1, 0.1), (0.5, 0.3), (0.8, 0.6))
# Starts that are annealed.
_MOST_STARTS = 2
# Of the limit, what CP-SAT has where memory binds: there labels know too little of what fits.
_WHOLE = 0.5
NAME = "milp-split"
# Of the clock, what annealing may take; it counts its own steps.
_CLOCK = 0.4
Ask = Callable[[float, int, int], Probe]


def solve(problem: Problem, options: Options, start: Schedule | None) -> Schedule | None:
    """The best plan by modules; None where modules do not help (see the head).

    Raises
    ------
    InfeasibleError
        If it is proven that no placement fits.
    SolverError
        If the time is up before there is a chain of modules, and there is no start.
    """
    if problem.objective.contiguous:
        return None
    until = now() + options.wall_limit
    instance = instance_of(problem)
    try:
        chain = throughput_chain(instance, lambda: now() > until)
    except TimeIsUp:
        if start is not None:
            return replace(start, lower_bound=0.0, status="feasible", seed=options.seed)
        raise SolverError(
            f"{NAME}: the time is up before the modules' placements are listed; raise the time "
            "limit"
        ) from None
    if chain is None:
        return None
    weights = best_weights(chain, late=lambda: now() > until)
    plans = _first_plans(problem, chain, weights, options, start)
    if not plans:
        return None
    ask = partial(probe, chain, weights, until=until)
    hunt = Hunt(instance, plans[0], weights.bound, ask, until)
    whole = any(instance.memory_binds) and places(instance) <= MOST_PLACES
    for turn, (effort, share) in enumerate(_HUNTS[: 2 if whole else None]):
        for i, plan in enumerate(plans):
            if hunt.closed or now() > until:
                break
            limit = max(1e-3, effort * options.time_limit / len(plans))
            left = _CLOCK * (until - now()) / (len(plans) - i)
            own = replace(options, time_limit=limit, deadline=None, seed=options.seed + turn)
            hunt.take([anneal_loads(instance, plan, hunt.low, own, left) or plan])
        if whole and turn == 0:
            _ask_cpsat(hunt, options)
        hunt.run(int(share * _WORK * options.time_limit))
        plans[:1] = [hunt.plan]
    bound = min(hunt.low, hunt.high) if problem.batch == 1 else 0.0
    if start is not None and start.value <= hunt.high:
        return replace(start, lower_bound=min(bound, start.value), seed=options.seed)
    return _schedule(hunt, options, bound)


def _schedule(hunt: Hunt, options: Options, bound: float) -> Schedule:
    """One period of the best plan."""
    executions, copies = write_period(hunt.instance, hunt.plan)
    return make_schedule(
        hunt.instance.problem, NAME, executions, copies, lower_bound=bound, seed=options.seed
    )


def _ask_cpsat(hunt: Hunt, options: Options) -> None:
    """CP-SAT on the whole graph, from the best plan."""
    if hunt.closed or now() > hunt.until:
        return
    problem = hunt.instance.problem
    budget = CpsatBudget(_WHOLE * WORK_PER_SECOND * options.time_limit, hunt.until)
    found = cpsat_throughput.solve(problem, options, _schedule(hunt, options, 0.0), budget)
    plan = placement_of(hunt.instance, found)
    hunt.take([] if plan is None else [plan])
    hunt.low = max(hunt.low, min(hunt.high, found.lower_bound))


@dataclass
class Hunt:
    """The best plan and its value `high`; `low` is proven (s); `ask` is `probe` of the chain."""

    instance: Instance
    plan: Sequence[int]
    low: float
    ask: Ask
    until: float = math.inf

    def __post_init__(self) -> None:
        self.high = exact_value(self.instance, self.plan)
        self.work, self.turn, self.part = 0, 0, _FIRST

    @property
    def closed(self) -> bool:
        """Whether the best plan is proven."""
        return self.high - self.low <= OPTIMAL_GAP * self.high

    def take(self, plans: Sequence[Sequence[int]]) -> bool:
        """Keep the best of some plans, if it is better."""
        before = self.high
        for plan in plans:
            value = exact_value(self.instance, plan)
            if value < self.high:
                self.plan, self.high = plan, value
        return self.high < before

    def run(self, work: int) -> None:
        """Narrow the interval until it is closed or the work is used up; another run goes on."""
        self.work = work
        while self._may() and self.turn < len(_WIDTHS):
            target = min(self.low + self.part * (self.high - self.low), self.high * _BELOW)
            answer = self._try(target, _WIDTHS[self.turn])
            if answer == "none":
                self.part = min(1.0, 2 * self.part)
            elif answer == "open" and self.work > 0:
                self.part /= 2
                if self.part < _LITTLE:
                    self.turn, self.part = self.turn + 1, _FIRST

    def _may(self) -> bool:
        return not self.closed and self.work > 0 and now() < self.until

    def _try(self, target: float, width: int) -> str:
        """Whether there is "none" below the target, or something "better", or it is "open"."""
        answer = self.ask(target, width, self.work)
        self.work -= answer.work
        self.low = max(self.low, min(answer.bound, self.high))
        if self.take(answer.plans):
            return "better"
        return "none" if self.low >= target * _BELOW else "open"


def _first_plans(
    problem: Problem,
    chain: ColumnChain,
    weights: Multipliers,
    options: Options,
    start: Schedule | None,
) -> list[Sequence[int]]:
    """The best plans that are quickly found, the best first; where nothing fits, by labels."""
    instance = chain.instance
    found = [
        placement_of(instance, start),
        share_plan(instance, shares_of(instance, rates(instance))),
    ]
    for other in (best_single.solve, heft.solve):
        with suppress(HeteroError):
            found.append(placement_of(instance, other(problem, options)))
    valued = [(exact_value(instance, plan), plan) for plan in found if plan is not None]
    valued = sorted((pair for pair in valued if pair[0] < math.inf), key=itemgetter(0))
    if valued:
        return [plan for _, plan in valued[:_MOST_STARTS]]
    if weights.bound == math.inf:
        raise InfeasibleError(
            "no path of links leads between the devices that tasks need", proven=True
        )
    target = 1.0 + math.fsum(float(table.load.max(initial=0.0)) for table in chain.tables)
    work = int(_WORK * options.time_limit)
    for width in _WIDTHS:
        answer = probe(chain, weights, target, width, work)
        work -= answer.work
        for plan in answer.plans:
            if exact_value(instance, plan) < math.inf:
                return [plan]
        if answer.bound >= target * _BELOW:
            raise InfeasibleError(
                "no placement keeps within memory (in steady state every tensor made on or copied "
                "to a device counts), whatever modules are put where (proven); add memory",
                proven=instance.problem.batch == 1,
            )
    return []
