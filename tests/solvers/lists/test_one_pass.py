"""One pass: valid whatever binds, and an answer where there is no time for another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case
from tests.draws import draws
from tests.strategies import problems
from tvm_hetero.check.checker import check_schedule
from tvm_hetero.errors import HeteroError, SolverWarning
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.lists import one_pass


@settings(max_examples=draws(150))
@given(problem=problems(max_tasks=8, memory=True, exact=False))
def test_what_it_finds_breaks_no_rule(problem: Problem) -> None:
    try:
        found = one_pass.solve(problem, Options())
    except HeteroError:
        return
    assert check_schedule(problem, found) == []


def test_weights_that_come_late_lie_beside_the_most_that_was_ever_held() -> None:
    problem = limited(zoo_case("layered", "sched-nvl", tasks=300), 0.4)
    found = one_pass.solve(problem, Options())
    assert check_schedule(problem, found) == []


def test_a_time_limit_never_costs_the_answer() -> None:
    """No device has room for everything, and HEFT is cut at once."""
    problem = zoo_case("layered", "phone", tasks=1500)
    half = sum(task.weight_bytes for task in problem.tasks) // 2
    devices = tuple(replace(device, memory=half) for device in problem.platform.devices)
    problem = replace(problem, platform=replace(problem.platform, devices=devices))
    with pytest.warns(SolverWarning, match="the time is up after"):
        found = solve(problem, "heft", Options(deadline=1e-6))
    assert found.solver == "heft (one-pass)" and 0 < found.lower_bound <= found.value
