"""What is to be scheduled, and what an answer means: graph, costs, objective, schedule."""

from __future__ import annotations

from tvm_hetero.problem.cost import IMPLEMENTATIONS, Cost, check_sizes
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import KINDS, MAX_BATCH, Kind, Objective, check_objective

__all__ = [
    "IMPLEMENTATIONS",
    "KINDS",
    "MAX_BATCH",
    "Cost",
    "Kind",
    "Objective",
    "Problem",
    "check_objective",
    "check_sizes",
]
