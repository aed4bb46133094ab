"""A few intervals of an order, against all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.solvers.throughput.test_fewer_transfers import CORES, chain
from tvm_hetero.platform import Device
from tvm_hetero.solvers.throughput.interleaved_stages import interleaved_plans
from tvm_hetero.views.instance import instance_of

Costs = list[tuple[float, ...]]


def load(costs: Sequence[Sequence[float]], placement: Sequence[int]) -> float:
    """The largest load of a chain's placement."""
    loads = [0.0] * len(costs[0])
    for row, device in zip(costs, placement, strict=True):
        loads[device] += row[device]
    return max(loads)


def changes_of(placement: Sequence[int]) -> int:
    """How often the device changes along the chain."""
    return sum(a != b for a, b in pairwise(placement))


def best_of_all(costs: Costs, changes: int) -> float:
    """The least largest load over all placements of at most so many changes."""
    count, devices = len(costs), len(costs[0])
    best = math.inf
    for cuts in combinations(range(1, count), changes):
        ends = (0, *cuts, count)
        for row in product(range(devices), repeat=changes + 1):
            places = [d for d, (a, b) in zip(row, pairwise(ends), strict=True) for _ in range(a, b)]
            best = min(best, load(costs, places))
    return best


def draw_costs(seed: int, devices: int = 2) -> Costs:
    """Seconds of ten tasks, over a decade."""
    rng = np.random.default_rng(seed)
    return [tuple(float(x) for x in 10 ** rng.uniform(0, 1, devices)) for _ in range(10)]


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_it_is_at_the_optimum_or_near_it(changes: int) -> None:
    ratios = []
    for seed in range(12):
        costs = draw_costs(seed)
        instance = instance_of(chain(costs, batch=1))
        found = min(load(costs, plan) for plan in interleaved_plans(instance, [0] * 10, changes))
        ratios.append(found / best_of_all(costs, changes))
    assert min(ratios) >= 1 - 1e-9
    assert sum(ratio < 1 + 1e-9 for ratio in ratios) >= 11 and max(ratios) < 1.05


def test_three_devices_may_have_five_intervals() -> None:
    devices = (*CORES, Device("core2", target={"kind": "llvm"}, cores=(2,), overlap=True))
    costs = draw_costs(1, devices=3)
    instance = instance_of(chain(costs, batch=1, devices=devices))
    # Without links the third device cannot be reached; along an order that is not looked at.
    found = min(load(costs, plan) for plan in interleaved_plans(instance, [0] * 10, 4))
    assert found < 1.02 * best_of_all(costs, 4)


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_changes_are_as_few_as_asked_for(seed: int, changes: int) -> None:
    costs = draw_costs(seed)
    instance = instance_of(chain(costs, batch=1))
    for plan in interleaved_plans(instance, [0] * 10, changes, seed):
        assert changes_of(plan) <= changes


def test_a_task_stays_away_from_a_device_that_cannot_run_it() -> None:
    costs = [(1.0, math.inf), (1.0, 1.0), (math.inf, 1.0), (1.0, 1.0)]
    problem = chain([(1.0, 1.0)] * 4, batch=1)
    kept = {name: dict(row) for name, row in problem.costs.items()}
    del kept["t0"]["core1"], kept["t2"]["core0"]
    instance = instance_of(replace(problem, costs=kept))
    plans = list(interleaved_plans(instance, [0, 0, 1, 1], 2))
    assert [load(costs, plan) for plan in plans] == [2.0, 2.0]


def test_the_same_seed_draws_the_same_plan() -> None:
    instance = instance_of(chain(draw_costs(7), batch=1))
    assert list(interleaved_plans(instance, [0] * 10, 3)) == list(
        interleaved_plans(instance, [0] * 10, 3)
    )
