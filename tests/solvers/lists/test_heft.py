"""HEFT against its paper, and what was added to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.lists import heft
from tvm_hetero.solvers.lists.ranks import upward_ranks
from tvm_hetero.views.instance import Instance


def test_upward_ranks_are_those_of_the_paper() -> None:
    ranks = upward_ranks(Instance(topcuoglu()))
    published = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert ranks == pytest.approx(published, abs=1e-3)


def test_paper_example_takes_80() -> None:
    answer = solve(topcuoglu(), "heft")
    assert answer.value == 80.0
    assert answer.placement["n1"] == ("p3",)
    assert answer.placement["n10"] == ("p2",)


def test_a_tensor_with_many_readers_is_copied_once() -> None:
    answer = solve(fork_join(6), "heft")
    assert len([c for c in answer.copies if c.tensor == "in"]) == 1


def test_a_device_without_copy_engine_works_around_its_copies() -> None:
    problem = fork_join(6, overlap=False)
    answer = solve(problem, "heft")
    assert check_schedule(problem, answer) == []
    assert answer.value > solve(fork_join(6), "heft").value


def test_copies_go_hop_by_hop() -> None:
    devices = (Device("a", overlap=True), Device("hub", overlap=True), Device("b", overlap=True))
    links = (Link("a", "hub", latency=1.0), Link("hub", "b", latency=2.0))
    costs = {"x": {"a": 1.0}, "y": {"b": 1.0}}
    problem = problem_of(costs, [("x", "y", 4)], Platform(devices, links))
    answer = solve(problem, "heft")
    assert [(c.src, c.dst, c.start, c.end) for c in answer.copies] == [
        ("a", "hub", 1.0, 2.0),
        ("hub", "b", 2.0, 4.0),
    ]
    assert answer.value == 5.0


def test_a_color_stays_together() -> None:
    tasks = [Task("a", color="c"), Task("b", color="c")]
    costs = {
        "a": {"p1": Cost(((1, 1.0),)), "p2": Cost(((1, 2.0),))},
        "b": {"p1": Cost(((1, 5.0),)), "p2": Cost(((1, 1.0),))},
    }
    problem = Problem(TaskGraph(tasks, [Edge("a", "b", 0)]), costs, processors(2))
    placement = solve(problem, "heft").placement
    assert placement["a"] == placement["b"]


def test_a_color_that_no_device_can_run_is_named() -> None:
    tasks = [Task("a", color="red"), Task("b", color="red")]
    costs = {"a": {"p1": Cost(((1, 1.0),))}, "b": {"p2": Cost(((1, 1.0),))}}
    problem = Problem(TaskGraph(tasks, []), costs, processors(2))
    with pytest.raises(InfeasibleError, match="color 'red': no device can run all of its 2 tasks"):
        solve(problem, "heft")


def test_memory_moves_weights_to_the_other_device() -> None:
    platform = processors(2)
    small = (replace(platform.devices[0], memory=100), platform.devices[1])
    costs = {name: {"p1": 1.0, "p2": 3.0} for name in ("a", "b")}
    weights = {"a": 60, "b": 60}
    problem = problem_of(costs, [], replace(platform, devices=small), weight_bytes=weights)
    answer = solve(problem, "heft")
    assert sorted(answer.placement.values()) == [("p1",), ("p2",)]


def test_stuck_for_memory_says_what_lacks() -> None:
    platform = processors(1)
    tight = replace(platform, devices=(replace(platform.devices[0], memory=100),))
    costs = {name: {"p1": 1.0} for name in ("a", "b")}
    sizes = {"a": 60, "b": 60}
    problem = problem_of(costs, [], tight, output_bytes=sizes)
    with pytest.raises(InfeasibleError, match="'p1' lacks 20 B"):
        heft.solve(problem, counted())


def test_waits_for_memory_that_is_given_back() -> None:
    # Two chains of 60 bytes each in 100 bytes: the second begins when the first is through.
    platform = processors(2, latency=1.0)
    devices = tuple(replace(d, memory=100) for d in platform.devices)
    costs = {name: {"p1": 1.0} for name in ("a", "b", "c", "d")}
    problem = problem_of(
        costs,
        [("a", "b", 60), ("c", "d", 60)],
        replace(platform, devices=devices),
        output_bytes={"a": 60, "c": 60},
    )
    answer = heft.solve(problem, counted())
    assert answer.value == 4.0


def test_throughput_evens_out_the_loads() -> None:
    costs = {f"t{i}": {"p1": float(s), "p2": float(s)} for i, s in enumerate((6, 5, 4, 3))}
    problem = problem_of(costs, [], processors(2), Objective("throughput"))
    assert solve(problem, "heft").value == 9.0
