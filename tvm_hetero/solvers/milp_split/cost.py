"""Cost by modules: for each set of devices the least latency on them.

A schedule of length T that uses the devices D costs price(D) T, so with M(D) the least latency of
the problem in which only D runs anything

    cost  =  min over D of  price(D) M(D)        over the sets with M(D) <= limit

M(D) comes from the chain of modules (`chain_table`), whose bounds know when a set cannot become
better than what is known: the sets go by price(D) x the critical path on D, the least first.
Hops over devices that run nothing cost too, which the values know and the bounds leave out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.lists.partial_schedule import solution
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.solvers.milp_split.energy import subsets
from tvm_hetero.solvers.milp_split.module_bounds import CLOSED
from tvm_hetero.solvers.timing.timing import to_schedule
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import modules_of

_ROUNDING = 1 - 1e-11
# By how much a latency limit may be exceeded.
_TOLERANCE = 1e-9
# Of the work that is left, what one set may take.
_PART = 0.4


@dataclass(eq=False)
class _Set:
    """Devices with their price a second, the problem on them, and what is proven of it (money)."""

    price: float
    instance: Instance
    chain: TableChain
    low: float


def least_cost(
    instance: Instance, options: Options, budget: CpsatBudget, start: Schedule | None
) -> tuple[Schedule | None, float]:
    """The best schedule that is found, from a start, and what is proven of all.

    For an instance for which `cut_is_exact`, with few devices.
    """
    problem = instance.problem
    limit = problem.objective.latency_limit or math.inf
    used = sorted({d for row in instance.devices for d in row})
    found = [_on(problem, devices) for devices in subsets(used)]
    sets = [own for own in found if own is not None]
    best, high = start, math.inf if start is None else start.value
    for own in sorted(sets, key=lambda one: one.low):
        if own.low >= high * (1 - 0.1 * OPTIMAL_GAP):
            continue
        # Above the limit by more than what counts as closed: a bound that lies on the limit must
        # not end the search, since devices that are free would then leave a bound of nothing.
        most = min(high / own.price if own.price > 0 else math.inf, limit * (1 + 2 * CLOSED))
        share = CpsatBudget(_PART * budget.work, budget.deadline)
        granted = share.work
        own.chain.close(options, share, most)
        budget.work -= granted - share.work
        low, _ = own.chain.best(low=True)
        own.low = max(own.low, own.price * low * _ROUNDING)
        if low * _ROUNDING > limit * (1 + _TOLERANCE):
            own.low = math.inf
            continue
        schedule = _schedule(problem, own, options)
        if schedule.value < high and within_limit(problem, schedule.executions):
            best, high = schedule, schedule.value
    return best, min((own.low for own in sets if own.low < math.inf), default=0.0)


def _on(problem: Problem, devices: tuple[int, ...]) -> _Set | None:
    """The set; None if it cannot run everything."""
    names = [problem.platform.names[d] for d in devices]
    costs = {
        task: {name: cost for name, cost in row.items() if name in names}
        for task, row in problem.costs.items()
    }
    if not all(costs.values()):
        return None
    objective = Objective("latency", problem.batch)
    try:
        instance = Instance(replace(problem, costs=costs, objective=objective))
    except InfeasibleError:
        return None
    chain = TableChain(instance, modules_of(instance))
    price = math.fsum((problem.platform.devices[d].price or 0.0) / 3600 for d in devices)
    return _Set(price, instance, chain, price * chain.best(low=True)[0] * _ROUNDING)


def _schedule(problem: Problem, own: _Set, options: Options) -> Schedule:
    best = solution(own.instance, *own.chain.join())
    executions, copies = to_schedule(best.plan, [s for s, _ in best.times])
    return make_schedule(problem, "milp-split", executions, copies, seed=options.seed)
