"""Greedy, and what the list schedulers share with it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem import KINDS, Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.lists import cpop, greedy, peft

METHODS = {"cpop": cpop.solve, "greedy": greedy.solve, "peft": peft.solve}


def test_takes_tasks_in_the_order_of_the_graph() -> None:
    # HEFT would begin with the long chain; greedy lets the short task take the quick device.
    costs = {"short": {"p1": 3.0, "p2": 5.0}, "x": {"p1": 4.0, "p2": 20.0}, "y": {"p1": 4.0}}
    problem = problem_of(costs, [("x", "y", 0)], processors(2))
    assert solve(problem, "greedy").value == 11.0
    assert solve(problem, "heft").value == 8.0


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=draws(25))
@given(problem=problems(max_tasks=5, kinds=KINDS, memory=True, feasible=False, contiguous=True))
def test_valid_and_never_below_the_optimum(name: str, problem: Problem) -> None:
    try:
        answer = METHODS[name](problem, counted())
    except InfeasibleError as error:
        assert name in str(error) or "no device can run all" in str(error)
        return
    assert check_schedule(problem, answer) == []
    assert answer.value >= brute_force(problem) * (1 - 1e-9)
    assert answer.lower_bound == 0.0


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=draws(25))
@given(problem=problems(max_tasks=8, kinds=KINDS, batch=3, memory=True))
def test_batches_memory_and_colors(name: str, problem: Problem) -> None:
    try:
        answer = METHODS[name](problem, counted())
    except InfeasibleError:
        # What is feasible for a single device may still stop a list scheduler.
        return
    assert check_schedule(problem, answer) == []
    assert answer.solver == name


@pytest.mark.parametrize("name", METHODS)
def test_same_bytes_each_time(name: str) -> None:
    problem = fork_join(7, overlap=False)
    first, second = (METHODS[name](problem, counted()) for _ in range(2))
    assert first.dumps(canonical=True) == second.dumps(canonical=True)


@pytest.mark.parametrize("name", METHODS)
def test_cost_leaves_dear_devices_unused(name: str) -> None:
    platform = processors(2)
    dear = replace(platform.devices[1], price=7200.0)
    platform = replace(platform, devices=(replace(platform.devices[0], price=3600.0), dear))
    costs = {"a": {"p1": 2.0, "p2": 2.0}, "b": {"p1": 2.0, "p2": 2.0}}
    within = METHODS[name](problem_of(costs, [], platform, Objective("cost")), counted())
    assert within.value == 4.0
    # In 2 s both devices are needed.
    hurried = METHODS[name](problem_of(costs, [], platform, Objective("cost", 1, 2.0)), counted())
    assert hurried.value == pytest.approx(6.0)
    with pytest.raises(InfeasibleError, match=f"{name} found no schedule within"):
        METHODS[name](problem_of(costs, [], platform, Objective("cost", 1, 1.0)), counted())


def test_contiguous_stages_form_a_pipeline() -> None:
    # Balanced by load alone, the chain would go to and fro between the devices.
    names = [f"t{i}" for i in range(6)]
    tasks = [Task(name) for name in names]
    edges = [Edge(a, b, 0) for a, b in pairwise(names)]
    costs = {name: {"p1": Cost(((1, 1.0),)), "p2": Cost(((1, 1.0),))} for name in names}
    objective = Objective("throughput", contiguous=True)
    problem = Problem(TaskGraph(tasks, edges), costs, processors(2), objective)
    answer = greedy.solve(problem, counted())
    assert check_schedule(problem, answer) == []
    assert answer.value == 5.0
    free = replace(problem, objective=Objective("throughput"))
    assert greedy.solve(free, counted()).value == 3.0


def test_stuck_names_the_method() -> None:
    platform = processors(1)
    tight = replace(platform, devices=(replace(platform.devices[0], memory=100),))
    costs = {name: {"p1": 1.0} for name in ("a", "b")}
    problem = problem_of(costs, [], tight, output_bytes={"a": 60, "b": 60})
    with pytest.raises(InfeasibleError, match=r"greedy: after .* 'p1' lacks 20 B"):
        greedy.solve(problem, counted())
