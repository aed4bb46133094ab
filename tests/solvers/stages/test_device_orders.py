"""Contiguous stages order by order: exact, and bounds that are bounds."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.milp import backends
from tvm_hetero.solvers.stage_dp.ideals_dp import all_ideals
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.stage_dp.stage_dp import run
from tvm_hetero.solvers.stages import device_orders
from tvm_hetero.solvers.stages import solver as stages
from tvm_hetero.solvers.stages.device_orders import FoundOrder, search_orders
from tvm_hetero.solvers.stages.fixed_order_milp import StageOrder
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.ideals import contract
from tvm_hetero.views.instance import Instance

PIPELINE = Objective("throughput", contiguous=True)
QUICK = counted(time_limit=1.0)
many = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))


@contextmanager
def without_ideals() -> Iterator[None]:
    """The ladder of stages when a graph has too many ideals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "MOST_IDEALS", 0)
        patch.setattr(stages, "_MOST_PLAIN", 0)
        yield


def searched(instance: Instance, plan: list[int]) -> FoundOrder:
    found = search_orders(instance, plan, QUICK, time.monotonic() + 60.0)
    assert found is not None
    return found


@many
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True, contiguous=True))
def test_all_orders_together_are_exact(problem: Problem) -> None:
    instance = Instance(problem)
    plan = linear_plan(instance)
    assume(plan is not None and exact_value(instance, plan) > 0)
    assert plan is not None
    best = brute_force(problem)
    found = searched(instance, plan)
    value = exact_value(instance, found.placement or plan)
    assert value == pytest.approx(best, rel=1e-6)
    assert best * (1 - 1e-6) <= found.bound <= best * (1 + 1e-9)


@many
@given(
    problem=problems(max_tasks=5, kinds=["throughput"], memory=True, contiguous=True, exact=False)
)
def test_bounds_of_uneven_numbers_are_bounds(problem: Problem) -> None:
    instance = Instance(problem)
    plan = linear_plan(instance)
    assume(plan is not None and exact_value(instance, plan) > 0)
    assert plan is not None
    assert searched(instance, plan).bound <= brute_force(problem) * (1 + 1e-9)


@few
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True, contiguous=True))
def test_what_is_relaxed_says_no_more(problem: Problem) -> None:
    instance = Instance(problem)
    blocks = contract(instance, instance.terminals)
    best = brute_force(problem)
    used = sorted({d for row in blocks.members for d in instance.devices[row[0]]})
    assume(best > 0 and len(used) > 1)
    bounds = []
    for order in device_orders._orders([(d,) for d in used]):
        model = StageOrder(instance, blocks, order, 1.001 * best, plain=False)
        outcome = backends.solve(model.relaxed(), "highs", 10.0, 10.0, 0)
        bounds.append(math.inf if outcome.infeasible else model.bound(outcome.bound))
    assert min(bounds) <= best * (1 + 1e-9)


def wide(copies: bool) -> Problem:
    """Twelve chains of three unlike tasks on three unlike devices: 4^12 ideals."""
    costs, edges = {}, []
    for i in range(12):
        for j in range(3):
            seconds = 1.0 + (5 * i + 7 * j) % 11
            slow = 1.0 + (3 * i + 2 * j) % 4
            costs[f"t{i}.{j}"] = {"p1": seconds, "p2": seconds * slow / 2, "p3": 4.0}
        edges += [(f"t{i}.{j}", f"t{i}.{j + 1}", 8) for j in range(2)]
    return problem_of(costs, edges, processors(3, overlap=not copies, latency=0.125), PIPELINE)


@pytest.mark.parametrize("copies", [False, True])
def test_wide_graphs_are_proven(copies: bool) -> None:
    instance = Instance(wide(copies))
    plan = linear_plan(instance)
    assert plan is not None
    found = searched(instance, plan)
    assert found.placement is not None
    value = exact_value(instance, found.placement)
    assert value < exact_value(instance, plan)
    assert found.bound >= value * (1 - 1e-6)


def test_orders_and_ideals_agree() -> None:
    problem = fork_join(6).with_objective(PIPELINE)
    instance = Instance(problem)
    plan = linear_plan(instance)
    assert plan is not None
    chain = run(all_ideals(instance))
    found = searched(instance, plan)
    assert exact_value(instance, found.placement or plan) == pytest.approx(chain.value)


def test_devices_that_are_alike_are_exchanged_for_nothing() -> None:
    assert sorted(device_orders._orders([(0, 2), (1,)])) == [(0, 1, 2), (0, 2, 1), (1, 0, 2)]
    assert len(list(device_orders._orders([(0, 1, 2, 3, 4, 5)]))) == 1


def test_many_orders_are_left_alone() -> None:
    costs = {f"t{i}": {f"p{k}": float(k + i) for k in range(1, 7)} for i in range(4)}
    edges = [(f"t{i}", f"t{i + 1}", 8) for i in range(3)]
    instance = Instance(problem_of(costs, edges, processors(6), PIPELINE))
    plan = linear_plan(instance)
    assert plan is not None
    assert search_orders(instance, plan, QUICK, time.monotonic() + 60.0) is None


def test_without_time_nothing_is_claimed() -> None:
    instance = Instance(wide(True))
    plan = linear_plan(instance)
    assert plan is not None
    assert search_orders(instance, plan, QUICK, time.monotonic() - 1.0) == FoundOrder(0.0, None)


@pytest.mark.parametrize("copies", [False, True])
def test_the_ladder_proves_what_has_too_many_ideals(copies: bool) -> None:
    problem = wide(copies)
    with pytest.raises(SolverError, match="ideals"):
        all_ideals(Instance(problem))
    answer = solve(problem, "stages", counted(time_limit=10.0))
    assert answer.status == "optimal"
    assert check_schedule(problem, answer) == []


def test_wide_graphs_on_many_devices_are_annealed() -> None:
    costs = {
        f"t{i}.{j}": {f"p{k}": 1.0 + (3 * i + 5 * j) % 7 + 0.1 * k for k in range(1, 9)}
        for i in range(16)
        for j in range(3)
    }
    edges = [(f"t{i}.{j}", f"t{i}.{j + 1}", 8) for i in range(16) for j in range(2)]
    problem = problem_of(costs, edges, processors(8), PIPELINE)
    line = solve(problem, "linear-dp", QUICK)
    answer = solve(problem, "stages", QUICK)
    assert check_schedule(problem, answer) == []
    assert answer.value < line.value


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes() -> None:
    uncut = counted(time_limit=3.0, deadline=1000.0)
    first, second = (solve(wide(True), "stages", uncut) for _ in range(2))
    assert first.dumps(canonical=True) == second.dumps(canonical=True)


@few
@given(
    problem=problems(
        max_tasks=2, max_devices=2, kinds=["throughput"], batch=2, contiguous=True, memory=True
    )
)
def test_divided_batches_are_not_bounded_by_whole_ones(problem: Problem) -> None:
    with without_ideals():
        answer = solve(problem, "stages", QUICK)
    best = brute_force(problem)
    assert best * (1 - 1e-9) <= answer.value
    assert answer.lower_bound <= best * (1 + 1e-9)


@many
@given(
    problem=problems(
        max_tasks=5, kinds=["throughput"], memory=True, feasible=False, contiguous=True
    )
)
def test_the_ladder_is_exact_without_ideals(problem: Problem) -> None:
    best = brute_force(problem)
    with without_ideals():
        if best == math.inf:
            with pytest.raises(InfeasibleError):
                solve(problem, "stages", QUICK)
            return
        answer = solve(problem, "stages", QUICK)
    assert answer.value == pytest.approx(best, rel=1e-6, abs=1e-12)
    assert answer.status == "optimal"
