"""Lower bounds: valid on everything, exact where theory says so."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.bounds import critical_path_bound, load_bound, lower_bound
from tvm_hetero.problem import KINDS, Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.solvers import solve
from tvm_hetero.views.instance import Instance


@settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=4, max_devices=2, kinds=KINDS, memory=True))
def test_not_above_the_optimum(problem: Problem) -> None:
    assert lower_bound(problem) <= brute_force(problem) * (1 + 1e-9)


@settings(max_examples=draws(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=2, max_devices=2, kinds=KINDS, batch=2))
def test_not_above_the_optimum_of_batches(problem: Problem) -> None:
    assert lower_bound(problem) <= brute_force(problem) * (1 + 1e-9)


@settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=12, kinds=KINDS, batch=4, exact=False))
def test_not_above_any_schedule(problem: Problem) -> None:
    assert lower_bound(problem) <= solve(problem, "heft").value * (1 + 1e-9)


def test_critical_path_counts_the_copy_that_cannot_be_saved() -> None:
    costs = {"a": {"p1": 1.0}, "b": {"p2": 2.0}}
    problem = problem_of(costs, [("a", "b", 8)], processors(2, bandwidth=2.0, latency=0.5))
    assert critical_path_bound(Instance(problem)) == pytest.approx(7.5)
    assert lower_bound(problem) == pytest.approx(7.5)


def test_loads_are_shared_fractionally() -> None:
    costs = {f"t{i}": {"p1": 1.0, "p2": 2.0} for i in range(3)}
    problem = problem_of(costs, [], processors(2), Objective("throughput"))
    # p1 takes two thirds of the work: 3 x 2/3 = 2 s, p2 the rest: 3 x 1/3 x 2 s.
    assert lower_bound(problem) == pytest.approx(2.0)


def test_loads_count_copies_on_devices_without_copy_engine() -> None:
    costs = {"a": {"p1": 4.0}, "b": {"p2": 4.0}}
    platform = processors(2, overlap=False, latency=1.0)
    problem = problem_of(costs, [("a", "b", 0)], platform, Objective("throughput"))
    assert load_bound(Instance(problem)) == pytest.approx(5.0)


def test_a_color_is_not_shared() -> None:
    tasks = [Task("a", color="c"), Task("b", color="c")]
    row = {"p1": Cost(((1, 1.0),)), "p2": Cost(((1, 1.0),))}
    problem = Problem(TaskGraph(tasks, []), {"a": row, "b": row}, processors(2))
    # A share of the group on each device is still allowed, until cases are tried.
    assert load_bound(Instance(problem)) == pytest.approx(1.0)
    assert lower_bound(problem) == pytest.approx(2.0)
    assert solve(problem, "cpsat").value == 2.0


def test_batches_use_the_best_rate_of_the_table() -> None:
    cost = {"a": {"p1": Cost(((1, 1.0), (4, 2.0)))}}
    graph = TaskGraph([Task("a")], [])
    problem = Problem(graph, cost, processors(1), Objective("latency", 8))
    # 4 elements take 2 s, beyond that a third of a second each: 8 at once take 2 + 4/3.
    assert lower_bound(problem) == pytest.approx(2.0 + 4.0 / 3.0)


def falling_table(kind: Kind, batch: int) -> Problem:
    """One task; on ``p2`` 4 elements are quicker than 3, and going on so 9 would be free."""
    rows = {"p1": Cost(((1, 3.0), (4, 9.0))), "p2": Cost(((3, 3.0), (4, 2.5)))}
    graph = TaskGraph([Task("a")], [])
    return Problem(graph, {"a": rows}, processors(2), Objective(kind, batch))


@pytest.mark.slow
def test_a_table_that_falls_makes_no_batch_free() -> None:
    # 8 elements on p2 (5 s) beside one on p1 (3 s), or 7 beside 2 (5 s).  It was 0 s, "optimal".
    schedule = solve(falling_table("latency", 9))
    assert schedule.value == pytest.approx(5.0)
    assert 0 < schedule.lower_bound <= schedule.value


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["latency", "throughput"])
@pytest.mark.parametrize("batch", [3, 4, 5, 6])
def test_not_above_the_optimum_of_a_table_that_falls(kind: Kind, batch: int) -> None:
    problem = falling_table(kind, batch)
    optimum = brute_force(problem)
    assert 0 < lower_bound(problem) <= optimum * (1 + 1e-9)
    assert solve(problem).value == pytest.approx(optimum)


def test_within_the_optimum_of_the_paper_example() -> None:
    assert 0.7 * 73 <= lower_bound(topcuoglu()) <= 73
