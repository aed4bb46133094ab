"""What lies beside a path in runs: what it must be where that is plain, and never too much."""

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
from tvm_hetero.bounds.memory.detours import detour_bound
from tvm_hetero.bounds.memory.path_runs import path_runs_bound
from tvm_hetero.errors import HeteroError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.views.instance import Instance

# Two lanes between the first task and the last.
LANES = [("first", "left", "last"), ("first", "right", "last")]


def lanes(memories: tuple[int, ...], *, overlap: bool = False) -> Problem:
    """Tasks of 1 s and 10 bytes, one of them longer; a copy takes 2 s of either device."""
    names = ["first", "left", "right", "last"]
    devices = tuple(
        Device(name, memory=memory, overlap=overlap)
        for name, memory in zip("abc", memories, strict=True)
    )
    costs = {name: dict.fromkeys("abc", 1.0) for name in names}
    costs["left"] = dict.fromkeys("abc", 1.5)
    edges = sorted({(u, v, 2) for lane in LANES for u, v in pairwise(lane)})
    weights = dict.fromkeys(names, 10)
    platform = Platform(devices, fabrics=(Fabric("node0", 1.0, 0.0),))
    return problem_of(costs, edges, platform, weight_bytes=weights)


def test_a_lane_on_the_device_of_its_run_takes_time_of_it() -> None:
    # The path first, left, last takes 3.5 s; the other lane 1 s there, or a copy of 2 s and back.
    assert path_runs_bound(Instance(lanes((45, 45, 9)))) == pytest.approx(4.5)


def test_a_lane_that_finds_no_memory_there_is_copied_there_and_back() -> None:
    # Either that, or the path itself is cut once: 3.5 s and a copy.
    problem = lanes((39, 39, 39))
    assert path_runs_bound(Instance(problem)) == pytest.approx(3.5 + 2)
    assert path_runs_bound(Instance(problem)) <= brute_force(problem) * (1 + 1e-9)


def test_a_lane_beside_a_copy_engine_costs_what_it_costs_elsewhere() -> None:
    assert path_runs_bound(Instance(lanes((39, 39, 39), overlap=True))) == pytest.approx(3.5)


@st.composite
def forked(draw: st.DrawFn) -> Problem:
    """A path with lanes beside it, in memories that hold a part of it."""
    count = draw(st.integers(4, 6))
    names = [f"t{i}" for i in range(count)]
    join = draw(st.integers(3, count - 1))
    sizes = {name: draw(st.integers(1, 5)) for name in names}
    own: tuple[list[str], list[str]] = ([], [])
    for name in names[1:join]:
        own[draw(st.integers(0, 1))].append(name)
    edges = {(names[join - 1], names[join])} if draw(st.booleans()) else {(names[0], names[-1])}
    for lane in own:
        edges |= set(pairwise([names[0], *lane, names[join]]))
    edges |= set(pairwise(names[join:]))
    devices = draw(st.sampled_from(("ab", "abc")))
    costs = {name: {d: float(draw(st.integers(1, 4))) for d in devices} for name in names}
    weights = {name: draw(st.sampled_from((5, 10, 20))) for name in names}
    shares = st.sampled_from((0.4, 0.6, 0.8, 0.9))
    all_devices = tuple(
        Device(
            d,
            memory=int(sum(weights.values()) * draw(shares)) + 6,
            overlap=draw(st.integers(0, 4)) == 0,
        )
        for d in devices
    )
    if draw(st.booleans()):
        all_devices = (replace(all_devices[0], memory=None), *all_devices[1:])
    platform = Platform(all_devices, fabrics=(Fabric("node0", 1.0, 0.0),))
    copied = [(u, v, sizes[u]) for u, v in sorted(edges)]
    colors = {name: draw(st.sampled_from((None, None, None, "red"))) for name in names}
    problem = problem_of(costs, copied, platform, weight_bytes=weights)
    tasks = tuple(replace(task, color=colors[task.id]) for task in problem.graph.tasks)
    return replace(problem, graph=replace(problem.graph, tasks=tasks))


def test_a_way_past_a_branch_counts_where_it_proves_more_than_that_through_it() -> None:
    # Cut before its last task the path over `right` pays 1 s for the small tensor; the one over
    # `left` 5 s, with `right` elsewhere or in time of the same device.
    costs = {"first": 3.0, "right": 2.0, "left": 2.0, "last": 1.0}
    edges = [("first", "right", 3), ("first", "left", 3), ("right", "last", 1), ("left", "last", 5)]
    weights = {"first": 5, "right": 20, "left": 5, "last": 5}
    devices = (Device("a", memory=34), Device("b", memory=20))
    problem = problem_of(
        {name: dict.fromkeys("ab", seconds) for name, seconds in costs.items()},
        edges,
        Platform(devices, fabrics=(Fabric("node0", 1.0, 0.0),)),
        weight_bytes=weights,
    )
    instance = Instance(problem)
    assert path_runs_bound(instance) == pytest.approx(7)
    assert detour_bound(instance, 1_000) == pytest.approx(9)
    assert detour_bound(instance, 0) == pytest.approx(7)
    assert brute_force(problem) == pytest.approx(10)


def test_detours_that_are_late_leave_what_was_known() -> None:
    problem = lanes((39, 39, 39))
    assert detour_bound(Instance(problem), 1_000, lambda: True) == 0


@settings(max_examples=draws(100), deadline=None)
@given(problem=forked())
def test_what_lies_beside_a_path_does_not_lift_the_bound_above_the_optimum(
    problem: Problem,
) -> None:
    try:
        optimum = brute_force(problem)
    except HeteroError:
        return
    instance = Instance(problem)
    if optimum < math.inf:
        assert path_runs_bound(instance) <= detour_bound(instance, 10_000) <= optimum * (1 + 1e-9)
