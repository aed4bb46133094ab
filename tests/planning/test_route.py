"""Routes: a batch that is alone takes as long as its schedule says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.strategies import problems
from tvm_hetero import zoo
from tvm_hetero.errors import InfeasibleError, PlatformError
from tvm_hetero.planning.clock import Clock
from tvm_hetero.planning.route import Route, in_order, make_route, route_of
from tvm_hetero.problem import Objective
from tvm_hetero.problem.objective import makespan
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.lists import heft


def alone(route: Route, elements: range) -> float:
    """Seconds of one batch on an empty platform."""
    clock = Clock(route.resources)
    ends: list[float] = []
    clock.send(route, elements, lambda: ends.append(clock.now))
    clock.run()
    (end,) = ends
    return end


@settings(max_examples=draws(36), deadline=None)
@given(problem=problems(max_tasks=9, kinds=("latency",), batch=3, exact=False))
def test_a_batch_alone_takes_what_its_schedule_says(problem):
    """Whatever links, copy engines and shares: HEFT leaves no gap that could be closed."""
    try:
        schedule = heft.solve(problem, Options(time_limit=1.0))
    except InfeasibleError:  # a platform without a link
        return
    assert alone(route_of(problem, schedule), range(problem.batch)) <= schedule.value * (1 + 1e-9)


@settings(max_examples=draws(36), deadline=None)
@given(problem=problems(max_tasks=9, kinds=("latency",), batch=3, exact=False), data=st.data())
def test_any_placement_takes_what_the_simulator_of_schedules_says(problem, data):
    steps = [
        (t, data.draw(st.sampled_from(problem.devices_for(t))), tuple(range(problem.batch)))
        for t in problem.graph.topological_order
    ]
    try:
        timed = in_order(problem, steps)
    except PlatformError:  # a platform without a link
        return
    took = alone(make_route(problem, timed), range(problem.batch))
    says = makespan(timed.executions)
    assert took <= says * (1 + 1e-9) + 1e-12
    if not problem.terminals:  # inputs and outputs wait for no device here
        assert took == pytest.approx(says, rel=1e-9, abs=1e-12)


def test_tasks_in_a_row_are_one_leg():
    problem = zoo.problem("gpt2-xl", "diviml")
    schedule = solve(problem, "single", Options(time_limit=1.0))
    route = route_of(problem, schedule)
    longest = max(len(leg.runs) for leg in route.legs)
    assert longest == 2 * 48 + 2  # layers, embedding, head
    assert alone(route, range(1)) == pytest.approx(schedule.value)


def test_a_throughput_plan_has_a_route_of_one_batch():
    problem = zoo.problem("gpt2-xl", "diviml:2", Objective("throughput", 4), layers=6)
    schedule = solve(problem, "count-dp", Options(time_limit=1.0))
    took = alone(route_of(problem, schedule), range(4))
    assert took >= schedule.value * (1 - 1e-9)


def test_missing_elements_cost_what_the_tables_say():
    problem = zoo.problem("gpt2-xl", "diviml", Objective("latency", 8), layers=3)
    schedule = solve(problem, "single", Options(time_limit=1.0))
    route = route_of(problem, schedule)
    device = schedule.best_single_device
    assert device is not None
    for count in (0, 1, 3, 8):
        work = (
            sum(
                problem.seconds(e.task, e.device, count)
                for e in schedule.executions
                if problem.graph.task(e.task).op not in ("input", "output")
            )
            if count
            else 0
        )
        copies = sum(
            problem.platform.link(c.src, c.dst).seconds(  # type: ignore[union-attr]
                problem.graph.tensors[c.tensor].bytes * count
            )
            for c in schedule.copies
        ) if count else 0  # fmt: skip
        assert alone(route, range(count)) == pytest.approx(work + copies)
