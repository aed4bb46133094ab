"""CP-SAT on one module, with its ends where they are or free at a price.

With prices a_i and b_j (s) for the devices of a module's ends, the model minimises

    T + a_i + b_j    over all i, j and all schedules with the first part on i, the last on j

and a bound L of that is one of every entry: M(i, j) >= L - a_i - b_j. In ticks the prices are
rounded down, so the bound holds as it does without them (see `core.integer_scaling`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.solvers.core.integer_scaling import FINE
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.cpsat.batch import resolution, too_large
from tvm_hetero.solvers.cpsat.model import BatchModel
from tvm_hetero.solvers.lists.partial_schedule import Solution, solution
from tvm_hetero.solvers.milp_split.valid_inequalities import add_cuts
from tvm_hetero.views.modularity import Piece

# Parts above which no model of a whole module has ever said more than its critical path.
_MOST_PARTS = 1_500
# (part, device) -> price, s.
Prices = Mapping[tuple[int, int], float]


def search(
    piece: Piece,
    best: Solution,
    options: Options,
    budget: CpsatBudget,
    *,
    linear: int,
    prove: bool,
    prices: Prices | None = None,
    quick: bool = False,
) -> tuple[Solution | None, float]:
    """Search from `best`: a solution, and a bound of the least makespan plus prices, s.

    The bound is -inf where nothing is proven. `quick` as for `cpsat_run.run`.
    """
    if too_large_to_prove(piece) or budget.exhausted():
        return None, -math.inf
    ticks = resolution(piece, best.value, FINE)
    starts, moved, horizon = best.in_ticks(ticks)
    paid = {key: math.floor(price * ticks.per_second) for key, price in (prices or {}).items()}
    # No better solution takes longer than what the cheapest ends would leave for it.
    most = horizon + sum(paid.get((v, d), 0) for v, d in enumerate(best.placement))
    horizon = max(horizon, most - _least(paid))
    model = BatchModel(piece, ticks, horizon)
    extra = sum(price * model.x[key] for key, price in paid.items() if key in model.x)
    model.model.minimize(model.makespan + extra)
    model.hint(best.placement, starts, moved)
    if prove:
        add_cuts(model)
    outcome = run(model.model, options, budget, linear=linear, prove=prove, quick=quick)
    bound = (outcome.bound - ticks.slack) / ticks.per_second if model.exact else -math.inf
    if not outcome.found:
        return None, -math.inf
    placement, starts, hops = model.read(outcome.solver.value)
    spans = [(s, s + model.run(v, placement[v])) for v, s in enumerate(starts)]
    times = {(t, hop): (s, s + model.hop(t, hop)) for (t, hop), s in hops.items()}
    return solution(piece, placement, spans, times), bound


def too_large_to_prove(piece: Piece) -> bool:
    """Whether a model of the whole piece would take long and say nothing."""
    return len(piece) > _MOST_PARTS or too_large(piece)


def _least(paid: Mapping[tuple[int, int], int]) -> int:
    """The least that the ends can cost in all."""
    least: dict[int, int] = {}
    for (v, _), price in paid.items():
        least[v] = min(least.get(v, price), price)
    return sum(least.values())
