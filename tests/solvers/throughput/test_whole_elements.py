"""Whole elements on each device: shares, the bound beside them, and how they end a search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.solvers.examples import counted
from tests.solvers.throughput.test_fewer_transfers import chain, free_links
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.problem import Cost, Objective
from tvm_hetero.solvers import solve


def test_equal_devices_share_a_batch_and_the_bound_proves_it() -> None:
    found = solve(chain([(1.0, 1.0), (2.0, 2.0)], batch=4), "elements")
    assert found.value == pytest.approx(6.0) and found.status == "optimal"
    assert {(e.device, e.elements) for e in found.executions} == {
        ("core0", (0, 2)),
        ("core1", (1, 3)),
    }


def test_what_several_elements_take_at_once_counts() -> None:
    problem = chain([(1.0, 1.0)], batch=4)
    table = Cost(((1, 1.0), (2, 1.1), (4, 1.3)), sizes=(1, 2, 4))
    problem = type(problem)(
        problem.graph, {"t0": {"core0": table, "core1": table}}, problem.platform,
        problem.objective,
    )  # fmt: skip
    assert solve(problem, "elements").value == pytest.approx(1.1)


def test_no_device_that_runs_everything() -> None:
    problem = chain([(1.0, 1.0)] * 2, batch=2)
    costs = {"t0": {"core0": Cost(((1, 1.0),))}, "t1": {"core1": Cost(((1, 1.0),))}}
    problem = type(problem)(problem.graph, costs, problem.platform, problem.objective)
    with pytest.raises(SolverError, match="no device can run every task"):
        solve(problem, "elements")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("error:solver 'elements' gave")
@given(problem=problems(max_tasks=5, kinds=("throughput",), batch=3, memory=True))
def test_the_bound_holds_for_the_best_there_is(problem) -> None:
    try:
        found = solve(problem, "elements")
    except HeteroError:
        return
    assert check_schedule(problem, found) == []
    best = solve(problem, "cpsat", counted(time_limit=5))
    assert found.lower_bound <= best.value * (1 + 1e-6)


def test_auto_ends_where_whole_elements_are_proven() -> None:
    assert solve(chain([(1.0, 1.0)] * 3, batch=2), "auto").solver == "auto:elements"


def test_auto_ends_within_the_gap_that_is_asked_for() -> None:
    noisy = free_links(chain([(1.0, 1.001), (1.001, 1.0)] * 3, batch=2))
    rough = solve(noisy, "auto", counted(gap=2e-3))
    assert rough.solver == "auto:elements" and 0 < rough.gap <= 2e-3
    exact = solve(noisy, "auto")
    assert exact.value < rough.value and exact.status == "optimal"


def test_elements_of_a_latency_problem_are_refused() -> None:
    problem = chain([(1.0, 1.0)], batch=2).with_objective(Objective("latency", 2))
    with pytest.raises(HeteroError, match="serves throughput"):
        solve(problem, "elements")
