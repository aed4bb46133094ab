"""Next fit: valid whatever binds, and at once where nothing else has the time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero.check.checker import check_schedule
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverWarning
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.lists.next_fit import next_fit

THROUGHPUT = Objective("throughput")
CHAIN = {name: {"p1": 2.0, "p2": 2.0} for name in "abcd"}
EDGES = [("a", "b", 8), ("b", "c", 8), ("c", "d", 8)]


@settings(max_examples=draws(100))
@given(problem=problems(max_tasks=8, memory=True, kinds=("throughput",)))
def test_what_it_finds_breaks_no_rule(problem: Problem) -> None:
    try:
        found = next_fit(problem, Options(), "one-pass")
    except HeteroError:
        return
    assert check_schedule(problem, found) == []


def test_devices_share_the_work_in_runs_of_the_order() -> None:
    platform = processors(2, bandwidth=1e9)
    found = next_fit(problem_of(CHAIN, EDGES, platform, THROUGHPUT), Options(), "one-pass")
    places = {e.task: e.device for e in found.executions}
    assert places == {"a": "p1", "b": "p1", "c": "p2", "d": "p2"}
    assert found.value == 4.0


def test_no_device_holds_more_than_its_memory() -> None:
    """Tensors of 8 bytes: a and b with what they make and c reads need 16."""
    platform = processors(2)
    tight = tuple(replace(device, memory=20) for device in platform.devices)
    problem = problem_of(CHAIN, EDGES, replace(platform, devices=tight), THROUGHPUT)
    assert check_schedule(problem, next_fit(problem, Options(), "one-pass")) == []
    none = tuple(replace(device, memory=7) for device in platform.devices)
    problem = problem_of(CHAIN, EDGES, replace(platform, devices=none), THROUGHPUT)
    with pytest.raises(InfeasibleError, match="no device with memory left"):
        next_fit(problem, Options(), "one-pass")


def test_a_time_limit_never_costs_the_answer() -> None:
    costs = {f"t{i}": {f"p{k + 1}": 1.0 + k for k in range(40)} for i in range(160)}
    edges = [(f"t{i}", f"t{i + 1}", 8) for i in range(159)]
    platform = processors(40)
    half = tuple(replace(device, memory=900) for device in platform.devices)
    problem = problem_of(costs, edges, replace(platform, devices=half), THROUGHPUT)
    with pytest.warns(SolverWarning, match="the answer is that of one-pass"):
        found = solve(problem, "heft", Options(deadline=1e-6))
    assert found.solver == "heft (one-pass)" and 0 < found.lower_bound <= found.value
