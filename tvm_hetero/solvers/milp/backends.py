"""Solvers for a `model.MilpModel`: HiGHS and SCIP through MathOpt, Gurobi on its own.

Work. HiGHS and SCIP stop after a number of nodes of the search tree, Gurobi after an amount of its
own unit of work, both fixed by model and time limit: so runs can be repeated. The wall clock is
the net below; where it cuts (a root node alone may take longer), a run is one of a kind.

Bounds. A solver's bound is a floating-point number that it believes within tolerances. They are
set to 1e-9 and models are scaled so that times, memory and objective are at most 1,000. An LP
whose reduced costs are wrong by 1e-9 each overstates its value by no more than 1e-9 times the
sum of all variables' ranges, and a tree that cuts nodes within a tolerance of its best solution
by that tolerance; `margin` takes away both. Rows and integrality that hold within tolerances only
make the solver's problem larger, so its bound smaller. This is no certificate (HiGHS is known to
have reported wrong optima, its issues 1334, 2325, 2782), and a bound that a schedule refutes is
dropped (`solver.solve`). HiGHS fails on some small models at 1e-9 with an internal error; it is
asked again at 1e-8 and 1e-7, and the margin grows with the tolerance.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from tvm_hetero.errors import BackendError, SolverError, UsageError
from tvm_hetero.solvers.milp.model import MilpModel
from tvm_hetero.util.search_clock import now

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

Backend = Literal["highs", "scip", "gurobi"]
# Tolerances, the first one that the backend can work with.
TOLERANCES = (1e-9, 1e-8, 1e-7)
# The part of the time limit after which solvers are told to stop: they look at the clock only
# between steps.
_EARLY = 0.95
# Nodes a second that are granted to a model of a thousand nonzeros; rates fall with its power of
# 1.5. Measured on a shared core with 30 tasks (6,000 nonzeros): HiGHS 250 nodes a second of CPU
# time, SCIP about 20; so for HiGHS, and for smaller models, nodes end a search before the clock.
_NODES = {"highs": 1000.0, "scip": 500.0}
_LEAST_NODES = 50
# Gurobi's work units are about seconds.
_WORK = 0.5
_SIZE_LIMIT = 10010


@dataclass(frozen=True)
class MilpOutcome:
    """What a solver says: values of all variables (None: no solution), a safe bound, a verdict."""

    values: list[float] | None
    bound: float
    infeasible: bool


def pick(backend: str) -> Backend:
    """The backend to use: the one that is asked for, or the best there is.

    Raises
    ------
    UsageError
        If there is none of that name.
    """
    for known in get_args(Backend):
        if backend == known:
            return cast(Backend, known)
    if backend != "auto":
        raise UsageError(f"backend: expected auto, highs, scip or gurobi, got {backend!r}")
    return "gurobi" if has_full_licence() else "highs"


@lru_cache(maxsize=1)
def has_full_licence() -> bool:
    """Whether Gurobi is installed and solves more than its size-limited licence allows."""
    try:
        import gurobipy
    except ImportError:
        return False
    try:
        with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
            model.addVars(2001)
            model.optimize()
            return bool(model.Status == gurobipy.GRB.OPTIMAL)
    except gurobipy.GurobiError:
        return False


def solve(
    model: MilpModel, backend: Backend, seconds: float, limit: float, seed: int
) -> MilpOutcome:
    """Minimise.

    Parameters
    ----------
    seconds : wall time that is left.
    limit : the time limit (s) from which the amount of work follows.

    Raises
    ------
    SolverError
        If the backend fails or refuses the model.
    UsageError
        If the backend is not installed.
    """
    if model.contradiction:
        return MilpOutcome(None, math.inf, True)
    if not model.names:
        return MilpOutcome([], model.objective.constant, False)
    if backend == "gurobi":
        return _gurobi(model, seconds * _EARLY, limit * _WORK, seed)
    nonzeros = sum(len(row.terms) for row in model.rows)
    rate = _NODES[backend] * min(1.0, 1000 / max(1, nonzeros)) ** 1.5
    nodes = max(_LEAST_NODES, round(limit * rate))
    deadline = now() + seconds * _EARLY
    for tolerance in TOLERANCES:
        try:
            return _mathopt(model, backend, _BackendEffort(deadline, nodes, seed, tolerance))
        except (RuntimeError, ValueError, AttributeError) as error:
            # ortools 9.15 trips over its own error class; what it meant to say is the context.
            failure: Exception = error
    why = failure.__context__ or failure
    raise SolverError(f"{backend} failed: {why}; use the other of highs and scip") from failure


@dataclass(frozen=True)
class _BackendEffort:
    """What one run may take: until when (of `now`), nodes, seed, tolerance."""

    deadline: float
    nodes: int
    seed: int
    tolerance: float


def margin(model: MilpModel, tolerance: float) -> float:
    """What is taken from a bound (see the head of this file), in units of the objective."""
    return tolerance * (model.ranges() + 1e3)


def _safe(model: MilpModel, bound: float, tolerance: float) -> float:
    return bound - margin(model, tolerance) if math.isfinite(bound) else -math.inf


def _mathopt(model: MilpModel, backend: Backend, effort: _BackendEffort) -> MilpOutcome:
    from ortools.math_opt.python import mathopt

    program, variables = _to_mathopt(model)
    parameters = mathopt.SolveParameters(
        time_limit=timedelta(seconds=max(0.01, effort.deadline - now())),
        random_seed=effort.seed,
        relative_gap_tolerance=0.0,
        absolute_gap_tolerance=0.0,
    )
    if backend == "highs":
        for name in ("mip", "primal", "dual"):
            parameters.highs.double_options[f"{name}_feasibility_tolerance"] = effort.tolerance
        parameters.highs.int_options["mip_max_nodes"] = effort.nodes
        solver = mathopt.SolverType.HIGHS
    else:
        for name in ("feastol", "dualfeastol"):
            parameters.gscip.real_params[f"numerics/{name}"] = effort.tolerance
        parameters.node_limit = effort.nodes
        solver = mathopt.SolverType.GSCIP
    hints: list[mathopt.SolutionHint] = []
    if None not in model.hints:
        # Whole or not at all: HiGHS fails on some hints that leave variables out.
        known = dict(zip(variables, (hint or 0.0 for hint in model.hints), strict=True))
        hints.append(mathopt.SolutionHint(variable_values=known))
    with _quiet():
        result = mathopt.solve(
            program,
            solver,
            params=parameters,
            model_params=mathopt.ModelSolveParameters(solution_hints=hints),
        )
    return _outcome(model, result, variables, effort.tolerance)


@contextmanager
def _quiet() -> Iterator[None]:
    """What is written to standard output meanwhile goes to standard error.

    HiGHS prints "transformNewIntegerFeasibleSolution" now and then whatever its options say, and
    would spoil the JSON of a command line.
    """
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        libc.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _to_mathopt(model: MilpModel) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    """The model for MathOpt, as a message: adding rows one by one takes much longer.

    Without names: MathOpt wants unique ones, and no one reads them there.
    """
    from ortools.math_opt import model_pb2
    from ortools.math_opt.python import mathopt

    message = model_pb2.ModelProto()
    message.variables.ids.extend(range(len(model.names)))
    message.variables.lower_bounds.extend(model.lower)
    message.variables.upper_bounds.extend(model.upper)
    message.variables.integers.extend(model.integer)
    message.linear_constraints.ids.extend(range(len(model.rows)))
    message.linear_constraints.lower_bounds.extend(row.lower for row in model.rows)
    message.linear_constraints.upper_bounds.extend(row.upper for row in model.rows)
    cells = [(r, v, a) for r, row in enumerate(model.rows) for v, a in sorted(row.terms.items())]
    message.linear_constraint_matrix.row_ids.extend(r for r, _, _ in cells)
    message.linear_constraint_matrix.column_ids.extend(v for _, v, _ in cells)
    message.linear_constraint_matrix.coefficients.extend(a for _, _, a in cells)
    message.objective.offset = model.objective.constant
    goal = sorted(model.objective.terms.items())
    message.objective.linear_coefficients.ids.extend(v for v, _ in goal)
    message.objective.linear_coefficients.values.extend(a for _, a in goal)
    program = mathopt.Model.from_model_proto(message)
    return program, [program.get_variable(v) for v in range(len(model.names))]


def _outcome(
    model: MilpModel,
    result: mathopt.SolveResult,
    variables: list[mathopt.Variable],
    tolerance: float,
) -> MilpOutcome:
    from ortools.math_opt.python import mathopt

    reason = result.termination.reason
    if reason in (
        mathopt.TerminationReason.INFEASIBLE,
        # Every variable here has bounds, so nothing is unbounded.
        mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED,
    ):
        return MilpOutcome(None, math.inf, True)
    bounds = result.termination.objective_bounds
    bound = bounds.dual_bound
    if reason == mathopt.TerminationReason.OPTIMAL and not math.isfinite(bound):
        # HiGHS forgets its bound where rounding in presolve already gives the optimum.
        bound = bounds.primal_bound
    bound = _safe(model, bound, tolerance)
    if not result.has_primal_feasible_solution():
        return MilpOutcome(None, bound, False)
    values = result.variable_values()
    return MilpOutcome([values[variable] for variable in variables], bound, False)


def _gurobi(model: MilpModel, seconds: float, work: float, seed: int) -> MilpOutcome:
    try:
        import gurobipy
    except ImportError:
        raise UsageError(
            "backend gurobi: gurobipy is not installed; pip install 'tvm_hetero[gurobi]', or use "
            "backend highs or scip"
        ) from None
    settings: dict[str, Any] = {
        "OutputFlag": 0,
        "Threads": 1,
        "Seed": seed,
        "TimeLimit": max(0.01, seconds),
        "WorkLimit": max(0.01, work),
        "MIPGap": 0.0,
        "MIPGapAbs": 0.0,
        "FeasibilityTol": TOLERANCES[0],
        "OptimalityTol": TOLERANCES[0],
        "IntFeasTol": TOLERANCES[0],
    }
    try:
        with gurobipy.Env(params=settings) as env, gurobipy.Model(env=env) as program:
            return _run_gurobi(model, program)
    except gurobipy.GurobiError as error:
        if error.errno != _SIZE_LIMIT:
            raise SolverError(f"gurobi failed: {error}; use backend highs or scip") from error
        raise BackendError(
            f"the model has {len(model.names)} variables and {len(model.rows)} rows, and Gurobi's "
            "size-limited licence ends at 2,000 of either; install a full licence, use backend "
            "highs or scip"
        ) from error


def _run_gurobi(model: MilpModel, program: Any) -> MilpOutcome:
    import gurobipy
    from gurobipy import GRB

    kinds = [GRB.BINARY if integer else GRB.CONTINUOUS for integer in model.integer]
    variables = [
        program.addVar(lb=lower, ub=upper, vtype=kind)
        for lower, upper, kind in zip(model.lower, model.upper, kinds, strict=True)
    ]
    for row in model.rows:
        left = gurobipy.LinExpr(list(row.terms.values()), [variables[v] for v in row.terms])
        if row.lower == row.upper:
            program.addConstr(left == row.lower)
            continue
        if row.lower > -math.inf:
            program.addConstr(left >= row.lower)
        if row.upper < math.inf:
            program.addConstr(left <= row.upper)
    goal = model.objective
    terms = gurobipy.LinExpr(list(goal.terms.values()), [variables[v] for v in goal.terms])
    program.setObjective(terms + goal.constant, GRB.MINIMIZE)
    for variable, hint in zip(variables, model.hints, strict=True):
        if hint is not None:
            variable.Start = hint
    program.optimize()
    if program.Status in (GRB.INFEASIBLE, GRB.INF_OR_UNBD):
        return MilpOutcome(None, math.inf, True)
    bound = _safe(model, program.ObjBound, TOLERANCES[0])
    if program.SolCount == 0:
        return MilpOutcome(None, bound, False)
    return MilpOutcome([variable.X for variable in variables], bound, False)
