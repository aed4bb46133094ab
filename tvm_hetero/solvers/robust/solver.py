"""Plans for costs that are not exactly known: how good a plan stays, and plans that stay good.

Costs are measured or modelled, and off by some per cent. `assess` times a plan again in samples of
costs that are off by up to a share r (`samples`, `evaluate`): placement and order are
kept, as a runtime keeps them. `solve` also looks for a plan with a small mean or worst value:

    1  the plan for the costs as they are (half of the time)
    2  plans for four samples of the costs, annealed from it: what is best when costs are otherwise
    3  local search over all training samples, from the best of these (`local_search`)

and takes, of all of them, the one whose mean (for the worst: mean of the largest tenth) over the
training samples is smallest.
What is *said* of the plan comes from fresh samples, which no plan was fitted to: the mean over
training samples is too good by what the search has learned by heart. This is sample average
approximation (A. J. Kleywegt, A. Shapiro, T. Homem-de-Mello, SIAM J. Optim. 12(2), 2002,
doi:10.1137/S1052623499363220), and for the worst value its scenario counterpart.

A robust plan is a valid schedule of the problem itself; its value and its bound are those of the
costs as they are. "Worst" is that of the samples, not of all costs that could be.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Robustness, Schedule
from tvm_hetero.solvers import run_solver
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.verified_call import solve_verified
from tvm_hetero.solvers.robust.evaluate import values_of
from tvm_hetero.solvers.robust.local_search import (
    GOALS,
    Goal,
    RobustEffort,
    decodes_in,
    improve,
    total,
)
from tvm_hetero.solvers.robust.samples import TRAINING, Samples
from tvm_hetero.solvers.search import annealing
from tvm_hetero.solvers.timing.decomposed_schedule import replay
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.solvers.timing.timing import make_plan, retime, to_schedule
from tvm_hetero.util.search_clock import now

# Shares of the time limit: the plan for the costs as they are, and those of the samples together;
# local search takes what is left.
_PLAIN, _SAMPLED = 0.5, 0.25
# Plans of so many samples are tried; over so many samples the winner is chosen; so many (the first
# of these) guide the local search.
_PLANS, _JUDGES = 4, 400
_GUIDES: dict[Goal, int] = {"mean": 24, "worst": 48}
# Of large problems fewer samples guide: each is a problem of its own in memory.
_MOST_TASKS = 400_000


@dataclass(frozen=True)
class RobustRequest:
    """What is asked for.

    Attributes
    ----------
    perturbation : by which share costs may be off, at most.
    goal : what to minimise: "mean" or "worst"; None leaves the plan as it is.
    samples : how many fresh samples the plan is judged on.
    """

    perturbation: float
    goal: Goal | None = None
    samples: int = 100

    def __post_init__(self) -> None:
        if self.goal is not None and self.goal not in GOALS:
            raise UsageError(f"robust: expected goal mean or worst, got {self.goal!r}")
        self.fresh(0)

    def fresh(self, seed: int) -> Samples:
        """The samples that plans are judged on."""
        return Samples(self.perturbation, self.samples, seed)

    def training(self, seed: int, count: int) -> Samples:
        """The first `count` samples that plans are fitted to."""
        return Samples(self.perturbation, count, seed, TRAINING)


def assess(problem: Problem, schedule: Schedule, samples: Samples) -> Schedule:
    """A valid schedule of `problem` with what it is worth over samples of the costs beside it."""
    found = values_of(problem, schedule, samples)
    robust = Robustness(
        samples.perturbation, samples.count, samples.seed, found.mean, found.worst, found.late
    )
    return replace(schedule, robust=robust)


def solve(
    problem: Problem, request: RobustRequest, solver: str = "auto", options: Options | None = None
) -> Schedule:
    """Solve a problem, and say what the plan is worth when costs are off.

    Parameters
    ----------
    request : by how much costs are off, and whether to minimise the mean or the worst value.
    solver, options : as for `run_solver.solve`; the time limit covers all steps.

    Returns
    -------
    A verified schedule with `robust` filled in. With a goal its value may be worse than that of
    the plain plan; its bound is the plain one's, proven for the costs as they are.

    Raises
    ------
    As `run_solver.solve`.
    """
    options = Options() if options is None else options
    plain_options = options
    if request.goal is not None:
        plain_options = replace(options, time_limit=_PLAIN * options.time_limit)
    answer = run_solver.solve(problem, solver, plain_options)
    if request.goal is not None:
        answer = fit(problem, answer, request, replace(
            options, time_limit=options.time_limit - plain_options.time_limit, start=None
        ))  # fmt: skip
    return assess(problem, answer, request.fresh(options.seed))


def fit(problem: Problem, plain: Schedule, request: RobustRequest, options: Options) -> Schedule:
    """The plan with the smallest mean or worst value that `options.time_limit` finds.

    Parameters
    ----------
    plain : a verified schedule of `problem`, which is the answer where none is better.

    Raises
    ------
    UsageError
        If the request names no goal.
    """
    if request.goal is None:
        raise UsageError("robust: expected goal mean or worst, got none")
    began = time.perf_counter()
    deadline = options.until(options.clock())
    judges = request.training(options.seed, _JUDGES)
    sampled = replace(options, time_limit=options.time_limit * _SAMPLED / (1 - _PLAIN) / _PLANS)
    plans = [plain, *_sampled_plans(problem, plain, request, sampled, deadline)]
    totals = [_judged(problem, plan, judges, request.goal) for plan in plans]
    best = plans[_first(totals)]
    count = max(_PLANS, min(_GUIDES[request.goal], _MOST_TASKS // len(problem.tasks)))
    guides = list(request.training(options.seed, count).problems(problem))
    share = options.time_limit * (1 - _SAMPLED / (1 - _PLAIN))
    decodes = decodes_in(problem, len(best.executions), share)
    effort = RobustEffort(decodes, deadline, options.seed)
    improved = improve(problem, best, guides, request.goal, effort)
    for plan in _verified(problem, improved, options) if improved is not best else []:
        plans.append(plan)
        totals.append(_judged(problem, plan, judges, request.goal))
    best = plans[_first(totals)]
    if best is plain:
        return plain
    answer = replace(
        best,
        solver=f"{plain.solver} (robust {request.goal})",
        lower_bound=min(plain.lower_bound, best.value),
        best_single_device=plain.best_single_device,
        seed=plain.seed,
        seconds=plain.seconds + time.perf_counter() - began,
    )
    return replace(answer, status="optimal" if answer.gap <= OPTIMAL_GAP else "feasible")


def _judged(problem: Problem, plan: Schedule, judges: Samples, goal: Goal) -> float:
    return total(goal, values_of(problem, plan, judges).values)


def _first(totals: Sequence[float]) -> int:
    """Position of the smallest; of equals the first, which is the plainer plan."""
    return min(range(len(totals)), key=lambda i: (totals[i], i))


def _sampled_plans(
    problem: Problem, plain: Schedule, request: RobustRequest, options: Options, deadline: float
) -> list[Schedule]:
    """Plans that are good in one sample each, as schedules of the problem itself."""
    plans: list[Schedule] = []
    for sample in request.training(options.seed, _PLANS).problems(problem):
        if now() > deadline:
            break
        # Where limits are tight, what a sample wants may be no schedule of the problem.
        with suppress(HeteroError):
            start = retime_for(problem, plain, sample)
            answer = annealing.solve(sample, replace(options, start=start))
            plans += _verified(problem, retime_for(sample, answer, problem), options)
    return plans


def retime_for(problem: Problem, schedule: Schedule, other: Problem) -> Schedule:
    """A schedule of `problem` as one of `other`, which has other costs: same placement and order.

    A latency limit that the costs of `other` break is not looked at.
    """
    again = replay(problem, schedule, perturbed=other)
    instance, plan = again.instance, make_plan(again.instance, again.plan.placement)
    if other.objective.kind == "throughput":
        executions, copies = write_period(instance, plan.placement)
    else:
        executions, copies = to_schedule(plan, retime(plan, again.keys))
    return make_schedule(other, schedule.solver, executions, copies, seed=schedule.seed)


def _verified(problem: Problem, schedule: Schedule, options: Options) -> list[Schedule]:
    """The schedule, if it is valid."""
    with suppress(HeteroError):
        return [solve_verified(problem, "robust", lambda *_: schedule, options)]
    return []
