"""Shares of classes, and the plans that they are rounded to."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.bounds.throughput.share_program import hub_bound, rates, share_bound
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.throughput.class_rounding import share_plan
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.task_classes import ClassShares, shares_of

FREE = Objective("throughput")
many = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))


def found_for(problem: Problem) -> tuple[Instance, ClassShares]:
    """The instance of a problem and its shares."""
    instance = Instance(problem)
    return instance, shares_of(instance, rates(instance))


@many
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True, exact=False))
def test_classes_are_not_above_the_optimum(problem: Problem) -> None:
    assert found_for(problem)[1].value <= brute_force(problem) * (1 + 1e-9)


@many
@given(problem=problems(max_tasks=2, max_devices=2, kinds=["throughput"], batch=3))
def test_classes_of_batches_are_not_above_the_optimum(problem: Problem) -> None:
    assert found_for(problem)[1].value <= brute_force(problem) * (1 + 1e-9)


@many
@given(problem=problems(max_tasks=5, kinds=["throughput"]))
def test_plans_put_every_group_where_it_can_run(problem: Problem) -> None:
    instance, found = found_for(problem)
    plan = share_plan(instance, found)
    assert plan is not None
    assert all(d in instance.devices[v] for v, d in enumerate(plan))
    assert all(len({plan[v] for v in group}) == 1 for group in instance.groups)


def test_whole_tasks_climb_above_shares() -> None:
    # Shares of c add up to less, but whole it takes 4 s at least.
    costs = {name: {"p1": 1.5, "p2": 1.5, "p3": 9.0} for name in "ab"}
    problem = problem_of(costs | {"c": {"p1": 5.0, "p2": 5.0, "p3": 4.0}}, [], processors(3), FREE)
    assert found_for(problem)[1].value == pytest.approx(4.0)


def test_equal_tasks_on_equal_devices_are_one_number() -> None:
    costs = {f"t{i}": {f"p{k}": 1.0 for k in range(1, 9)} for i in range(40)}
    instance, found = found_for(problem_of(costs, [], processors(8), FREE))
    assert found.work.shape == (1, 1)
    assert found.value == pytest.approx(5.0)
    plan = share_plan(instance, found)
    assert plan is not None and exact_value(instance, plan) == 5.0


def test_two_thousand_tasks_are_within_a_tenth_of_a_percent() -> None:
    instance, found = found_for(zoo.problem("layered", "diviml", FREE, tasks=2000))
    plan = share_plan(instance, found)
    assert plan is not None
    assert found.value <= exact_value(instance, plan) <= found.value * 1.001


@many
@given(problem=problems(max_tasks=4, kinds=["throughput"], memory=True, exact=False))
def test_hubs_are_not_above_the_optimum(problem: Problem) -> None:
    best = brute_force(problem)
    assume(best < math.inf)
    instance = Instance(problem)
    assert hub_bound(instance, share_bound(instance)[0]) <= best * (1 + 1e-9)


def test_a_hub_is_somewhere() -> None:
    # Half of everything everywhere copies nothing; whole, the hub reads half of 20 tensors.
    costs = {f"t{i}": {"p1": 1.0, "p2": 1.0} for i in range(20)}
    costs["hub"] = {"p1": 0.0, "p2": 0.0}
    edges = [(f"t{i}", "hub", 8) for i in range(20)]
    platform = processors(2, overlap=False, latency=0.5)
    instance = Instance(problem_of(costs, edges, platform, FREE))
    shares = share_bound(instance)[0]
    assert shares == pytest.approx(10.0)
    # x tasks away from the hub: 20 - x + x / 2 = x + x / 2 at x = 10.
    assert hub_bound(instance, shares) == pytest.approx(15.0)


def test_copies_of_ages_leave_the_digits_of_work() -> None:
    """A copy of 87,000 years and milliseconds of work in one number: the bound was 3e-6 high."""
    costs = {
        "a": {"p1": 132.6841363056729, "p2": 289.492661030559},
        "b": {"p1": 0.0014540072512552117, "p2": 0.0142977379706, "p3": 0.0014540072512552117},
    }
    platform = processors(3, overlap=False, bandwidth=8.0, exclusive=True)
    problem = problem_of(costs, [("a", "b", 20 * 2**40)], platform, FREE)
    instance = Instance(problem)
    best = math.fsum((costs["a"]["p1"], costs["b"]["p1"]))
    assert 132.68 < hub_bound(instance, 132.0) <= best
