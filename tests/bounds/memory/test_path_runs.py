"""A path in runs: never above the optimum, and what it must be where that is plain."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of
from tests.strategies import problems
from tvm_hetero.bounds import first_bound
from tvm_hetero.bounds.core.time_is_up import TimeIsUp
from tvm_hetero.bounds.memory.path_runs import path_runs_bound
from tvm_hetero.errors import HeteroError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.views.instance import Instance, instance_of


def chain(tasks: int, memory: int, nbytes: int, *, overlap: bool = True) -> Problem:
    """A chain of tasks of 1 s and 1 byte of weights on three devices that are alike."""
    costs = {f"t{i}": dict.fromkeys("abc", 1.0) for i in range(tasks)}
    edges = [(a, b, nbytes) for a, b in pairwise(costs)]
    devices = tuple(Device(name, memory=memory, overlap=overlap) for name in "abc")
    platform = Platform(devices, fabrics=(Fabric("node0", 1.0, 0.0),))
    return problem_of(costs, edges, platform, weight_bytes=dict.fromkeys(costs, 10))


@pytest.mark.parametrize(("memory", "cuts"), [(69, 0), (59, 1), (39, 1), (29, 2)])
def test_a_chain_changes_devices_as_often_as_memories_are_full(memory: int, cuts: int) -> None:
    problem = chain(6, memory, 2)
    assert path_runs_bound(Instance(problem)) == pytest.approx(6 + 2 * cuts)


def with_skips(problem: Problem) -> Problem:
    """Every task reads what the last but one made, too."""
    names = [task.id for task in problem.tasks]
    edges = [(a, b, 2) for a, b in pairwise(names)]
    skips = [(a, c, 2) for a, c in zip(names, names[2:], strict=False)]
    weights = dict.fromkeys(names, 10)
    costs = {name: dict.fromkeys("abc", 1.0) for name in names}
    return problem_of(costs, edges + skips, problem.platform, weight_bytes=weights)


def test_what_crosses_a_cut_beside_the_edge_counts_where_copies_keep_devices_busy() -> None:
    busy = with_skips(chain(4, 29, 2, overlap=False))
    free = with_skips(chain(4, 29, 2))
    assert path_runs_bound(Instance(free)) == pytest.approx(4 + 2)
    assert path_runs_bound(Instance(busy)) == pytest.approx(4 + 2 + 2)
    for problem in (busy, free):
        assert path_runs_bound(Instance(problem)) <= brute_force(problem) * (1 + 1e-9)


@settings(max_examples=draws(150), deadline=None)
@given(problem=problems(max_tasks=5, memory=True, kinds=("latency",)), engines=st.booleans())
def test_never_above_the_optimum(problem: Problem, engines: bool) -> None:
    devices = problem.platform.devices
    if not engines:
        devices = tuple(replace(device, overlap=False) for device in devices)
    platform = replace(problem.platform, devices=devices)
    tried = replace(problem, platform=platform)
    try:
        optimum = brute_force(tried)
    except HeteroError:
        return
    if optimum < math.inf:
        assert path_runs_bound(Instance(tried)) <= optimum * (1 + 1e-9)


def test_it_is_given_up_when_the_time_is_up_and_is_then_not_kept() -> None:
    problem = chain(6, 29, 2)
    with pytest.raises(TimeIsUp):
        path_runs_bound(instance_of(problem), lambda: True)
    assert first_bound(problem, lambda: True) == 0
    assert path_runs_bound(instance_of(problem)) == pytest.approx(6 + 2 * 2)
