"""No rung of the ladder is above the optimum, whatever the problem."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.strategies import problems
from tvm_hetero.bounds import bound_ladder, latency_bound, lower_bound
from tvm_hetero.problem import KINDS, Objective, Problem
from tvm_hetero.solvers import solve
from tvm_hetero.views.instance import Instance

_EASE = 1 + 1e-9


def rungs_below(problem: Problem, value: float) -> None:
    for rung in bound_ladder(problem, 0.05):
        assert rung.value <= value * _EASE, (rung, value)


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=5, max_devices=3, kinds=("latency",)))
def test_latency_of_one_element(problem: Problem) -> None:
    rungs_below(problem, brute_force(problem))


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=4, max_devices=2, kinds=KINDS, memory=True))
def test_every_objective_with_memory(problem: Problem) -> None:
    rungs_below(problem, brute_force(problem))


@pytest.mark.slow
@settings(max_examples=draws(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=4, max_devices=3, kinds=("energy", "cost")))
def test_spending_of_one_element(problem: Problem) -> None:
    rungs_below(problem, brute_force(problem))


@settings(max_examples=draws(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=3, max_devices=2, kinds=KINDS, batch=2, memory=True))
def test_divided_batches(problem: Problem) -> None:
    rungs_below(problem, brute_force(problem))


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=1, max_devices=2, kinds=KINDS, batch=4))
def test_a_task_divided_in_four(problem: Problem) -> None:
    rungs_below(problem, brute_force(problem))


@pytest.mark.slow
@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=14, kinds=KINDS, batch=4, exact=False, memory=True))
def test_not_above_any_schedule(problem: Problem) -> None:
    rungs_below(problem, solve(problem, "heft").value)


@settings(max_examples=draws(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    problem=problems(max_tasks=4, max_devices=2, kinds=("energy", "cost")),
    part=st.sampled_from([1.0, 1.1, 1.5]),
)
def test_spending_under_a_latency_limit(problem: Problem, part: float) -> None:
    batch = problem.batch
    fastest = brute_force(problem.with_objective(Objective("latency", batch)))
    limited = replace(problem.objective, latency_limit=fastest * part * _EASE + 1e-12)
    limited_problem = problem.with_objective(limited)
    rungs_below(limited_problem, brute_force(limited_problem))


@pytest.mark.slow
@settings(max_examples=draws(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=6, kinds=("latency",), batch=2, exact=False))
def test_the_ladder_is_the_same_in_every_run(problem: Problem) -> None:
    first, second = bound_ladder(problem, 0.05), bound_ladder(problem, 0.05)
    assert [(r.name, r.value) for r in first] == [(r.name, r.value) for r in second]
    assert lower_bound(problem) >= max(r.value for r in first) * (1 - 1e-9)
    assert latency_bound(Instance(problem)) <= lower_bound(problem) * (1 + 1e-9)
