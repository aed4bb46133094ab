"""The random walk: a baseline, but an honest one."""

from __future__ import annotations

from tests.solvers.examples import counted, fork_join, problem_of, processors
from tvm_hetero.check import check_schedule
from tvm_hetero.problem import Objective
from tvm_hetero.solvers.search import random_walk


def test_finds_the_optimum_of_a_tiny_problem_without_any_start() -> None:
    costs = {f"t{i}": {"p1": float(s), "p2": float(s)} for i, s in enumerate((6, 5, 4, 3))}
    for kind in ("latency", "throughput"):
        problem = problem_of(costs, [], processors(2), Objective(kind))  # type: ignore[arg-type]
        assert random_walk.solve(problem, counted(time_limit=1.0)).value == 9.0


def test_more_steps_find_no_worse() -> None:
    problem = fork_join(8, overlap=False)
    few = random_walk.solve(problem, counted(time_limit=1e-3))
    many = random_walk.solve(problem, counted(time_limit=0.5))
    assert check_schedule(problem, few) == []
    assert many.value <= few.value


def test_another_seed_walks_elsewhere() -> None:
    problem = fork_join(12, overlap=False)
    values = {random_walk.solve(problem, counted(time_limit=1e-3, seed=s)).value for s in range(8)}
    assert len(values) > 1
