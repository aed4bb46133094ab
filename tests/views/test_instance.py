"""Instances: positions, parts of a divided batch, and what the solvers make of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import fork_join, problem_of, processors
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.cpsat.batch import solve_whole
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler
from tvm_hetero.solvers.timing.timing import make_plan, retime, to_schedule
from tvm_hetero.views.instance import Instance

OPTIONS = Options(time_limit=20.0)


def chain(batch: int) -> Problem:
    return problem_of(
        {"a": {"p1": 1.0, "p2": 2.0}, "b": {"p1": 3.0, "p2": 1.0}},
        [("a", "b", 8)],
        processors(2, bandwidth=16.0),
        Objective("latency", batch),
        weight_bytes={"a": 5, "b": 7},
    )


def test_undivided_parts_are_the_tasks():
    instance = Instance(chain(4))
    assert instance.task_of == (0, 1) and instance.parts_of == ((0,), (1,))
    assert instance.elements == ((0, 1, 2, 3),) * 2 and not instance.divided
    assert instance.seconds == ((4.0, 8.0), (12.0, 4.0))
    assert [flow.nbytes for flow in instance.tensors] == [32]


def test_parts_have_their_own_sizes_and_meet_where_they_share_elements():
    instance = Instance(chain(4), {"a": [(0,), (1, 2, 3)], "b": [(0, 1), (2, 3)]})
    assert instance.divided and instance.tasks == ("a", "a", "b", "b")
    assert instance.parts_of == ((0, 1), (2, 3)) and instance.weights == (5, 5, 7, 7)
    assert instance.seconds[1] == (3.0, 6.0)
    flows = [(flow.maker, flow.readers, flow.nbytes) for flow in instance.tensors]
    assert flows == [(0, (2,), 8), (1, (2, 3), 24)]
    assert instance.inputs == ((), (), (0, 1), (1,))


@pytest.mark.parametrize("parts", [[(0,)], [(0, 1), (1,)], [(0, 1), ()], [(0, 1, 2)]])
def test_a_division_must_hold_every_element_once(parts):
    with pytest.raises(UsageError, match="exactly one part"):
        Instance(chain(2), {"a": parts})


def test_a_division_of_no_task_is_refused():
    with pytest.raises(UsageError, match="no task 'z'"):
        Instance(chain(2), {"z": [(0, 1)]})


def divided(draw: st.DrawFn, problem: Problem) -> Instance:
    """The problem with a random division of some tasks."""
    division = {}
    for task in problem.tasks:
        labels = draw(st.lists(st.integers(0, 2), min_size=problem.batch, max_size=problem.batch))
        parts = [tuple(e for e, label in enumerate(labels) if label == k) for k in range(3)]
        division[task.id] = [part for part in parts if part]
    return Instance(problem, division)


@settings(max_examples=draws(60), deadline=None)
@given(st.data())
def test_a_placed_division_becomes_a_valid_schedule(data):
    problem = data.draw(problems(5, batch=4, kinds=("latency", "energy", "cost")))
    assume(problem.objective.latency_limit is None)
    try:
        instance = divided(data.draw, problem)
    except HeteroError:
        assume(False)
    home = {
        g: data.draw(st.sampled_from(instance.devices[group[0]]))
        for g, group in enumerate(instance.groups)
    }
    placement = [home[instance.group_of[v]] for v in range(len(instance))]
    try:
        plan = make_plan(instance, placement)
    except HeteroError:
        assume(False)
    starts = retime(plan, [(0.0, 0.0)] * len(plan))
    schedule = make_schedule(problem, "test", *to_schedule(plan, starts))
    assert check_schedule(problem, schedule) == []


@settings(max_examples=draws(36), deadline=None)
@given(st.data())
def test_list_scheduling_keeps_memory_when_parts_share_weights(data):
    problem = data.draw(problems(4, batch=3, memory=True, colors=False))
    try:
        instance = divided(data.draw, problem)
        scheduler = ListScheduler(instance, set(range(len(instance.names))))
        executions, copies = scheduler.run(instance.order, by_space=True)
    except HeteroError:
        assume(False)
    schedule = make_schedule(problem, "test", executions, copies)
    assert check_schedule(problem, schedule) == []


@settings(max_examples=draws(25), deadline=None)
@given(problems(2, max_devices=2, batch=2, memory=True))
def test_the_best_division_of_the_exact_model_is_the_optimum(problem):
    assume(problem.batch == 2)
    ways = ([(0, 1)], [(0,), (1,)])
    best = math.inf
    for i in range(2 ** len(problem.tasks)):
        division = {task.id: ways[i >> p & 1] for p, task in enumerate(problem.tasks)}
        try:
            instance = Instance(problem, division)
            answer = solve_whole(instance, OPTIONS, None, CpsatBudget.of(OPTIONS, 1e12))
        except HeteroError:
            continue
        assert check_schedule(problem, answer) == []
        best = min(best, answer.value)
    assert best == pytest.approx(brute_force(problem), rel=1e-6)


def test_dividing_a_batch_lets_two_devices_share_it():
    problem = fork_join(1).with_objective(Objective("latency", 2))
    halves = {task.id: [(0,), (1,)] for task in problem.tasks}
    whole = solve_whole(Instance(problem), OPTIONS, None, CpsatBudget.of(OPTIONS, 1e12))
    parts = solve_whole(Instance(problem, halves), OPTIONS, None, CpsatBudget.of(OPTIONS, 1e12))
    assert (whole.value, parts.value) == (6.0, 3.0)
