"""Cutting a graph must be exact, or not be done."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.solvers.examples import fork_join, problem_of, processors
from tests.strategies import problems
from tvm_hetero.instance import Instance
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.articulation import articulation_tasks, cut
from tvm_hetero.solvers.cpsat_batch import solve_whole
from tvm_hetero.solvers.cpsat_run import Budget

TWO = {"p1": 1.0, "p2": 1.0}


def names(problem: Problem) -> list[str]:
    instance = Instance(problem)
    return [instance.tasks[v] for v in articulation_tasks(instance)]


def test_fork_and_join_are_articulations_and_branches_are_not() -> None:
    assert names(fork_join(3)) == ["in", "out"]


def test_a_tensor_that_passes_by_is_no_cut() -> None:
    # b is comparable to both others, but c also reads from a.
    edges = [("a", "b", 4), ("b", "c", 4), ("a", "c", 4)]
    assert names(problem_of(dict.fromkeys("abc", TWO), edges, processors(2))) == ["a", "c"]


def test_a_dead_end_beside_a_task_is_no_cut() -> None:
    edges = [("a", "b", 4), ("a", "c", 4)]
    assert names(problem_of(dict.fromkeys("abc", TWO), edges, processors(2))) == ["a"]


def test_no_cut_where_it_would_not_be_exact() -> None:
    edges = [("a", "b", 4)]
    costs = dict.fromkeys("ab", TWO)
    assert cut(Instance(problem_of(costs, edges, processors(2)))) is not None
    batch = problem_of(costs, edges, processors(2), Objective("latency", 2))
    assert cut(Instance(batch)) is None


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=8, colors=False))
def test_in_parts_as_in_one_model(problem: Problem) -> None:
    instance = Instance(problem)
    assume(cut(instance) is not None)
    options = Options(time_limit=20.0)
    parts = solve(problem, "cpsat", options)
    whole = solve_whole(instance, options, None, Budget(10.0, float("inf")))
    assert parts.value == pytest.approx(whole.value, rel=1e-9)
    assert parts.lower_bound == pytest.approx(whole.lower_bound, rel=1e-6)


def test_equal_modules_are_solved_once() -> None:
    # Forty equal modules of six branches each: one table for all but the first and the last.
    costs: dict[str, dict[str, float]] = {"c0": {"p1": 0.1, "p2": 0.1}}
    edges = []
    for m in range(40):
        costs |= {f"m{m}b{i}": {"p1": 1.0 + i, "p2": 2.0} for i in range(6)}
        costs[f"c{m + 1}"] = {"p1": 0.1, "p2": 0.1}
        edges += [(f"c{m}", f"m{m}b{i}", 8) for i in range(6)]
        edges += [(f"m{m}b{i}", f"c{m + 1}", 8) for i in range(6)]
    problem = problem_of(costs, edges, processors(2, bandwidth=64.0))
    answer = solve(problem, "cpsat", Options(time_limit=20.0))
    assert answer.status == "optimal"
    assert len({answer.placement[f"m{m}b5"] for m in range(1, 39)}) == 1
