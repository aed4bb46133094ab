"""MILP-SPLIT: every objective by modules, exact where cutting is, with a true gap everywhere.

After Y. Ghannane, M. S. Abdelfattah, DiviML: a module-based heuristic for mapping neural networks
onto heterogeneous platforms, ICCAD 2023, doi:10.1109/ICCAD57390.2023.10323837. The graph is cut at
articulations; equal modules are found: `tvm_hetero.views.modularity`.

Latency, with consecutive cuts a, b:

    M(i, j)   the least time from the end of a on i to the end of b on j
    D_b(j)  = min over i of D_a(i) + M(i, j)

    table     entries begin with bounds, the best chain's are solved    `chain_table.TableChain`
    entry     list schedule, annealing, CP-SAT, neighbourhood search    `module_bounds.BoundEntry`
    squeeze   limits below large modules' values are refuted            `tighten`, `infeasibility`
    whole     neighbourhoods that reach across the cuts                 `_polish`

Others: chains of *columns* (placements of a module) are priced, and labels keep what they take

    throughput   loads of devices and links, bytes of memory    `throughput`
    energy       energy and seconds, for every set of devices   `energy`
    cost         seconds, for every set of devices              `cost`
    memory       latency with bytes                             `memory.solver`

The chain's bound is claimed for one element; else that of `tvm_hetero.bounds`. What modules
cannot do goes to `cpsat`.

Derivation: docs/method/milp-split.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_hetero.bounds.throughput.module_columns import listable
from tvm_hetero.errors import SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.deadline import time_is_up
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.cpsat import solver as cpsat
from tvm_hetero.solvers.cpsat.large_neighbourhood import improve_by_windows
from tvm_hetero.solvers.lists.best_start import best_start
from tvm_hetero.solvers.lists.partial_schedule import Solution, list_schedule, of_schedule, solution
from tvm_hetero.solvers.memory import solver as memory_limits
from tvm_hetero.solvers.milp_split import throughput as split_throughput
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.solvers.milp_split.cost import least_cost
from tvm_hetero.solvers.milp_split.energy import MOST_DEVICES, least_energy
from tvm_hetero.solvers.milp_split.energy_columns import energy_chain
from tvm_hetero.solvers.timing.timing import to_schedule
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.modularity import cut_is_exact, modules_of

# The bound is a sum of many entries, each rounded.
_ROUNDING = 1 - 1e-12
# Of the work, what is kept back to improve the joined schedule.
_KEPT = 0.1
# Of the time for energy, cost and memory, what modules may take; CP-SAT on the whole graph has the
# rest.
SHARE_OF_MODULES = 0.7
NAME = "milp-split"


@dataclass(frozen=True)
class SplitAnswer:
    """The best solution of an instance, and a bound of all solutions of this instance (s)."""

    best: Solution
    low: float
    modules: int
    distinct: int


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve by modules, from `options.start` if there is one.

    Raises
    ------
    InfeasibleError
        If no schedule exists, or none was found by any means.
    SolverError
        If the time ran out before the first schedule.
    """
    return improve(problem, options, options.start, now())


def improve(problem: Problem, options: Options, start: Schedule | None, began: float) -> Schedule:
    """Solve from `start`; the time limit counts from `began` (of `now`) on."""
    kind = problem.objective.kind
    instance = instance_of(problem)
    if kind == "latency" and cut_is_exact(instance):
        return _by_modules(instance, options, start, CpsatBudget.of(options, began))
    if kind == "throughput":
        found = split_throughput.solve(problem, options, start)
        return replace(found, solver=NAME) if found else _whole(problem, options, start, began)
    known = None
    if kind in ("energy", "cost"):
        known = _spending(instance, options, start, began)
    elif any(instance.memory_binds):
        known = _within_memory(problem, options, start)
    if known is None:
        return _whole(problem, options, start, began)
    best, low = known
    if best is not None and best.value - low <= OPTIMAL_GAP * best.value:
        return replace(best, solver=NAME, lower_bound=min(low, best.value), seed=options.seed)
    left = max(0.01, options.until(began) - now())
    rest = replace(options, time_limit=(1 - SHARE_OF_MODULES) * options.time_limit, deadline=left)
    found = _whole(problem, rest, best, now())
    return replace(found, lower_bound=min(max(low, found.lower_bound), found.value))


def _whole(problem: Problem, options: Options, start: Schedule | None, began: float) -> Schedule:
    """CP-SAT on the whole graph."""
    start = start or best_start(problem, options)
    return replace(cpsat.improve(problem, options, start, began), solver=NAME)


def _within_memory(
    problem: Problem, options: Options, start: Schedule | None
) -> tuple[Schedule | None, float]:
    """The best schedule by prices of memory (`memory.solver`), and its bound.

    Raises
    ------
    InfeasibleError
        If it is proven that nothing fits.
    """
    try:
        found = memory_limits.solve(problem, share_of(options, start))
    except SolverError:
        return start, 0.0
    return found, found.lower_bound


def _spending(
    instance: Instance, options: Options, start: Schedule | None, began: float
) -> tuple[Schedule | None, float] | None:
    """The best schedule for energy or cost by modules, and a bound; None where they do not help."""
    problem = instance.problem
    if not helps(instance):
        return None
    start = start or best_start(problem, options)
    own = share_of(options, start)
    budget = CpsatBudget.of(own, began)
    if problem.objective.kind == "cost":
        best, low = least_cost(instance, own, budget, start)
    else:
        chain = energy_chain(instance)
        if chain is None:
            return None
        best, low = least_energy(chain, own, budget, start)
    return best, low if problem.batch == 1 else 0.0


def helps(instance: Instance) -> bool:
    """Whether the modules of an instance say anything of its objective (but for memory)."""
    objective = instance.problem.objective
    if objective.kind == "throughput":
        return not objective.contiguous and listable(instance)
    if not cut_is_exact(instance):
        return False
    if objective.kind == "latency":
        return True
    few = len({d for row in instance.devices for d in row}) <= MOST_DEVICES
    return few and (objective.kind == "cost" or listable(instance))


def share_of(options: Options, start: Schedule | None) -> Options:
    """The options without what is kept back for CP-SAT on the whole graph."""
    share = SHARE_OF_MODULES
    return replace(
        options,
        start=start,
        time_limit=share * options.time_limit,
        deadline=share * options.wall_limit,
    )


def _by_modules(
    instance: Instance, options: Options, start: Schedule | None, budget: CpsatBudget
) -> Schedule:
    problem = instance.problem
    known = None if start is None else of_schedule(instance, start)
    try:
        answer = solve_instance(instance, options, budget, known)
    except SolverError:
        if start is None or not time_is_up(options.ends):
            raise
        return replace(start, solver=NAME, lower_bound=0.0, status="feasible", seed=options.seed)
    bound = min(answer.low * _ROUNDING, answer.best.value) if problem.batch == 1 else 0.0
    if start is not None and start.value <= answer.best.value:
        return replace(start, solver=NAME, lower_bound=min(bound, start.value), seed=options.seed)
    executions, copies = to_schedule(answer.best.plan, [s for s, _ in answer.best.times])
    return make_schedule(problem, NAME, executions, copies, lower_bound=bound, seed=options.seed)


def solve_instance(
    instance: Instance, options: Options, budget: CpsatBudget, known: Solution | None = None
) -> SplitAnswer:
    """The least latency of an instance, divided or not, for which `cut_is_exact`.

    `known` is a solution to begin from; the answer is no worse.

    Raises
    ------
    SolverError
        If the time is up before every entry of the tables has its first bound.
    """
    chain = _chain_of(instance, options)
    if known is not None:
        chain.take(known)
    kept = _KEPT * budget.work if len(chain.modules) > 1 else 0.0
    budget.work -= kept
    chain.close(options, budget, math.inf if known is None else known.value)
    budget.work += kept
    low, _ = chain.best(low=True)
    best = solution(instance, *chain.join())
    if best.value - low > OPTIMAL_GAP * best.value:
        found = [best, list_schedule(instance), *([] if known is None else [known])]
        best = _polish(instance, min(found, key=lambda one: one.value), options, budget)
    elif known is not None and known.value < best.value:
        best = known
    return SplitAnswer(best, low, len(chain.modules), chain.distinct)


def _chain_of(instance: Instance, options: Options) -> TableChain:
    """The tables: of the last call for this instance in the same run, with what they know."""
    kept = options.notes.get(instance) if options.notes is not None else None
    if isinstance(kept, TableChain):
        kept.go_on()
        return kept
    chain = TableChain(instance, modules_of(instance), options.ends)
    if options.notes is not None:
        options.notes[instance] = chain
    return chain


def _polish(instance: Instance, best: Solution, options: Options, budget: CpsatBudget) -> Solution:
    """Neighbourhoods that reach across the cuts, with what work is left."""
    if instance.contended:
        return best
    return improve_by_windows(instance, best, options, budget, 1.0) or best
