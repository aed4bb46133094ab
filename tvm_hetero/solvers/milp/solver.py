"""milp: DiviML's exact mixed-integer program, for one batch and for the steady state.

Y. Ghannane, M. S. Abdelfattah: DiviML: A Module-based Heuristic for Mapping Neural Networks onto
Heterogeneous Platforms, ICCAD 2023, arXiv:2308.00127.

The problem: place every task of a graph, for every element of a batch, on a device, and order
what each device does, such that the latency (or throughput, energy, cost) is least. DiviML's
variables are an assignment x[i, j, l] of task i's element l to device j, a batch-size choice
b[i, j, n] with a cost of its own for each n, starts, ends and pairwise orders. Here, besides:

=====================================================  =========================================
part of the model                                      added by
=====================================================  =========================================
which executions there may be, and what a proof says   `candidates`
modes (device, size), elements, colors, reads, moves,  `placement.Placement`
  hops once a producing execution
windows from heads and tails, horizon                  `time_windows`
starts, copies, data flow                              `timing.TimingConstraints`
one thing at a time, load cuts                         `disjunctions.Orders`
live tensors and weights within memory                 `memory.MemoryRows`
energy, cost; loads, steady memory, stages             `objective`
=====================================================  =========================================

What differs from the paper: copies are made once per producing execution and hop by hop, they
may occupy devices and links, memory is counted when something comes and goes, big-M terms are as
tight as heads and tails make them, and moves are a transport problem. For one element the model
is exact with every feature; for small batches too (`candidates`: a task may then have several
executions on one device, which DiviML does not allow); for larger batches DiviML's class is
solved, and no bound is claimed from it. DiviML's observation that this does not scale is confirmed
(see docs/scheduling.md): CP-SAT closes what no MILP does, so this solver is the baseline, and
the judge of others.

The answer is never worse than the start, and always retimed exactly (`extract_schedule`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.lists.best_start import best_start
from tvm_hetero.solvers.milp import backends
from tvm_hetero.solvers.milp.backends import Backend
from tvm_hetero.solvers.milp.candidates import (
    MOST_VARIABLES,
    choose_class,
    count_variables,
    is_exact,
    make_candidates,
)
from tvm_hetero.solvers.milp.disjunctions import Orders
from tvm_hetero.solvers.milp.extract_schedule import Timed, read_period, read_schedule
from tvm_hetero.solvers.milp.memory import MemoryRows
from tvm_hetero.solvers.milp.model import MilpModel
from tvm_hetero.solvers.milp.objective import LoadVariables, set_energy_or_cost
from tvm_hetero.solvers.milp.placement import Placement
from tvm_hetero.solvers.milp.time_windows import make_windows, prune
from tvm_hetero.solvers.milp.timing import TimingConstraints
from tvm_hetero.solvers.milp.warm_start import read_start
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.instance import instance_of

# A schedule that is better than the start by this much is worth a second run from there.
_WORTH = 0.7
# Rows of a memory at a moment (`MemoryRows.count`) that are built in a second.
_ROWS_A_SECOND = 10_000
# Pairs of activities that are looked at in the time of a row; most of them are in no one's way.
_PAIRS = 10


def solve(problem: Problem, options: Options) -> Schedule:
    """Solve with a MILP, from `options.start` or from the better of heft and single.

    Raises
    ------
    InfeasibleError
        If no schedule exists (proven where the class is exact), or none was found by any means.
    SolverError
        If the time ran out before the first schedule, the model is too large, or the backend
        failed and there is no start.
    UsageError
        If the backend that was asked for is unknown or not installed.
    """
    began = options.clock()
    backend = backends.pick(options.backend)
    start = options.start or best_start(problem, options)
    answer = _search(problem, options, start, backend, began)
    if answer.lower_bound < answer.value * (1 - OPTIMAL_GAP) and (
        start is None or answer.value < start.value * _WORTH
    ):
        # The horizon was far too wide, and with it every big-M and what tolerances amount to.
        again = _search(problem, options, answer, backend, began)
        bound = max(answer.lower_bound, again.lower_bound)
        answer = replace(again, lower_bound=min(bound, again.value))
    return answer


def _search(
    problem: Problem, options: Options, start: Schedule | None, backend: Backend, began: float
) -> Schedule:
    """Build the model around a start and run a backend on it, once."""
    program = MilpProgram(problem, start, options.time_limit * _ROWS_A_SECOND)
    if program.too_large:
        return _keep(problem, options, start, f"{len(program.instance)} tasks are too many")
    left = options.until(began) - options.clock()
    if left <= 0 or program.too_slow:
        limit = format_seconds(options.time_limit)
        return _keep(problem, options, start, f"{limit} are too short to build the model")
    outcome = backends.solve(program.model, backend, left, options.time_limit, options.seed)
    if outcome.infeasible and start is None:
        raise _no_schedule(problem, exact=program.exact)
    found = None
    if outcome.values is not None:
        timed = program.read(outcome.values)
        if timed is not None and within_limit(problem, timed[0]):
            found = make_schedule(problem, "milp", *timed, seed=options.seed)
    best = min((s for s in (start, found) if s), key=lambda s: s.value, default=None)
    if best is None:
        limit = format_seconds(options.time_limit)
        return _keep(problem, options, None, f"{backend} found nothing within {limit}")
    bound = program.bound(outcome.bound)
    if bound > best.value * (1 + OPTIMAL_GAP):
        # Refuted by a schedule: this solver's word is worth nothing here.
        bound = 0.0
    return replace(best, solver="milp", lower_bound=min(bound, best.value), seed=options.seed)


class MilpProgram:
    """The model of a problem, built from its parts.

    Attributes
    ----------
    exact : whether the model's bound is one of the problem.
    too_large, too_slow : whether it was not built, for its size or for want of time.
    unit : value (s, J, money) of one unit of the model's objective.
    """

    def __init__(
        self, problem: Problem, start: Schedule | None, most_rows: float = math.inf
    ) -> None:
        self.problem = problem
        self.instance = instance_of(problem)
        self.model = MilpModel()
        self.unit = 1.0
        self.too_slow = False
        kind = choose_class(self.instance)
        self.exact = False
        self.too_large = count_variables(self.instance, kind) > MOST_VARIABLES
        if self.too_large:
            return
        self.exact = is_exact(self.instance, kind)
        self.candidates = make_candidates(self.instance, kind)
        if problem.objective.kind == "throughput":
            self._build_period(start)
        else:
            self._build_batch(start, most_rows)

    def _build_batch(self, start: Schedule | None, most_rows: float) -> None:
        """Latency, energy and cost."""
        instance, kind = self.instance, self.problem.objective.kind
        windows = make_windows(instance, self.candidates, start)
        candidates = prune(instance, self.candidates, windows)
        known = read_start(instance, candidates, start)
        binds = any(instance.memory_binds)
        all_hops = binds or kind != "latency"
        self.placement = Placement(self.model, instance, candidates, known, all_hops=all_hops)
        busy = any(instance.resources(hop) for _, _, hop in self.placement.hops)
        self.timing = TimingConstraints(self.placement, windows, hops=binds or busy)
        self.orders = Orders(self.timing, _PAIRS * most_rows)
        self.too_slow = self.orders.count > _PAIRS * most_rows
        if self.too_slow:
            return
        self.memory = MemoryRows(self.timing, self.orders, most_rows)
        self.too_slow = self.memory.count > most_rows
        if self.too_slow:
            return
        if kind == "latency":
            self.model.objective, self.unit = self.timing.makespan, self.timing.unit
        else:
            self.unit = set_energy_or_cost(self.timing, self.orders, start.value if start else None)

    def _build_period(self, start: Schedule | None) -> None:
        """Throughput."""
        instance = self.instance
        windows = make_windows(instance, self.candidates, None)
        most = windows.horizon if start is None else start.value * (1 + 1e-9)
        known = read_start(instance, self.candidates, start)
        self.placement = Placement(
            self.model, instance, self.candidates, known, all_hops=any(instance.memory_binds)
        )
        self.loads = LoadVariables(self.placement, most)
        self.unit = self.loads.unit

    def read(self, values: list[float]) -> Timed | None:
        """The schedule of a solution; None if it overflows a memory after all."""
        if self.problem.objective.kind == "throughput":
            return read_period(self.placement, values)
        return read_schedule(self.orders, self.memory, values)

    def bound(self, bound: float) -> float:
        """What a bound of the model proves of the problem."""
        return max(0.0, bound * self.unit) if self.exact and math.isfinite(bound) else 0.0


def _keep(problem: Problem, options: Options, start: Schedule | None, why: str) -> Schedule:
    """The start, unimproved and with no bound."""
    if start is None:
        raise SolverError(
            f"milp: {why}, and neither heft nor single finds a schedule; give it more time"
        )
    return make_schedule(problem, "milp", start.executions, start.copies, seed=options.seed)


def _no_schedule(problem: Problem, *, exact: bool) -> InfeasibleError:
    """The backend proved that there is none (in the class of the model)."""
    limits = "memory and the links"
    if problem.objective.latency_limit is not None:
        limits += f" and the latency limit of {format_seconds(problem.objective.latency_limit)}"
    if problem.objective.contiguous:
        limits += " and makes contiguous stages"
    if exact:
        return InfeasibleError(
            f"milp proved that no placement and order keeps within {limits}; add memory or links, "
            "or raise the limit",
            proven=True,
        )
    return InfeasibleError(
        f"milp proved that no schedule with at most one execution a task and device keeps within "
        f"{limits}, and neither heft nor single finds another; make the batch smaller, or add "
        "memory or links"
    )
