"""Schedules whose placement was edited: what follows from placement and order is made anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.problem.test_simulate import fork
from tests.strategies import orders, problems
from tvm_hetero.check import check_schedule
from tvm_hetero.check.value import objective_value
from tvm_hetero.errors import UsageError
from tvm_hetero.platform import Device
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.retime import executable_order, retime
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate


def timed(problem: Problem, steps: list[tuple[str, str, tuple[int, ...]]]) -> Schedule:
    executions, copies = simulate(problem, steps)
    value = objective_value(problem, executions, copies)
    kind = problem.objective.kind
    return Schedule(problem.digest, "hand", kind, executions, copies, value, 0.0)


@settings(max_examples=draws(25))
@given(st.data())
def test_what_is_edited_without_times_is_valid_again(data: st.DataObject) -> None:
    """Times that mean nothing but an order, and copies that are wrong, are mended."""
    # One element: parts of a batch may wait for each other in a circle, which is refused.
    problem = data.draw(problems(kinds=("latency", "throughput", "energy"), contiguous=True))
    schedule = timed(problem, data.draw(orders(problem)))
    starts = data.draw(st.permutations(range(len(schedule.executions))))
    edited = replace(
        schedule,
        executions=tuple(
            replace(e, start=float(start), end=float(start))
            for e, start in zip(schedule.executions, starts, strict=True)
        ),
        copies=schedule.copies[1:],
        lower_bound=10 * schedule.value + 1,
    )
    again = retime(problem, edited)
    assert {(e.task, e.device, e.elements) for e in again.executions} == {
        (e.task, e.device, e.elements) for e in schedule.executions
    }
    assert again.lower_bound <= again.value
    left = {violation.rule for violation in check_schedule(problem, again)}
    assert left <= {7, 8}  # a limit of latency, or stages that the drawn placement breaks
    assert retime(problem, again).executions == again.executions


def test_an_order_is_kept_as_far_as_inputs_allow() -> None:
    problem = fork(Device("a"), Device("b"))
    schedule = timed(problem, [("s", "a", (0,)), ("p", "b", (0,)), ("q", "b", (0,))])
    at = {"s": 9.0, "p": 2.0, "q": 1.0}
    rows = [replace(e, start=at[e.task]) for e in schedule.executions]
    assert [e.task for e in executable_order(problem, rows)] == ["s", "q", "p"]


def test_a_device_that_cannot_run_the_task_is_named() -> None:
    problem = fork(Device("a"), Device("b"), objective=Objective())
    schedule = timed(problem, [("s", "a", (0,)), ("p", "b", (0,)), ("q", "b", (0,))])
    wrong = replace(schedule.executions[1], device="c")
    with pytest.raises(UsageError, match="task 'p' cannot run on 'c'; it can on a, b"):
        retime(problem, replace(schedule, executions=(schedule.executions[0], wrong)))


def test_what_was_proven_of_another_problem_is_not_said_of_this_one() -> None:
    """Measured anew the same tasks take half as long: the old bound is above the new optimum."""
    problem = fork(Device("a"), Device("b"), objective=Objective())
    old = timed(problem, [("s", "a", (0,)), ("p", "a", (0,)), ("q", "a", (0,))])
    old = replace(old, lower_bound=old.value, status="optimal", best_single_device=("a", old.value))
    assert retime(problem, old) == old
    costs = {
        task: {
            device: replace(cost, points=((1, cost.seconds(1) / 2),))
            for device, cost in row.items()
        }
        for task, row in problem.costs.items()
    }
    again = retime(replace(problem, costs=costs), old)
    assert again.value < old.value
    assert (again.lower_bound, again.status, again.best_single_device) == (0.0, "feasible", None)
