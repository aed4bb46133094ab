"""Whole tasks on kinds of devices: never above the optimum, and at it where fillings decide."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of
from tests.strategies import problems
from tvm_hetero.bounds import bound_ladder, lower_bound
from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.bounds.throughput.whole_tasks import WORK_A_SECOND, whole_task_bound
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.task_classes import shares_of


def bound_below(problem: Problem, most: float, work: float = WORK_A_SECOND) -> float:
    """The bound of a problem of which a value is known."""
    instance = Instance(problem)
    return whole_task_bound(instance, shares_of(instance, rates(instance)), most, work)


def of_two_kinds(batch: int = 1) -> Problem:
    """Seven tasks, of 2 s on two quick devices and 3 s on a slow one: divided they take 5.25 s."""
    devices = tuple(Device(name, overlap=True) for name in ("quick0", "quick1", "slow"))
    platform = Platform(devices, fabrics=(Fabric("node0", math.inf, 0.0),))
    costs = {f"t{i}": {"quick0": 2.0, "quick1": 2.0, "slow": 3.0} for i in range(7)}
    return problem_of(costs, [], platform, Objective("throughput", batch))


def test_what_no_device_can_fill_is_in_the_bound() -> None:
    """Below 6 s a quick device holds two tasks and the slow one holds one: five of the seven."""
    problem = of_two_kinds()
    assert brute_force(problem) == 6.0
    assert shares_of(Instance(problem), rates(Instance(problem))).value == pytest.approx(5.25)
    for known in (6.0, 7.0, 12.0):
        assert 6.0 * (1 - 1e-3) <= bound_below(problem, known) <= 6.0


def test_it_is_a_rung_once_a_value_is_known() -> None:
    problem = of_two_kinds()
    assert "whole tasks" not in {rung.name for rung in bound_ladder(problem)}
    rungs = {rung.name: rung.value for rung in bound_ladder(problem, upper=8.0)}
    assert rungs["whole tasks"] == pytest.approx(6.0, rel=1e-3)
    assert lower_bound(problem, 8.0) >= rungs["whole tasks"]


def test_of_batches_and_without_work_it_says_nothing() -> None:
    assert bound_below(of_two_kinds(batch=2), 20.0) == 0.0
    assert bound_below(of_two_kinds(), 8.0, work=1.0) == 0.0


@settings(max_examples=draws(60), deadline=None)
@given(problems(5, 3, kinds=("throughput",)))
def test_never_above_the_optimum(problem: Problem) -> None:
    optimum = brute_force(problem)
    for known in (optimum, 1.5 * optimum):
        assert bound_below(problem, known) <= optimum * (1 + 1e-9)
