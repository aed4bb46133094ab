"""What cannot fit is refused with names and bytes; what could is never refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of
from tests.strategies import problems
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.core.feasibility import check_links, check_memory
from tvm_hetero.views.instance import Instance


def weighty(
    weights: list[int], memories: list[int | None], own: frozenset[int] = frozenset()
) -> Problem:
    """Tasks of such weights on devices of such memories; those in `own` run on the first alone."""
    names = [f"d{i}" for i in range(len(memories))]
    devices = tuple(Device(name, memory=m) for name, m in zip(names, memories, strict=True))
    platform = Platform(devices, fabrics=(Fabric("node0", math.inf, 0.0),))
    costs = {
        f"t{i}": dict.fromkeys(names[:1] if i in own else names, 1.0) for i in range(len(weights))
    }
    sizes = {f"t{i}": weight for i, weight in enumerate(weights)}
    return problem_of(costs, [], platform, weight_bytes=sizes)


def test_tasks_that_only_one_device_can_run():
    problem = weighty([4, 4, 4, 1], [9, None], own=frozenset({0, 1, 2}))
    with pytest.raises(InfeasibleError, match=r"'t0', 't1', 't2'.*'d0'.*3 B too little"):
        check_memory(Instance(problem))


def test_no_device_holds_two_heavy_tasks():
    """20 of 27 bytes, but a device of 9 holds no two of 5."""
    problem = weighty([5, 5, 5, 5], [9, 9, 9])
    with pytest.raises(InfeasibleError, match="room for 3 of these 4"):
        check_memory(Instance(problem))
    check_memory(Instance(weighty([5, 5, 5, 4, 4], [9, 9, 9])))


def test_devices_that_no_link_joins_are_named():
    apart = Platform((Device("d0"), Device("d1"), Device("d2")), (Link("d1", "d0"),))
    costs = {"a": {"d0": 1.0}, "b": {"d1": 1.0, "d2": 1.0}}
    with pytest.raises(InfeasibleError, match=r"'b' reads.*'a' makes.*from 'd0'.*to 'd1', 'd2'"):
        solve(problem_of(costs, [("a", "b", 8)], apart))
    check_links(Instance(problem_of(costs, [("b", "a", 8)], apart)))


def test_a_device_without_limit_holds_anything():
    check_memory(Instance(weighty([5, 5, 5, 5], [9, None])))


@settings(max_examples=draws(60), deadline=None)
@given(problems(4, 2, kinds=("latency",), memory=True, feasible=False))
def test_only_what_has_no_schedule_is_refused(problem):
    try:
        check_memory(Instance(problem))
        check_links(Instance(problem))
    except InfeasibleError:
        assert math.isinf(brute_force(problem))
