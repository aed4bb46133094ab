"""Tasks that several devices share, each for a part of the batch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import counted
from tvm_hetero import zoo
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import SolverError, UsageError
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.memory import memory_peaks
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.counting import solver as count_dp
from tvm_hetero.solvers.throughput.element_sharing import solve as share


def chain(
    costs: list[dict[str, Cost]],
    batch: int,
    *,
    memory: int | None = None,
    weights: int = 0,
    overlap: bool = True,
    contiguous: bool = False,
) -> Problem:
    """A chain of tasks on the devices that their costs name, all joined by a network."""
    names = sorted({name for row in costs for name in row})
    tasks = [Task(f"t{i}", weight_bytes=weights, output_bytes=8) for i in range(len(costs))]
    edges = [Edge(f"t{i}", f"t{i + 1}", 8) for i in range(len(costs) - 1)]
    devices = tuple(Device(n, node=n, overlap=overlap, memory=memory) for n in names)
    platform = Platform(devices, fabrics=(Fabric(None, 1e9, 1e-6),))
    table = {task.id: row for task, row in zip(tasks, costs, strict=True)}
    objective = Objective("throughput", batch, contiguous=contiguous)
    return Problem(TaskGraph(tasks, edges), table, platform, objective)


def linear(seconds: float) -> Cost:
    return Cost(((1, seconds),))


def shared(schedule: Schedule) -> dict[str, tuple[str, ...]]:
    return {task: at for task, at in schedule.placement.items() if len(at) > 1}


def test_three_layers_on_two_nodes_are_two_and_a_half_each():
    problem = chain([{"a": linear(1.0), "b": linear(1.0)}] * 3, 6)
    whole = count_dp.solve(problem, counted())
    found = solve(problem, "shares", counted(start=whole))
    assert whole.value == pytest.approx(12.0)  # two layers of six elements on one node
    assert found.value == pytest.approx(9.0)
    assert found.status == "optimal"
    assert len(shared(found)) == 1
    counts = sorted(len(e.elements) for e in found.executions if e.task in shared(found))
    assert counts == [3, 3]


def test_unlike_nodes_take_shares_in_proportion():
    """One layer; the quick node is three times as quick."""
    problem = chain([{"quick": linear(1.0), "slow": linear(3.0)}], 8)
    found = solve(problem, "shares", counted())
    assert found.value == pytest.approx(6.0)
    assert {e.device: len(e.elements) for e in found.executions} == {"quick": 6, "slow": 2}
    assert found.gap == pytest.approx(0.0, abs=1e-9)


def test_what_costs_as_much_for_one_as_for_all_is_not_shared():
    """Reading the weights takes all the time: whoever takes a share reads them, too."""
    flat = Cost(((1, 1.0), (8, 1.0)))
    found = solve(chain([{"a": flat, "b": flat}] * 3, 8), "shares", counted())
    assert not shared(found)
    assert found.value == pytest.approx(2.0)


def test_no_share_where_its_weights_do_not_fit():
    """Each node has room for two layers, and there are four."""
    rows = [{"a": linear(1.0), "b": linear(2.0)}] * 4
    tight = solve(chain(rows, 6, memory=2500, weights=1000), "shares", counted())
    roomy = solve(chain(rows, 6, memory=3500, weights=1000), "shares", counted())
    assert not shared(tight)
    assert shared(roomy)
    assert roomy.value < tight.value


def test_a_large_model_on_unlike_servers():
    """Layers of Llama 3 70B do not divide evenly over 28 GPUs of four kinds; shares help."""
    problem = zoo.problem("llama3-70b", "mixed-4", Objective("throughput", 64), layers=20)
    whole = count_dp.solve(problem, counted(time_limit=5.0))
    found = solve(problem, "shares", counted(time_limit=5.0, start=whole))
    assert found.value < 0.99 * whole.value
    assert shared(found)
    nodes = problem.platform.device
    assert any(len({nodes(d).node for d in at}) > 1 for at in shared(found).values())
    for device, peak in memory_peaks(problem, found.executions, found.copies).items():
        assert peak <= (nodes(device).memory or peak)


def test_a_batch_of_one_stays_whole():
    problem = chain([{"a": linear(1.0), "b": linear(1.0)}] * 3, 1)
    assert solve(problem, "shares", counted()).value == pytest.approx(2.0)


COSTS = st.builds(
    lambda first, more: Cost(((1, first), (4, first + more))),
    st.floats(0.1, 5.0),
    st.floats(0.0, 10.0),
)
ROWS = st.dictionaries(st.sampled_from("abc"), COSTS, min_size=1)


@settings(max_examples=draws(25), deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=6), batch=st.integers(1, 9))
def test_never_worse_than_its_start_and_always_valid(rows, batch):
    problem = chain(rows, batch)
    start = count_dp.solve(problem, counted(time_limit=1.0))
    found = share(problem, counted(time_limit=1.0, start=start))
    assert found.value <= start.value * (1 + 1e-12)
    assert found.lower_bound <= found.value
    assert check_schedule(problem, found) == []


def test_refusals():
    rows = [{"a": linear(1.0), "b": linear(1.0)}] * 2
    with pytest.raises(SolverError, match="use throughput"):
        share(chain(rows, 4, overlap=False), counted())
    with pytest.raises(SolverError, match="use stages"):
        share(chain(rows, 4, contiguous=True), counted())
    with pytest.raises(UsageError, match="throughput"):
        share(chain(rows, 4).with_objective(Objective("latency", 4)), counted())
    exclusive = Platform(
        (Device("a", overlap=True), Device("b", overlap=True)),
        (Link("a", "b", exclusive=True), Link("b", "a")),
    )
    problem = chain(rows, 4)
    with pytest.raises(SolverError, match="use throughput"):
        share(Problem(problem.graph, problem.costs, exclusive, problem.objective), counted())
