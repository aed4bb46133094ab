"""Values of the four objectives by hand, and what they do not depend on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import orders, problems
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import KINDS, Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.objective import loads, makespan, objective_value
from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.problem.simulate import simulate

EXECUTIONS = [Execution("s", "a", (0,), 0.0, 2.0), Execution("r", "b", (0,), 5.0, 6.0)]
COPIES = [Copy("s", (0,), "a", "b", 2.0, 5.0)]


def problem(kind: Kind, *, overlap: bool = False, exclusive: bool = False) -> Problem:
    """s on a (2 s), a copy (3 s), r on b (1 s); c is never used."""
    devices = (
        Device("a", watts=10.0, idle_watts=1.0, price=3600.0, overlap=overlap),
        Device("b", watts=4.0, idle_watts=0.5, price=7200.0, overlap=overlap),
        Device("c", watts=100.0, idle_watts=50.0, price=9999.0),
    )
    platform = Platform(devices, (Link("a", "b", 4.0, 0.0, exclusive),))
    costs = {"s": {"a": Cost(((1, 2.0),))}, "r": {"b": Cost(((1, 1.0),))}}
    graph = TaskGraph([Task("s"), Task("r")], [Edge("s", "r", 12)])
    return Problem(graph, costs, platform, Objective(kind))


@pytest.mark.parametrize(
    ("kind", "value", "with_engines"),
    [
        ("latency", 6.0, 6.0),
        ("throughput", 5.0, 2.0),
        # a: busy 5 of 6 s; b: busy 4 of 6. With engines 2 and 1.
        ("energy", 10 * 5 + 1 * 1 + 4 * 4 + 0.5 * 2, 10 * 2 + 1 * 4 + 4 * 1 + 0.5 * 5),
        ("cost", (1 + 2) * 6.0, (1 + 2) * 6.0),
    ],
)
def test_by_hand(kind: Kind, value: float, with_engines: float) -> None:
    assert objective_value(problem(kind), EXECUTIONS, COPIES) == value
    assert objective_value(problem(kind, overlap=True), EXECUTIONS, COPIES) == with_engines


def test_an_exclusive_link_can_be_the_bottleneck() -> None:
    steady = problem("throughput", overlap=True, exclusive=True)
    assert loads(steady, EXECUTIONS, COPIES) == {"a": 2.0, "b": 1.0, ("a", "b"): 3.0}
    assert objective_value(steady, EXECUTIONS, COPIES) == 3.0


def test_a_stop_on_the_way_is_in_use() -> None:
    """A device that only forwards has its price, and idles where it has a copy engine."""
    devices = tuple(
        Device(name, watts=1.0, idle_watts=1.0, price=3600.0, overlap=True) for name in "abc"
    )
    platform = Platform(devices, (Link("a", "b"), Link("b", "c")))
    one = Cost(((1, 1.0),))
    graph = TaskGraph([Task("s"), Task("r")], [Edge("s", "r", 1)])
    through = Problem(graph, {"s": {"a": one}, "r": {"c": one}}, platform, Objective("cost"))
    executions, copies = simulate(through, [("s", "a", (0,)), ("r", "c", (0,))])
    assert objective_value(through, executions, copies) == 3 * 2.0
    energy = through.with_objective(Objective("energy"))
    assert objective_value(energy, executions, copies) == 3 * 2.0


def test_nothing_takes_no_time() -> None:
    assert makespan([]) == 0.0


@given(st.data(), problems(kinds=KINDS, batch=3, exact=False))
def test_the_order_of_the_rows_does_not_matter(data: st.DataObject, given_: Problem) -> None:
    executions, copies = simulate(given_, data.draw(orders(given_)))
    value = objective_value(given_, executions, copies)
    shuffled = data.draw(st.permutations(executions)), data.draw(st.permutations(copies))
    assert objective_value(given_, *shuffled) == value
