"""Exhaustive search against brute force, which shares no code with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.check import verified
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem import KINDS, Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.exhaustive import solver

# Work is counted, so no machine is too slow for it.
AMPLE = counted(time_limit=1000.0)


def assert_equal_to_brute_force(problem: Problem) -> None:
    best = brute_force(problem)
    try:
        answer = verified(problem, solver.solve(problem, AMPLE))
    except InfeasibleError as error:
        assert best == math.inf, error
        return
    assert answer.value == pytest.approx(best, rel=1e-9)
    assert answer.status == "optimal"


@settings(max_examples=draws(36))
@given(problems(max_tasks=5, kinds=KINDS, memory=True, feasible=False, contiguous=True))
def test_equals_brute_force(problem: Problem) -> None:
    assert_equal_to_brute_force(problem)


@settings(max_examples=draws(30))
@given(problems(max_tasks=6, kinds=("latency", "cost"), exact=False))
def test_equals_brute_force_with_many_digits(problem: Problem) -> None:
    assert_equal_to_brute_force(problem)


@settings(max_examples=draws(36))
@given(problems(max_tasks=4, max_devices=2, memory=True, multi_hop=False))
def test_equals_brute_force_where_memory_binds(problem: Problem) -> None:
    assert_equal_to_brute_force(problem)


@settings(max_examples=draws(36))
@given(
    problems(
        max_tasks=3, max_devices=2, batch=2, kinds=KINDS, memory=True, feasible=False,
        contiguous=True,
    )
)  # fmt: skip
def test_batches_divided_in_every_way_equal_brute_force(problem: Problem) -> None:
    assert_equal_to_brute_force(problem)


@settings(max_examples=draws(15))
@given(problems(max_tasks=2, max_devices=2, batch=3, kinds=KINDS, exact=False))
def test_three_elements_equal_brute_force(problem: Problem) -> None:
    assert_equal_to_brute_force(problem)


def test_ten_tasks_on_three_devices() -> None:
    answer = verified(topcuoglu(), solver.solve(topcuoglu(), AMPLE))
    # As CP-SAT proves too.
    assert (answer.value, answer.status) == (73.0, "optimal")


def test_too_large_says_how_large_it_may_be() -> None:
    with pytest.raises(SolverError, match=r"at most 20 tasks, .* this problem has 32 tasks"):
        solver.solve(fork_join(30), AMPLE)


def test_without_time_it_keeps_its_start_and_claims_nothing() -> None:
    problem = fork_join(9, overlap=False)
    hurried = solver.solve(problem, counted(time_limit=1e-3))
    assert hurried.lower_bound == 0.0
    assert hurried.value >= solver.solve(problem, counted(time_limit=5.0)).value


def test_infeasible_is_proven() -> None:
    platform = processors(2)
    platform = replace(platform, devices=tuple(replace(d, memory=100) for d in platform.devices))
    costs = {name: {"p1": 1.0, "p2": 1.0} for name in ("a", "b", "c")}
    problem = problem_of(costs, [], platform, weight_bytes={"a": 60, "b": 60, "c": 60})
    with pytest.raises(InfeasibleError, match="there is no schedule, however the batch is divided"):
        solver.solve(problem, AMPLE)


def test_same_bytes_each_time() -> None:
    first, second = (solve(fork_join(3), "exhaustive", AMPLE) for _ in range(2))
    assert first.dumps(canonical=True) == second.dumps(canonical=True)
