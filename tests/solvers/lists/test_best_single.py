"""The best single device: alone, or with its host for what takes no time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError, SolverWarning
from tvm_hetero.problem import KINDS, Objective, Problem
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.lists.best_single import find_single, main_device, place_on_device
from tvm_hetero.solvers.lists.single_bounds import least_values


def accelerated(kind: str = "latency") -> Problem:
    """A quick device that cannot hold the input, which takes no time."""
    return problem_of(
        {"in": {"p1": 0.0}, "work": {"p1": 9.0, "p2": 1.0}},
        [("in", "work", 8)],
        processors(2, bandwidth=16.0),
        Objective(kind),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("kind", "value"), [("latency", 1.5), ("throughput", 1.0)])
def test_an_accelerator_is_alone_though_its_host_holds_the_input(kind: str, value: float):
    answer = solve(accelerated(kind), "single")
    assert answer.value == value and main_device(answer) == "p2"
    assert answer.best_single_device is not None
    assert (answer.best_single_device.device, answer.best_single_device.value) == ("p2", value)


def test_a_task_that_takes_time_must_be_on_the_device():
    problem = problem_of(
        {"in": {"p1": 0.1}, "work": {"p1": 9.0, "p2": 1.0}}, [("in", "work", 8)], processors(2)
    )
    single = solve(problem, "single").best_single_device
    assert single is not None and single.device == "p1"


def test_stages_that_return_to_the_host_are_no_pipeline_but_for_inputs_and_outputs():
    stages = Objective("throughput", contiguous=True)
    free, work = {"p1": 0.0}, {"p1": 9.0, "p2": 1.0}
    ends = problem_of(
        {"in": free, "work": work, "out": free},
        [("in", "work", 8), ("work", "out", 8)],
        processors(2),
        stages,
    )
    assert {e.task: e.device for e in place_on_device(ends, "p2")[0]} == {
        "in": "p1", "work": "p2", "out": "p1"
    }  # fmt: skip
    problem = problem_of(
        {"first": work, "shape": free, "last": work},
        [("first", "shape", 8), ("shape", "last", 8)],
        processors(2),
        stages,
    )
    assert place_on_device(problem, "p2") == ((), ())
    assert place_on_device(problem.with_objective(Objective("throughput")), "p2")[0]


@settings(max_examples=draws(80), deadline=None)
@given(problems(6, kinds=KINDS, batch=3, memory=True))
def test_what_is_attended_is_a_valid_schedule(problem: Problem):
    free = {
        task: {d: replace(c, points=((1, 0.0),)) for d, c in row.items()} if i % 2 else row
        for i, (task, row) in enumerate(problem.costs.items())
    }
    problem = replace(problem, costs=free)
    for name in problem.platform.names:
        try:
            executions, copies = place_on_device(problem, name)
        except HeteroError as error:
            raise AssertionError("attended gives nothing instead") from error
        limit = problem.objective.latency_limit
        late = limit is not None and executions and max(e.end for e in executions) > limit
        if executions and not late:
            schedule = make_schedule(problem, "single", executions, copies, seed=Options().seed)
            assert check_schedule(problem, schedule) == []


def unlike(kind: str = "latency", **sizes: dict[str, int]) -> Problem:
    """Three devices, the last of them nine times as quick as the first."""
    row = {"p1": 9.0, "p2": 3.0, "p3": 1.0}
    objective = Objective(kind)  # type: ignore[arg-type]
    return problem_of({"a": row, "b": row}, [("a", "b", 8)], processors(3), objective, **sizes)


@pytest.mark.filterwarnings("ignore::tvm_hetero.errors.SolverWarning")
@pytest.mark.parametrize("solver", ["auto", "heft", "one-pass", "single"])
def test_when_the_time_is_up_the_best_single_device_is_the_best(solver: str) -> None:
    answer = solve(unlike(), solver, Options(time_limit=1.0, ends=Deadline.after(-1.0)))
    assert answer.value == 2.0
    assert answer.best_single_device is not None
    assert (answer.best_single_device.device, answer.best_single_device.value) == ("p3", 2.0)


@pytest.mark.filterwarnings("ignore::tvm_hetero.errors.SolverWarning")
@given(problems(kinds=KINDS, memory=True, batch=2, feasible=False))
@settings(max_examples=draws(40))
def test_when_the_time_is_up_it_is_the_best_or_not_stated(problem: Problem) -> None:
    late = find_single(replace(problem), Options(ends=Deadline.after(-1.0)))
    schedule, is_certain = find_single(replace(problem), Options())
    assert is_certain
    if late.is_certain:
        assert (late.schedule and late.schedule.value) == pytest.approx(schedule and schedule.value)


@given(problems(kinds=KINDS, batch=2))
@settings(max_examples=draws(40))
def test_no_device_alone_takes_less_than_its_bound(problem: Problem) -> None:
    names = problem.platform.names
    for name, least in zip(names, least_values(problem, names), strict=True):
        executions, copies = place_on_device(problem, name)
        if executions:
            value = make_schedule(problem, "single", executions, copies).value
            assert value >= least * (1 - 1e-9)


def test_what_may_not_be_the_best_is_not_stated() -> None:
    problem = accelerated()
    with pytest.warns(SolverWarning, match="which device alone"):
        answer = solve(problem, "heft", Options(ends=Deadline.after(-1.0)))
    assert answer.best_single_device is None
    assert not check_schedule(problem, answer)
