"""Small problems with batches that `auto` once missed, or called infeasible."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.solvers.examples import counted
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve

FOLDER = Path(__file__).parents[1] / "data" / "small_batches"
# Seconds, J or money, by complete search outside of this project; those called infeasible are what
# was found.
OPTIMA = {
    "above_151": 0.168, "above_17": 0.141, "above_216": 2.43, "above_234": 0.16, "above_241": 0.095,
    "above_277": 0.318, "above_299": 0.133, "above_36": 0.297, "infeasible_64": 0.132,
    "infeasible_150": 2.272, "infeasible_170": 0.834, "infeasible_275": 0.258,
    # Copies stop on a device on which nothing can run.
    "hub_45056": 1.32325657,
    # Memory is tight, and a task takes no time.
    "instant_1795661617": 1.66452052,
    # Tensors that no task reads, made after memory is fullest.
    "unread_45031": 2.19996679,
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMA)
def test_auto_finds_the_optimum_and_proves_it(name: str) -> None:
    problem = Problem.load(FOLDER / f"{name}.problem.json")
    answer = solve(problem, "auto", counted(5.0))
    assert answer.status == "optimal"
    assert answer.value == pytest.approx(OPTIMA[name], abs=6e-4)
