"""The MILP against every schedule there is, on small problems of every kind."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import BackendError, InfeasibleError, SolverError, UsageError
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.milp import solver as milp
from tvm_hetero.solvers.milp.backends import has_full_licence

QUICK = counted(time_limit=20.0)
BACKENDS = ("highs", "scip", "gurobi")


def quickly(count: int) -> settings:
    return settings(
        max_examples=draws(count), deadline=None, suppress_health_check=list(HealthCheck)
    )


def assert_optimal(problem: Problem, options: Options = QUICK) -> None:
    """The value is the smallest there is (times: proven); where none is, the MILP says so."""
    best = brute_force(problem)
    if best == math.inf:
        with pytest.raises(InfeasibleError):
            solve(problem, "milp", options)
        return
    answer = solve(problem, "milp", options)
    assert answer.value == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert answer.lower_bound <= best * (1 + 1e-9)
    if problem.objective.kind in ("latency", "throughput"):
        assert answer.status == "optimal"


def assert_own_bound(problem: Problem) -> None:
    """What the MILP proves by itself, without the bounds that `run_solver` adds."""
    best = brute_force(problem)
    if best == math.inf:
        return
    answer = milp.solve(problem, QUICK)
    assert best * (1 - 1e-6) - 1e-12 <= answer.lower_bound <= best * (1 + 1e-9)


@quickly(35)
@given(problem=problems(max_tasks=5, max_devices=2))
def test_latency_on_two_devices(problem: Problem) -> None:
    assert_optimal(problem)


@quickly(35)
@given(problem=problems(max_tasks=4, max_devices=3, feasible=False))
def test_latency_on_three_devices_not_all_connected(problem: Problem) -> None:
    assert_optimal(problem)


@quickly(60)
@given(problem=problems(max_tasks=4, max_devices=2, memory=True, feasible=False))
def test_latency_with_memory(problem: Problem) -> None:
    assert_optimal(problem)


@quickly(35)
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True, feasible=False))
def test_throughput(problem: Problem) -> None:
    assert_optimal(problem)


@quickly(35)
@given(problem=problems(max_tasks=5, kinds=["throughput"], contiguous=True, feasible=False))
def test_throughput_in_contiguous_stages(problem: Problem) -> None:
    assert_optimal(problem)


@quickly(35)
@given(
    problem=problems(
        max_tasks=4, max_devices=2, kinds=["energy", "cost"], memory=True, feasible=False
    )
)
def test_energy_and_cost(problem: Problem) -> None:
    assert_optimal(problem)


def test_a_model_that_presolve_closes_has_a_bound() -> None:
    """HiGHS calls the model optimal, with a bound of minus infinity."""
    task_graph = TaskGraph((Task("a"), Task("b")), (Edge("a", "b", 0),))
    devices = (Device("d0", "node0"), Device("d1", "node0"))
    platform = Platform(devices, fabrics=(Fabric("node0", math.inf, 0.0625),))
    costs = {task: {"d0": Cost(((1, 0.01),)), "d1": Cost(((1, 0.01),))} for task in ("a", "b")}
    assert_own_bound(Problem(task_graph, costs, platform, Objective()))


@quickly(35)
@given(problem=problems(max_tasks=4, max_devices=3, exact=False))
def test_times_over_many_orders_of_magnitude(problem: Problem) -> None:
    assert_optimal(problem)
    assert_own_bound(problem)


@quickly(35)
@given(problem=problems(max_tasks=2, max_devices=2, batch=2, memory=True, feasible=False))
def test_two_elements_with_memory(problem: Problem) -> None:
    assert_optimal(problem)


@quickly(35)
@given(problem=problems(max_tasks=2, max_devices=2, batch=3))
def test_three_elements(problem: Problem) -> None:
    assert_optimal(problem)


@quickly(35)
@given(problem=problems(max_tasks=2, batch=3, kinds=["throughput", "energy", "cost"]))
def test_elements_for_other_objectives(problem: Problem) -> None:
    assert_optimal(problem)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_finds_and_proves_the_same(backend: str) -> None:
    if backend == "gurobi":
        pytest.importorskip("gurobipy")
    answer = milp.solve(topcuoglu(), counted(backend=backend))
    assert answer.value == 73.0
    assert answer.lower_bound == pytest.approx(73.0, rel=1e-6)
    serial = milp.solve(fork_join(4, overlap=False), counted(backend=backend))
    assert serial.value == 4.375
    assert serial.lower_bound == pytest.approx(4.375, rel=1e-6)


def test_the_same_seed_gives_the_same_bytes() -> None:
    first, second = (milp.solve(topcuoglu(), counted(seed=3, deadline=1000.0)) for _ in range(2))
    assert first.dumps(canonical=True) == second.dumps(canonical=True)


def test_a_start_is_kept_where_there_is_no_time() -> None:
    problem = topcuoglu()
    start = solve(problem, "heft")
    answer = milp.solve(problem, counted(time_limit=1e-6, start=start))
    assert (answer.value, answer.lower_bound) == (start.value, 0.0)
    assert answer.solver == "milp"


def test_rows_of_memory_that_take_too_long_are_not_built() -> None:
    problem = problem_of(
        {f"t{i}": {"p1": 1.0, "p2": 1.0} for i in range(4)},
        [("t0", "t1", 8), ("t1", "t2", 8), ("t2", "t3", 8)],
        Platform((Device("p1", memory=20), Device("p2", memory=20)), links=(Link("p1", "p2"),)),
    )
    assert not milp.MilpProgram(problem, None).too_slow
    small = milp.MilpProgram(problem, None, most_rows=10)
    assert small.too_slow and not small.memory.gone
    tiny = milp.MilpProgram(problem, None, most_rows=1)
    assert tiny.too_slow and not tiny.orders.before
    start = solve(problem, "heft")
    answer = milp.solve(problem, counted(time_limit=1e-4, start=start))
    assert (answer.value, answer.lower_bound) == (start.value, 0.0)


def test_no_time_and_no_start_is_an_error() -> None:
    # Each device holds one task's weights, so nothing fits, which only a search can tell.
    names = [f"t{i}" for i in range(4)]
    devices = tuple(Device(f"p{i}", memory=10, overlap=True) for i in (1, 2, 3))
    costs = {name: {"p1": 1.0, "p2": 1.0, "p3": 1.0} for name in names}
    platform = Platform(devices, links=(Link("p1", "p2"),))
    problem = problem_of(costs, [], platform, weight_bytes=dict.fromkeys(names, 6))
    with pytest.raises(SolverError, match="too short to build the model"):
        milp.solve(problem, counted(time_limit=1e-6))
    with pytest.raises(InfeasibleError, match="milp proved that no placement"):
        milp.solve(problem, QUICK)


def test_a_latency_limit_that_no_placement_keeps() -> None:
    problem = fork_join(4)
    devices = tuple(Device(d.name, watts=1.0, overlap=True) for d in problem.platform.devices)
    platform = Platform(devices, fabrics=problem.platform.fabrics)
    costs = {t.id: {"p1": 1.0, "p2": 1.0} for t in problem.tasks}
    edges = [(e.src, e.dst, e.bytes) for e in problem.graph.edges]
    # 4.125 s is the least; bounds alone prove less.
    tight = problem_of(costs, edges, platform, Objective("energy", 1, 4.1))
    with pytest.raises(InfeasibleError, match=r"latency limit of 4\.10 s"):
        milp.solve(tight, QUICK)
    loose = problem_of(costs, edges, platform, Objective("energy", 1, 4.2))
    answer = solve(loose, "milp", QUICK)
    assert answer.value == pytest.approx(6.0)
    assert max(e.end for e in answer.executions) <= 4.2


def test_energy_where_idling_draws_more_than_work() -> None:
    devices = (
        Device("p1", watts=1.0, idle_watts=4.0, overlap=False),
        Device("p2", watts=2.0, idle_watts=3.0, overlap=False),
    )
    platform = Platform(devices, (Link("p1", "p2", 8.0), Link("p2", "p1", 8.0)))
    costs = {"a": {"p1": 1.0, "p2": 2.0}, "b": {"p1": 3.0, "p2": 1.0}, "c": {"p1": 1.0}}
    problem = problem_of(costs, [("a", "b", 4), ("a", "c", 4)], platform, Objective("energy"))
    assert solve(problem, "milp", QUICK).value == pytest.approx(brute_force(problem))


def test_one_task_and_no_cost_at_all() -> None:
    one = problem_of({"a": {"p1": 2.0}}, [], processors(1))
    assert milp.solve(one, QUICK).value == 2.0
    free = problem_of({"a": {"p1": 0.0, "p2": 0.0}, "b": {"p2": 0.0}}, [("a", "b", 8)],
                      processors(2, bandwidth=1.0))  # fmt: skip
    answer = milp.solve(free, QUICK)
    assert (answer.value, answer.lower_bound) == (0.0, 0.0)


def test_devices_that_no_link_joins() -> None:
    apart = Platform((Device("p1"), Device("p2")))
    problem = problem_of({"a": {"p1": 1.0}, "b": {"p2": 1.0}}, [("a", "b", 8)], apart)
    with pytest.raises(InfeasibleError, match="memory and the links"):
        milp.solve(problem, QUICK)


def test_a_larger_batch_is_divided_and_claims_nothing() -> None:
    problem = problem_of(
        {"a": {"p1": 1.0, "p2": 1.0}, "b": {"p1": 1.0, "p2": 1.0}, "c": {"p1": 1.0, "p2": 1.0}},
        [("a", "b", 0), ("b", "c", 0)],
        processors(2),
        Objective("latency", 8),
    )
    assert milp.MilpProgram(problem, None).candidates.kind == "places"
    answer = milp.solve(problem, QUICK)
    assert answer.value == 12.0
    assert answer.lower_bound == 0.0
    assert check_schedule(problem, answer) == []


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(UsageError, match="expected"):
        milp.solve(fork_join(1), Options(backend="cplex"))


def test_the_size_limited_licence_says_so() -> None:
    pytest.importorskip("gurobipy")
    if has_full_licence():
        pytest.skip("this machine has a full Gurobi licence")
    with pytest.raises(SolverError, match="size-limited licence ends at 2,000"):
        milp.solve(fork_join(45), counted(backend="gurobi"))
    # Nor is it hidden by the best single device.
    with pytest.raises(BackendError, match="use backend highs"):
        solve(fork_join(45), "milp", counted(backend="gurobi"))


def test_three_copies_that_begin_at_one_moment_all_count() -> None:
    # Nothing runs on the hub, which holds two of the tensors x, y, z: 3 s to get there, 1 s on.
    # Of three that begin together each could take itself for the second, were there no order.
    names = ("p1", "p2", "p3", "hub", "p4")
    devices = tuple(Device(n, overlap=True, memory=16 if n == "hub" else None) for n in names)
    links = [Link(f"p{i}", "hub", latency=3.0) for i in (1, 2, 3)]
    platform = Platform(devices, (*links, Link("hub", "p4", latency=1.0)))
    makers = {name: {f"p{i}": 0.0} for i, name in enumerate("xyz", start=1)}
    readers = {f"read-{name}": {"p4": 1.0} for name in "xyz"}
    edges = [(name, f"read-{name}", 8) for name in "xyz"]
    problem = problem_of({**makers, **readers}, edges, platform)
    answer = solve(problem, "milp", QUICK)
    # Two are on p4 at 4, when the third leaves for the hub; it is read from 8 on.
    assert (answer.value, answer.status) == (9.0, "optimal")
