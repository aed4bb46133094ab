"""CP-SAT against every schedule there is, on small problems of every kind."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.bounds import lower_bound
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import solve

QUICK = counted(time_limit=20.0)
quickly = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))


def assert_optimal(problem: Problem) -> None:
    """CP-SAT's value is the smallest there is (times: proven); where none is, it says so."""
    best = brute_force(problem)
    if best == float("inf"):
        with pytest.raises(InfeasibleError):
            solve(problem, "cpsat", QUICK)
        return
    answer = solve(problem, "cpsat", QUICK)
    assert answer.value == pytest.approx(best, rel=1e-9, abs=1e-12)
    if problem.objective.kind in ("latency", "throughput"):
        assert answer.status == "optimal"
    assert lower_bound(problem) <= best * (1 + 1e-9)


@pytest.mark.slow
@quickly
@given(problem=problems(max_tasks=5, max_devices=2))
def test_latency_on_two_devices(problem: Problem) -> None:
    assert_optimal(problem)


@quickly
@given(problem=problems(max_tasks=4, max_devices=3, feasible=False))
def test_latency_on_three_devices_not_all_connected(problem: Problem) -> None:
    assert_optimal(problem)


@quickly
@given(problem=problems(max_tasks=4, max_devices=2, memory=True, feasible=False))
def test_latency_with_memory(problem: Problem) -> None:
    assert_optimal(problem)


@quickly
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True, feasible=False))
def test_throughput(problem: Problem) -> None:
    assert_optimal(problem)


@quickly
@given(problem=problems(max_tasks=4, max_devices=2, kinds=["energy", "cost"], feasible=False))
def test_energy_and_cost(problem: Problem) -> None:
    assert_optimal(problem)


@quickly
@given(problem=problems(max_tasks=3, max_devices=3, kinds=["energy", "cost"], teams=True))
def test_energy_and_cost_of_teams(problem: Problem) -> None:
    """Shares of a core are thousandths of a watt; where they are none, no bound is claimed."""
    answer, best = solve(problem, "cpsat", QUICK), brute_force(problem)
    assert answer.lower_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= answer.value <= best * (1 + 2e-3)


@settings(max_examples=draws(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=2, max_devices=2, batch=2, memory=True))
def test_batches_never_claim_more_than_is_true(problem: Problem) -> None:
    answer = solve(problem, "cpsat", QUICK)
    best = brute_force(problem)
    assert answer.lower_bound <= best * (1 + 1e-9)
    assert answer.value >= best * (1 - 1e-9)


def test_beats_heft_on_its_paper_example() -> None:
    answer = solve(topcuoglu(), "cpsat", QUICK)
    # HEFT takes 80.
    assert (answer.value, answer.status) == (73.0, "optimal")


def test_a_limit_that_is_too_short_still_answers() -> None:
    # Independent tasks of unlike lengths: easy to place, hard to prove.
    lengths = [((i * 7919) % 997 + 500) / 1e3 for i in range(60)]
    costs = {f"t{i}": {f"p{k}": s for k in (1, 2, 3)} for i, s in enumerate(lengths)}
    problem = problem_of(costs, [], processors(3))
    answer = solve(problem, "cpsat", counted(time_limit=0.2))
    assert answer.value >= answer.lower_bound > 0
    assert answer.value <= solve(problem, "heft").value


def test_energy_takes_the_slower_device_within_the_limit() -> None:
    problem = fork_join(4)
    devices = tuple(
        type(d)(d.name, overlap=True, watts=w, idle_watts=0.0)
        for d, w in zip(problem.platform.devices, (10.0, 1.0), strict=True)
    )
    platform = type(problem.platform)(devices, fabrics=problem.platform.fabrics)
    costs = {t.id: {"p1": 1.0, "p2": 2.0} for t in problem.tasks}
    edges = [(e.src, e.dst, e.bytes) for e in problem.graph.edges]
    free = problem_of(costs, edges, platform, Objective("energy"))
    tight = problem_of(costs, edges, platform, Objective("energy", 1, 6.0))
    assert solve(free, "cpsat", QUICK).value == pytest.approx(12.0)
    limited = solve(tight, "cpsat", QUICK)
    assert 12.0 < limited.value < 60.0
    assert limited.status == "optimal"


def test_auto_names_the_solver_that_found_the_answer() -> None:
    assert solve(topcuoglu(), "auto", QUICK).solver == "auto:milp-split"
    assert solve(fork_join(1), "auto", QUICK).solver == "auto:single"
