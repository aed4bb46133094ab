"""Annealing in two levels: placements that are valid, never worse, and blocks that move as one."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero.bounds.throughput.covering import covering_bound
from tvm_hetero.bounds.throughput.share_program import share_bound
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.throughput.level_annealing import _glue, _measure, anneal_in_levels
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import placement_of
from tvm_hetero.views.instance import Instance

QUICK = counted(time_limit=1.0)
few = settings(max_examples=draws(12), deadline=None, suppress_health_check=list(HealthCheck))


def blocks(lengths: list[int]) -> Problem:
    """Chains of tasks of a second on two devices; parting a chain takes both devices 8 s."""
    costs = {f"c{i}.{j}": {"p1": 1.0, "p2": 1.0} for i, n in enumerate(lengths) for j in range(n)}
    edges = [
        (f"c{i}.{a}", f"c{i}.{b}", 8) for i, n in enumerate(lengths) for a, b in pairwise(range(n))
    ]
    platform = processors(2, overlap=False, latency=8.0)
    return problem_of(costs, edges, platform, Objective("throughput"))


@few
@given(problem=problems(max_tasks=6, kinds=["throughput"], memory=True))
def test_what_is_found_is_valid_and_no_worse(problem: Problem) -> None:
    try:
        plan = placement_of(Instance(problem), solve(problem, "single"))
    except HeteroError:
        return
    instance = Instance(problem)
    assert plan is not None
    before = exact_value(instance, plan)
    if before == 0:
        return
    found = anneal_in_levels(instance, plan, before / 4, QUICK, steps=1_000_000, seconds=5.0)
    assert found is not None and exact_value(instance, found) <= before
    assert all(d in instance.devices[v] for v, d in enumerate(found))


def test_whole_chains_go_where_there_is_room() -> None:
    instance = Instance(blocks([6, 5, 4, 3, 2]))
    found = anneal_in_levels(instance, [0] * 20, 10.0, QUICK, steps=4_000_000, seconds=20.0)
    assert found is not None and exact_value(instance, found) == pytest.approx(10.0)


def test_blocks_lie_on_one_device_and_hold_every_task_once() -> None:
    instance = Instance(blocks([6, 6]))
    plan = [0] * 3 + [1] * 9
    for seed in range(8):
        groups = _glue(instance, _measure(instance), plan, 24.0, random.Random(seed))
        assert sorted(v for group in groups for v in group) == list(range(12))
        assert all(len({plan[v] for v in group}) == 1 for group in groups)


def test_the_same_seed_finds_the_same() -> None:
    instance = Instance(blocks([4, 4, 3, 3, 2]))
    runs = [
        anneal_in_levels(instance, [0] * 16, 8.0, QUICK, steps=2_000_000, seconds=20.0, turn=3)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_value_and_bound_of_blocks_meet() -> None:
    # Three chains on two devices: one of them holds two, or a chain is parted.
    problem = blocks([5, 5, 5])
    answer = solve(problem, "throughput", counted(time_limit=5.0))
    instance = Instance(problem)
    assert answer.value == pytest.approx(10.0) and answer.lower_bound == pytest.approx(10.0)
    shares, weights = share_bound(instance)
    assert shares < 9.0
    assert covering_bound(instance, 10.5, weights, 1.0) == pytest.approx(10.0)
