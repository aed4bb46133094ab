"""Whole elements on each device: shares, the bound beside them, and how they end a search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.solvers.examples import counted
from tests.solvers.throughput.test_fewer_transfers import chain, free_links
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.throughput.whole_elements import solve as solve_elements


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
@settings(max_examples=draws(25), deadline=None)
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


def test_a_batch_that_is_there_at_once_is_shared_as_well() -> None:
    problem = chain([(1.0, 1.0), (2.0, 2.0)], batch=4).with_objective(Objective("latency", 4))
    found = solve(problem, "elements")
    assert (found.value, found.status) == (6.0, "optimal")
    rows = tuple(replace(device, price=3600.0) for device in problem.platform.devices)
    priced = replace(problem, platform=replace(problem.platform, devices=rows))
    late = priced.with_objective(Objective("cost", 4, latency_limit=6.0))
    assert solve_elements(late, counted()).value == 12.0
    with pytest.raises(HeteroError, match="not within the latency limit"):
        solve_elements(late.with_objective(Objective("cost", 4, latency_limit=5.9)), counted())


def on_a_core_or_two(kind: Kind, batch: int, speedup: float, table: bool = False) -> Problem:
    """A chain of two tasks on one core, on the other, and `speedup` times as fast on both."""
    sets = {"one": (0,), "other": (1,), "both": (0, 1)}
    devices = tuple(Device(name, cores=cores, overlap=True) for name, cores in sets.items())
    graph = TaskGraph([Task("a"), Task("b")], [Edge("a", "b", 8)])

    def cost(cores: tuple[int, ...]) -> Cost:
        one = 4.0 / (speedup if len(cores) > 1 else 1.0)
        return Cost(((1, one), (2, one * 3))) if table else Cost(((1, one),))

    costs = {name: {d: cost(cores) for d, cores in sets.items()} for name in "ab"}
    platform = Platform(devices, fabrics=(Fabric("node0"),))
    return Problem(graph, costs, platform, Objective(kind, batch))


@pytest.mark.parametrize("kind", ["latency", "throughput"])
@pytest.mark.parametrize(
    ("batch", "speedup", "value", "used"),
    [(2, 1.5, 8.0, {"one", "other"}), (2, 2.5, 6.4, {"both"}), (3, 1.8, 8 / 0.6, {"both"})],
)
def test_an_element_has_a_core_of_its_own_or_all_of_them(
    kind: Kind, batch: int, speedup: float, value: float, used: set[str]
) -> None:
    problem = on_a_core_or_two(kind, batch, speedup)
    found = solve_elements(problem, counted())
    assert check_schedule(problem, found) == []
    assert found.value == pytest.approx(value)
    assert {execution.device for execution in found.executions} == used
    assert solve(problem, "auto", counted(time_limit=1.0)).value <= value * (1 + 1e-9)


def test_elements_go_one_after_the_other_where_together_they_take_longer() -> None:
    problem = on_a_core_or_two("latency", 4, 2.5, table=True)
    assert solve_elements(problem, counted()).value == pytest.approx(4 * 2 * 4 / 2.5)
