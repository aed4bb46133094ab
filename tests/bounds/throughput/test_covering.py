"""The bound from what one device can hold: never above the best, and as good where it should be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero.bounds.throughput.covering import covering_bound
from tvm_hetero.bounds.throughput.share_program import share_bound
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.instance import Instance

many = settings(max_examples=draws(60), deadline=None, suppress_health_check=list(HealthCheck))


def best_of(instance: Instance) -> float:
    """The least value of all placements."""
    allowed = [instance.devices[group[0]] for group in instance.groups]
    best = np.inf
    for chosen in itertools.product(*allowed):
        plan = [-1] * len(instance)
        for group, d in zip(instance.groups, chosen, strict=True):
            for v in group:
                plan[v] = d
        best = min(best, exact_value(instance, plan))
    return float(best)


def equal_tasks(count: int, devices: int, nbytes: int) -> Problem:
    """A chain of tasks of a second on equal devices that copies block."""
    costs = {f"t{i}": {f"p{d + 1}": 1.0 for d in range(devices)} for i in range(count)}
    edges = [(f"t{i}", f"t{i + 1}", nbytes) for i in range(count - 1)]
    platform = processors(devices, overlap=False, bandwidth=16.0)
    return problem_of(costs, edges, platform, Objective("throughput"))


@many
@given(
    problem=problems(max_tasks=6, max_devices=3, kinds=["throughput"], memory=True),
    above=st.sampled_from([1.0, 1.01, 1.5]),
    heavy=st.floats(0.0, 3.0),
)
def test_never_above_the_best(problem: Problem, above: float, heavy: float) -> None:
    instance = Instance(problem)
    best = best_of(instance)
    weights = np.ones(len(instance.names))
    weights[0] += heavy
    assert covering_bound(instance, above * best, weights, 0.2) <= best * (1 + 1e-9)


@many
@given(problem=problems(max_tasks=7, max_devices=3, kinds=["throughput"], exact=False))
def test_never_above_the_best_with_the_weights_of_shares(problem: Problem) -> None:
    instance = Instance(problem)
    best = best_of(instance)
    assert covering_bound(instance, 1.1 * best, share_bound(instance)[1], 0.2) <= best * (1 + 1e-9)


def test_seven_equal_tasks_on_three_devices_take_three() -> None:
    instance = Instance(equal_tasks(7, 3, nbytes=0))
    shares, weights = share_bound(instance)
    assert shares == pytest.approx(7 / 3)
    assert covering_bound(instance, 3.5, weights, 1.0) == pytest.approx(3.0)


def test_a_device_pays_for_its_own_copies() -> None:
    # Four tasks of a second; a copy takes a second at both of its ends: two and two, and a copy.
    instance = Instance(equal_tasks(4, 2, nbytes=16))
    assert best_of(instance) == pytest.approx(3.0)
    assert covering_bound(instance, 4.0, np.ones(2), 1.0) == pytest.approx(3.0)


def test_better_prices_prove_more_than_work_alone() -> None:
    # Five tasks of 3 s and one of 5 s on three devices: by work 20 / 3, and no two take 7.
    costs = {f"t{i}": dict.fromkeys(("p1", "p2", "p3"), 3.0) for i in range(5)}
    costs["t5"] = dict.fromkeys(("p1", "p2", "p3"), 5.0)
    problem = problem_of(costs, [], processors(3, overlap=False), Objective("throughput"))
    instance = Instance(problem)
    assert best_of(instance) == pytest.approx(8.0)
    assert covering_bound(instance, 9.0, np.ones(3), 1.0) == pytest.approx(8.0)


def test_it_says_nothing_of_batches_and_of_unknown_values() -> None:
    instance = Instance(equal_tasks(4, 2, nbytes=16))
    assert covering_bound(instance, np.inf, np.ones(2), 1.0) == 0.0


def test_the_same_work_proves_the_same() -> None:
    instance = Instance(equal_tasks(9, 4, nbytes=5))
    found = {covering_bound(instance, 4.0, np.ones(4), 0.05) for _ in range(2)}
    assert len(found) == 1 and min(found) > 9 / 4
