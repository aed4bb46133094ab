"""What stands between a solver and everybody else: nothing it says is believed.

A solver may crash, give a schedule that is not valid, or state a bound that a valid schedule
beats. `solve_verified` turns the first two into a `SolverFault` that names the solver and
the fault, so that whoever asked can go on with the next best answer; `drop_false_bound` takes
care of the third. Errors that a solver raises on purpose (`HeteroError`) pass through.

This is the only module of the solvers, with `run_solver`, that calls the judge
(`tvm_hetero.check`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError, SolverFault, SolverWarning
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.options import Options

Solver = Callable[[Problem, Options], Schedule]


def solve_verified(problem: Problem, name: str, solver: Solver, options: Options) -> Schedule:
    """The solver's answer, verified.

    Raises
    ------
    SolverFault
        If the solver crashed or its answer is not valid.
    HeteroError
        What the solver raised on purpose. That it is stuck is not that there is nothing: an
        InfeasibleError that is not proven comes out as a SolverError.
    """
    from tvm_hetero.check.checker import verified

    try:
        answer = solver(problem, options)
    except InfeasibleError as error:
        if error.proven:
            raise
        raise SolverError(str(error)) from error
    except HeteroError:
        raise
    except Exception as error:  # whatever a solver of someone's may raise
        text = str(error).strip().split("\n")[0]
        raise SolverFault(
            f"solver {name!r} crashed: {type(error).__name__}: {text:.200}; please report this"
        ) from error
    if not isinstance(answer, Schedule):
        given = type(answer).__name__
        raise SolverFault(f"solver {name!r} gave a {given}; expected a Schedule")
    try:
        return verified(problem, answer)
    except SolverError as error:
        raise SolverFault(f"solver {name!r}: {error}") from error


def drop_false_bound(answer: Schedule, known: Sequence[float], name: str) -> Schedule:
    """The answer without its bound if a valid schedule of value in `known` beats it."""
    best = min(known, default=math.inf)
    if answer.lower_bound <= best * (1 + OPTIMAL_GAP):
        return answer
    warn(
        f"solver {name!r} stated a lower bound of {answer.lower_bound:.6g}, but a schedule of "
        f"{best:.6g} is valid: its bound is not used; please report this"
    )
    return replace(answer, lower_bound=0.0, status="feasible")


def warn(text: str) -> None:
    """Tell the user of a solver's failure."""
    warnings.warn(text, SolverWarning, stacklevel=3)


def warn_of_less(text: str, options: Options) -> None:
    """Tell the user that there is less than was asked for, unless the caller is content with it."""
    if not options.quiet:
        warnings.warn(text, SolverWarning, stacklevel=3)
