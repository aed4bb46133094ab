"""Explanations: the critical path, idle time by cause, and what would help."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from tests.draws import draws
from tests.solvers.examples import fork_join, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Objective
from tvm_hetero.report.schedule.explain import explain
from tvm_hetero.report.schedule.explain_text import explain_text
from tvm_hetero.report.schedule.idle_time import BUSY, COPY, DATA, DONE, HELD
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.timing.decomposed_schedule import division_of, replay

# Hardly any time for the bound, of which nothing is asked here.
BRIEF = Options(time_limit=1e-3)


def test_the_path_of_a_relay_is_all_of_it():
    problem = problem_of(
        {"a": {"p1": 1.0}, "b": {"p2": 2.0}}, [("a", "b", 8)], processors(2, bandwidth=16.0)
    )
    explanation = explain(problem, solve(problem, "heft", BRIEF))
    steps = [(s.name, s.lane, s.start, s.end, s.waited) for s in explanation.path]
    assert steps == [
        ("a", "p1", 0.0, 1.0, ""),
        ("a", "p1 → p2", 1.0, 1.5, DATA),
        ("b", "p2", 1.5, 3.5, COPY),
    ]
    first, second = explanation.idle
    assert (first.computes, first.causes[DONE]) == (1.0, 2.5)
    assert (second.computes, second.causes[DATA], second.causes[COPY]) == (2.0, 1.0, 0.5)
    saved = {one.what: one.saved for one in explanation.helps}
    assert saved["task b"] == pytest.approx(0.2) and saved["task a"] == pytest.approx(0.1)
    assert saved["all copies"] == pytest.approx(0.05)


def test_a_busy_device_is_named():
    problem = problem_of({"a": {"p1": 1.0}, "b": {"p1": 2.0}}, [], processors(1))
    path = explain(problem, solve(problem, "heft", BRIEF)).path
    assert len(path) == 2 and path[1].waited == BUSY


@settings(max_examples=draws(40), deadline=None)
@given(problems(6, kinds=("latency", "energy", "cost"), batch=3, memory=True))
def test_path_and_idle_time_cover_the_makespan(problem):
    schedule = solve(problem, "heft", BRIEF)
    explanation = explain(problem, schedule)
    end = max(e.end for e in schedule.executions)
    held = sum(
        after.start - before.end
        for before, after in zip(explanation.path, explanation.path[1:], strict=False)
        if after.waited == HELD
    )
    length = math.fsum(s.end - s.start for s in explanation.path)
    first = explanation.path[0].start
    assert length + held + first == pytest.approx(end, abs=1e-9)
    for row in explanation.idle:
        alone = not problem.platform.device(row.device).overlap
        total = row.computes + row.copies * alone + math.fsum(row.causes.values())
        assert total == pytest.approx(end, abs=1e-9)
    assert all(0 <= one.saved <= max(end, schedule.value) for one in explanation.helps)


@settings(max_examples=draws(36), deadline=None)
@given(problems(6, kinds=("throughput",), batch=2))
def test_a_period_is_explained_by_its_busiest_resource(problem):
    schedule = solve(problem, "heft", BRIEF)
    explanation = explain(problem, schedule)
    busy = math.fsum(s.end - s.start for s in explanation.path)
    assert busy == pytest.approx(schedule.value, abs=1e-9)
    assert explain_text(explanation, schedule, problem)


@settings(max_examples=draws(36), deadline=None)
@given(problems(6, batch=3, memory=True))
def test_a_replay_is_never_later_than_the_schedule(problem):
    schedule = solve(problem, "single")
    assume(division_of(schedule))
    try:
        again = replay(problem, schedule)
    except HeteroError:
        assume(False)
    assert again.makespan() <= schedule.value + 1e-9


def test_text_names_what_would_help_most():
    problem = topcuoglu()
    schedule = solve(problem, "heft", BRIEF)
    text = explain_text(explain(problem, schedule), schedule, problem)
    assert "Critical path" in text and "What would help most: " in text
    assert "n10" in text and "a copy" in text


def test_equally_critical_tasks_help_nothing_alone():
    problem = fork_join(2, overlap=True)
    problem = replace(problem, objective=Objective("latency"))
    explanation = explain(problem, solve(problem, "cpsat"))
    helps = {one.what: one.saved for one in explanation.helps}
    assert helps["task in"] > 0 and helps["task out"] > 0
    assert min(helps.get("task b0", 0.0), helps.get("task b1", 0.0)) == 0.0
