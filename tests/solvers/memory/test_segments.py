"""Segments: the division that a chain must have, and plans that keep all limits."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from tests.bounds.memory.test_path_runs import chain
from tests.draws import draws
from tests.strategies import problems
from tvm_hetero.check.checker import check_schedule
from tvm_hetero.errors import HeteroError, SolverError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.memory import segments
from tvm_hetero.views.instance import Instance

QUICK = Options(time_limit=0.05)


@pytest.mark.parametrize(("memory", "devices"), [(69, 1), (39, 2), (29, 3)])
def test_a_chain_is_cut_where_memories_are_full(memory: int, devices: int) -> None:
    instance = Instance(chain(6, memory, 2))
    placement = segments.divide(instance, instance.order)
    assert placement is not None
    changes = sum(a != b for a, b in pairwise(placement))
    assert (len(set(placement)), changes) == (devices, devices - 1)


def test_a_chain_is_proven_by_its_path() -> None:
    problem = chain(6, 29, 2)
    answer = solve(problem, "segments", Options(time_limit=1.0, deadline=60.0))
    assert answer.status == "optimal" and answer.value == pytest.approx(10)


@settings(max_examples=draws(40), deadline=None)
@given(problem=problems(max_tasks=7, memory=True))
def test_what_it_finds_breaks_no_rule(problem: Problem) -> None:
    try:
        found = segments.solve(problem, QUICK)
    except HeteroError:
        return
    assert check_schedule(problem, found) == []


def test_of_other_objectives_it_says_so() -> None:
    problem = replace(chain(3, 69, 2), objective=Objective("throughput"))
    with pytest.raises(SolverError, match="latency of one element"):
        segments.solve(problem, QUICK)


def test_when_the_time_is_up_one_run_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, anneal = [], segments.NativeSearch.anneal

    def counted(*given: Any, **named: Any) -> Any:
        begun.append(named["deadline"])
        return anneal(*given, **named)

    monkeypatch.setattr(segments.NativeSearch, "anneal", counted)
    problem = chain(6, 29, 2)
    found = segments.solve(problem, replace(QUICK, ends=Deadline(0.0, lambda: 1.0)))
    assert check_schedule(problem, found) == []
    assert len(begun) == 1


def test_when_the_time_is_up_divisions_are_tried_until_one_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, late = chain(6, 29, 2), replace(QUICK, ends=Deadline(0.0, lambda: 1.0))
    (good,) = segments.divisions(Instance(problem))
    bad = ([0] * len(problem.tasks), good[1])  # all on one device, whose memory is too small
    monkeypatch.setattr(segments, "divisions", lambda instance: iter([bad, bad, good]))
    assert check_schedule(problem, segments.solve(problem, late)) == []
    monkeypatch.setattr(segments, "divisions", lambda instance: iter([bad, bad]))
    with pytest.raises(SolverError, match="time is up after 2 of 11 runs"):
        segments.solve(problem, late)


def test_no_more_runs_are_told_of_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """It said "16 of 12" where the long runs were made, too; the time is up at any moment."""
    problem = chain(6, 29, 2)
    bad = ([0] * len(problem.tasks), list(Instance(problem).order))
    monkeypatch.setattr(segments, "divisions", lambda instance: iter([bad, bad]))
    for looks in range(2, 40, 3):
        clock = partial(next, count(0.0, 1.0))
        with pytest.raises(SolverError) as error:
            segments.solve(problem, Options(time_limit=1e-6, deadline=looks, clock=clock))
        told = re.search(r"after (\d+) of (\d+) runs", str(error.value))
        assert told is None or int(told[1]) <= int(told[2]) == 11, looks
