"""How CP-SAT is run here: repeatably, within a time limit.

CP-SAT counts its work in deterministic time, a unit of very roughly a second or more. A search that
stops at a fixed amount of it gives the same answer on every run, so that is the limit which
should bite; the wall clock is only the net below it, for machines that are slower or shared.
Several workers would race each other, and taking turns on one thread (`interleave_search`) was
slower than one worker alone, so there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.util.search_clock import now, stopped_by

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

# Deterministic time per wall second that is granted. Measured on two shared cores one unit took
# 0.6 to 1.4 s at the settings used here, so that half of the limit rarely reaches the wall.
WORK_PER_SECOND = 0.5
_LEAST_WORK = 0.01
# Work that is charged for one unit of deterministic time, by linearization level. Models of 50 to
# 70 tasks took 3 to 5 s of a shared core a unit without linear programs, 1 to 3 s with them.
_CHARGES = (2.5, 1.0, 1.0)
# Work with which a call without linear programs has the deterministic time that it gets at least.
LEAST_CALL = _CHARGES[0] * _LEAST_WORK


@dataclass
class CpsatBudget:
    """What is left of a time limit: `work` in deterministic time, and a `deadline`.

    The deadline is a time of `now`.
    """

    work: float
    deadline: float

    @classmethod
    def of(cls, options: Options, began: float) -> CpsatBudget:
        """The budget of a call that began at `began` (of `now`)."""
        return cls(options.time_limit * WORK_PER_SECOND, options.until(began))

    def exhausted(self) -> bool:
        """Whether nothing worth a call is left."""
        return self.work < _LEAST_WORK or self.late()

    def late(self) -> bool:
        """Whether the deadline has passed."""
        return now() > self.deadline


def work_of_call(work: float, linear: int) -> float:
    """Deterministic time that a call may take which is given so much work."""
    return max(_LEAST_WORK, work / _CHARGES[linear])


@dataclass(frozen=True)
class CpsatOutcome:
    """What CP-SAT found: a solver to read values from (if `found`), a bound, and a verdict."""

    solver: cp_model.CpSolver
    found: bool
    infeasible: bool
    bound: float


def run(
    model: cp_model.CpModel,
    options: Options,
    budget: CpsatBudget,
    share: float = 1.0,
    *,
    linear: int,
    prove: bool = False,
    quick: bool = False,
) -> CpsatOutcome:
    """Minimise with a share of what is left of a budget, and charge it for the work done.

    `linear` says how much of the model CP-SAT puts into linear programs (`linearization_level`).
    Times on devices: nothing, small modules take many times the work otherwise. Loads: everything,
    some problems without copy engines are proven so and not otherwise.

    With `prove` the search raises the bound rather than looking for better values. Modules of 50
    tasks need linear programs and a good start for a small gap.

    With `quick` the model is hardly presolved: of a small one that is closed at once, presolve
    takes a good part of the time, and counts next to nothing.

    Raises
    ------
    SolverError
        If CP-SAT refuses the model.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.max_time_in_seconds = max(0.01, budget.deadline - now())
    parameters.max_deterministic_time = work_of_call(budget.work * share, linear)
    parameters.random_seed = options.seed
    parameters.num_workers = 1
    # Its own handler of Ctrl-C aborts the process where several threads solve, and stays.
    parameters.catch_sigint_signal = False
    parameters.linearization_level = linear
    parameters.use_objective_lb_search = prove
    # OR-Tools 9.15 proves wrong optima where one linear constraint's literals are in another one
    # (google/or-tools#5293): of 2 J for a pair of tasks it said that 3.67 J are the least.
    parameters.presolve_inclusion_work_limit = 0
    if quick:
        parameters.cp_model_probing_level = 0
        parameters.max_presolve_iterations = 1
        parameters.symmetry_level = 0
    with stopped_by(solver.stop_search):
        status = solver.solve(model)
    if status == cp_model.MODEL_INVALID:
        raise SolverError(f"cpsat refuses the model: {model.validate()}; use another solver")
    budget.work -= _CHARGES[linear] * solver.response_proto.deterministic_time
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    bound = solver.best_objective_bound
    return CpsatOutcome(
        solver, found, status == cp_model.INFEASIBLE, bound if math.isfinite(bound) else 0.0
    )
