"""Solvers: `solve(problem, "auto")` gives a verified schedule with a lower bound beside it."""

from __future__ import annotations

from tvm_hetero.solvers.core.best_so_far import BestSoFar
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.registry import Solver, check_name, names, register
from tvm_hetero.solvers.run_solver import solve

__all__ = [
    "BestSoFar",
    "Deadline",
    "Options",
    "Solver",
    "check_name",
    "names",
    "register",
    "solve",
]
