"""Energy of a whole period: a clock that runs until it ends, and what is asked besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_hetero.errors import UsageError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.objective import objective_value
from tvm_hetero.problem.period import over_period
from tvm_hetero.problem.simulate import simulate


def one_task(limit: float | None = None, batch: int = 1) -> Problem:
    """Two seconds an element at 10 W, 1 W while idle."""
    platform = Platform((Device("d", watts=10.0, idle_watts=1.0, price=3600.0),))
    costs = {"period": {"d": Cost(((1, 2.0),))}}
    return Problem(
        TaskGraph([Task("period")], []), costs, platform, Objective("energy", batch, limit)
    )


def value_over(problem: Problem, seconds: float) -> float:
    timed = over_period(problem, seconds)
    elements = tuple(range(problem.batch))
    order = timed.graph.topological_order
    made = simulate(timed, [(t, timed.devices_for(t)[0], elements) for t in order])
    assert max(run.end for run in made.executions) == seconds
    return objective_value(timed, made.executions, made.copies)


def test_what_is_in_use_idles_until_the_period_ends() -> None:
    assert value_over(one_task(), 5.0) == 2 * 10 + 3 * 1
    assert value_over(one_task(batch=2), 5.0) == 4 * 10 + 1 * 1
    assert value_over(replace(one_task(), objective=Objective("cost")), 5.0) == 5.0


def test_the_clock_takes_a_name_that_is_free_and_nothing_ends_later() -> None:
    timed = over_period(one_task(), 5.0)
    assert [task.id for task in timed.tasks] == ["period", "period_1"]
    assert timed.platform.names == ("d", "period") and timed.objective.latency_limit == 5.0


def test_a_limit_that_is_no_shorter_asks_nothing_more_and_a_shorter_one_is_refused() -> None:
    assert over_period(one_task(limit=5.0), 5.0).objective.latency_limit == 5.0
    assert over_period(one_task(limit=9.0), 5.0).objective.latency_limit == 5.0
    with pytest.raises(UsageError, match=r"latency limit of 4\.00 s is below the period of 5\.00"):
        over_period(one_task(limit=4.0), 5.0)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_refusals(seconds: float) -> None:
    with pytest.raises(UsageError, match="expected more than 0"):
        over_period(one_task(), seconds)
    with pytest.raises(UsageError, match="for energy or cost, not for latency"):
        over_period(replace(one_task(), objective=Objective("latency")), 1.0)
