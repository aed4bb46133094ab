"""Stages of groups and an order of devices, annealed where only work loads a device."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings

from benchmarks.scheduling.runner import zoo_case
from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.instance import Instance, instance_of

STAGES = Objective("throughput", contiguous=True)
# So cold that nothing worse is ever taken.
FROZEN = 1e-9
few = settings(max_examples=draws(40), deadline=None, suppress_health_check=list(HealthCheck))


@few
@given(problem=problems(max_tasks=5, max_devices=3, kinds=["throughput"], contiguous=True))
def test_what_is_found_is_valid_and_no_better_than_the_best(problem: Problem) -> None:
    """Whichever of the annealers it is, and with groups, inputs and outputs."""
    instance = Instance(problem)
    plan = linear_plan(instance)
    assume(plan is not None and 0 < exact_value(instance, plan) < math.inf)
    assert plan is not None
    found = NativeSearch(instance).anneal_loads(plan, evaluations=3_000)
    value = exact_value(instance, found.placement)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert brute_force(problem) * (1 - 1e-9) <= value
    assert value <= exact_value(instance, plan) * (1 + 1e-9)


@pytest.mark.parametrize("count", [2, 3])
def test_devices_in_the_wrong_order_exchange_what_they_do(count: int) -> None:
    """No task can be moved alone without a worse plan on the way."""
    names = [f"p{i}" for i in range(1, count + 1)]
    tasks = [f"t{i}" for i in range(count)]
    costs = {
        task: {d: 1.0 if d == names[-1 - i] else 10.0 for d in names}
        for i, task in enumerate(tasks)
    }
    edges = [(a, b, 0) for a, b in pairwise(tasks)]
    instance = instance_of(problem_of(costs, edges, processors(count), STAGES))
    plan = [names.index(names[instance.tasks.index(t)]) for t in instance.tasks]
    assert exact_value(instance, plan) == 10.0
    found = NativeSearch(instance).anneal_loads(plan, evaluations=2_000, heat=FROZEN)
    assert found.value == exact_value(instance, found.placement) == 1.0


def test_a_device_that_cannot_run_a_stage_does_not_get_it() -> None:
    costs = {"a": {"p1": 5.0, "p2": 1.0}, "b": {"p1": 5.0}}
    instance = instance_of(problem_of(costs, [("a", "b", 0)], processors(2), STAGES))
    found = NativeSearch(instance).anneal_loads([0, 0], evaluations=2_000)
    assert (found.placement, found.value) == ((1, 0), 5.0)


def test_branches_on_many_devices_get_better_stages_than_along_one_order() -> None:
    instance = instance_of(zoo_case("series-parallel", "mixed-4", STAGES, tasks=60))
    plan = linear_plan(instance)
    assert plan is not None
    search = NativeSearch(instance)
    found, again = (search.anneal_loads(plan, work=4_000_000, seed=1, heat=0.03) for _ in range(2))
    assert found.placement == again.placement
    assert found.value == pytest.approx(exact_value(instance, found.placement), rel=1e-12)
    assert found.value < 0.99 * exact_value(instance, plan)
