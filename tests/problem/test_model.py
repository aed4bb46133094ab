"""Problems: costs of batches, devices, colors, and every problem that is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import FormatError, PlatformError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph

PLATFORM = Platform((Device("big"), Device("little")), name="bl")
GRAPH = TaskGraph([Task("a", color="red"), Task("b"), Task("c", color="red")], [])
ONE = Cost(((1, 1.0),))
COSTS = {"a": {"big": ONE}, "b": {"little": ONE, "big": ONE}, "c": {"big": Cost(((1, 3.0),))}}


def test_a_number_is_seconds_an_element() -> None:
    assert [Cost(((1, 0.5),)).seconds(n) for n in (1, 2, 7)] == [0.5, 1.0, 3.5]


def test_a_table_is_linear_between_and_beyond_its_points() -> None:
    cost = Cost(((2, 4.0), (4, 5.0), (8, 9.0)))
    assert [cost.seconds(n) for n in (1, 2, 3, 4, 6, 8, 10)] == [2.0, 4.0, 4.5, 5.0, 7.0, 9.0, 11.0]


def test_beyond_a_falling_table_each_element_takes_the_last_time_an_element() -> None:
    cost = Cost(((3, 3.0), (4, 2.5)))
    assert [cost.seconds(n) for n in (3, 4, 8, 400)] == [3.0, 2.5, 5.0, 250.0]


def test_beyond_a_flat_table_there_is_nothing_to_add() -> None:
    assert Cost(((1, 3.0), (2, 3.0))).seconds(9) == 3.0


@given(st.dictionaries(st.integers(1, 20), st.floats(1e-9, 100), min_size=1, max_size=5))
def test_no_batch_is_free_and_beyond_the_table_none_is_quicker_than_a_smaller_one(
    table: dict[int, float],
) -> None:
    cost = Cost(tuple(sorted(table.items())))
    last = max(table)
    assert all(cost.seconds(n) > 0 for n in (*range(1, last + 2), 10**3, 10**6))
    later = [cost.seconds(n) for n in sorted({last, last + 1, last + 2, 2 * last, 10**3, 10**6})]
    assert later == sorted(later)


@given(
    st.dictionaries(
        st.integers(1, 20), st.just(0.0) | st.floats(1e-30, 100), min_size=1, max_size=5
    ),
    st.integers(1, 30),
)
def test_costs_pass_through_their_points(table: dict[int, float], elements: int) -> None:
    cost = Cost(tuple(sorted(table.items())))
    assert all(cost.seconds(n) == seconds for n, seconds in table.items())
    if elements <= max(table):
        assert cost.seconds(elements) <= max(table.values())


@given(st.sets(st.integers(2, 9), max_size=4), st.integers(1, 40))
def test_calls_take_the_largest_kernel_that_fits(others: set[int], elements: int) -> None:
    cost = Cost(((1, 1.0),), sizes=(1, *sorted(others)))
    calls = cost.calls_of(elements)
    assert sum(calls) == elements
    left = elements
    for size in calls:
        assert size == max(n for n in cost.sizes if n <= left)
        left -= size


def test_calls_by_example() -> None:
    cost = Cost(((1, 1.0),), sizes=(1, 4, 8))
    assert cost.calls_of(13) == (8, 4, 1) and cost.calls_of(7) == (4, 1, 1, 1)
    assert cost.calls_of(16) == (8, 8) and Cost(((1, 1.0),)).calls_of(2) == (1, 1)
    assert cost.seconds(13) == 13.0  # only points say what it takes


def test_queries() -> None:
    problem = Problem(GRAPH, COSTS, PLATFORM, Objective(batch=3))
    assert problem.devices_for("b") == ("big", "little")  # the platform's order
    assert problem.colors == {"red": ("a", "c")}
    assert problem.seconds("c", "big", 2) == 6.0
    assert (problem.batch, problem.tasks) == (3, GRAPH.tasks)
    with pytest.raises(KeyError):
        problem.seconds("a", "little")


def test_another_objective_is_another_problem() -> None:
    problem = Problem(GRAPH, COSTS, PLATFORM)
    other = problem.with_objective(Objective("throughput"))
    assert other.objective.kind == "throughput"
    assert other.digest != problem.digest
    assert other.with_objective(Objective()).digest == problem.digest


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (Objective("speed"), "unknown kind 'speed'; known: cost, energy, latency, throughput"),  # type: ignore[arg-type]
        (Objective("latncy"), "did you mean 'latency'?"),  # type: ignore[arg-type]
        (Objective(batch=0), "expected a batch of 1 to 1000000 elements, got 0"),
        (Objective(batch=10**12), "expected a batch of 1 to"),
        (Objective("throughput", 1, 2.0), "throughput takes no latency_limit; leave it out"),
        (
            Objective("energy"),
            "objective energy: device 'big' has no watts; add it in the platform file",
        ),
        (
            Objective("cost"),
            "objective cost: device 'big' has no price; add it in the platform file",
        ),
    ],
)
def test_refused_objectives(objective: Objective, message: str) -> None:
    with pytest.raises(FormatError) as error:
        Problem(GRAPH, COSTS, PLATFORM, objective)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"z": {"big": ONE}}, "costs of a task 'z' that the graph lacks"),
        ({"b": {}}, "task 'b' has no cost on any device, so nothing can run it"),
        ({"b": {"big": Cost(())}}, "task 'b' on 'big': expected costs for rising batch sizes"),
        ({"b": {"big": Cost(((0, 1.0),))}}, "from 1, got [0]"),
        ({"b": {"big": Cost(((2, 1.0), (2, 1.0)))}}, "got [2, 2]"),
        (
            {"b": {"big": Cost(((3, -1.0),))}},
            "expected a time of 0, or from 1e-30 to 1e+30 s, for 3 elements",
        ),
        ({"b": {"big": Cost(((1, math.nan),))}}, "expected a time of 0"),
        ({"b": {"big": Cost(((1, math.inf),))}}, "expected a time of 0"),
        (
            {"b": {"big": replace(ONE, sizes=(2, 4))}},
            "sizes of task 'b' on 'big': expected rising numbers from 1, got [2, 4]",
        ),
        ({"b": {"big": replace(ONE, sizes=(1, 4, 4))}}, "rising numbers from 1, got [1, 4, 4]"),
        ({"b": {"big": replace(ONE, sizes=())}}, "rising numbers from 1, got []"),
    ],
)
def test_refused_costs(changed: dict[str, dict[str, Cost]], message: str) -> None:
    with pytest.raises(FormatError) as error:
        Problem(GRAPH, COSTS | changed, PLATFORM)
    assert message in str(error.value)


def test_a_missing_task_and_a_missing_device() -> None:
    with pytest.raises(FormatError, match="task 'c' has no cost on any device"):
        Problem(GRAPH, {"a": COSTS["a"], "b": COSTS["b"]}, PLATFORM)
    with pytest.raises(PlatformError, match="'litle', which platform 'bl' lacks; did you mean"):
        Problem(GRAPH, COSTS | {"b": {"litle": ONE}}, PLATFORM)
