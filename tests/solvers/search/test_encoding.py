"""The space that the classical searches search, and what they share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join, problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem import KINDS, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.lists import heft
from tvm_hetero.solvers.native import library as native
from tvm_hetero.solvers.native import search_library
from tvm_hetero.solvers.search import genetic, hill_climbing, random_walk
from tvm_hetero.solvers.search.encoding import EncodedSchedule, EncodingSpace
from tvm_hetero.solvers.search.scorers import scorer
from tvm_hetero.solvers.search.search_loop import Search
from tvm_hetero.views.instance import Instance

SEARCHES: dict[str, Callable[[Problem, Options], Schedule]] = {
    "genetic": genetic.solve,
    "hill-climbing": hill_climbing.solve,
    "random-walk": random_walk.solve,
}
QUICK = counted(time_limit=0.1)


def assert_is_candidate(space: EncodingSpace, candidate: EncodedSchedule) -> None:
    """Devices are allowed, groups together, the sequence topological."""
    instance = space.instance
    assert all(d in instance.devices[v] for v, d in enumerate(candidate.placement))
    assert all(len({candidate.placement[v] for v in group}) == 1 for group in instance.groups)
    place = {item: i for i, item in enumerate(candidate.sequence)}
    assert sorted(place) == list(range(space.items))
    assert all(place[b] < place[item] for item in place for b in space.before[item])


@settings(max_examples=draws(30))
@given(problem=problems(max_tasks=7, kinds=KINDS, memory=True), seed=st.integers(0, 9))
def test_draws_and_moves_stay_in_the_space(problem: Problem, seed: int) -> None:
    space, rng = EncodingSpace(Instance(problem)), random.Random(seed)
    here = EncodedSchedule(space.draw_placement(rng), space.draw_sequence(rng))
    for _ in range(20):
        assert_is_candidate(space, here)
        here = space.neighbour(here, rng)


@settings(max_examples=draws(40))
@given(problem=problems(max_tasks=7, kinds=("latency",), exclusive=False))
def test_a_schedule_becomes_a_candidate_that_is_no_worse(problem: Problem) -> None:
    instance = Instance(problem)
    space = EncodingSpace(instance)
    try:
        schedule = heft.solve(problem, counted())
    except InfeasibleError:
        return
    candidate = space.of_schedule(schedule)
    assert candidate is not None
    assert_is_candidate(space, candidate)
    if not instance.contended:
        excess, value, _ = scorer(instance).score(candidate)
        assert excess == 0.0
        assert value <= schedule.value * (1 + 1e-12)


@settings(max_examples=draws(40))
@given(
    problem=problems(max_tasks=6, kinds=KINDS, memory=True, contiguous=True),
    seed=st.integers(0, 9),
)
def test_what_a_score_promises_is_written(problem: Problem, seed: int) -> None:
    instance, rng = Instance(problem), random.Random(seed)
    space, judge = EncodingSpace(instance), scorer(instance)
    for _ in range(3):
        candidate = EncodedSchedule(space.draw_placement(rng), space.draw_sequence(rng))
        excess, value, _ = judge.score(candidate)
        if excess == 0:
            schedule = judge.write(candidate, "test", 0)
            assert check_schedule(problem, schedule) == []
            assert schedule.value == pytest.approx(value, rel=1e-9, abs=1e-15)


def test_batch_that_is_divided_gives_no_candidate() -> None:
    problem = fork_join(2)
    schedule = solve(problem, "heft")
    assert EncodingSpace(Instance(fork_join(3))).of_schedule(schedule) is None


@pytest.mark.parametrize("name", SEARCHES)
@settings(max_examples=draws(25))
@given(problem=problems(max_tasks=4, kinds=KINDS, memory=True, feasible=False, contiguous=True))
def test_never_below_the_optimum(name: str, problem: Problem) -> None:
    try:
        answer = SEARCHES[name](problem, QUICK)
    except InfeasibleError as error:
        text = str(error)
        assert "found no schedule that keeps memory" in text or "no device can run all" in text
        return
    assert check_schedule(problem, answer) == []
    assert answer.value >= brute_force(problem) * (1 - 1e-9)


@pytest.mark.parametrize("name", SEARCHES)
def test_same_seed_same_bytes(name: str) -> None:
    """As long as the clock, which is only a net, does not cut in: on a busy machine it may."""
    uncut = replace(QUICK, deadline=1000.0)
    for problem in (topcuoglu(), fork_join(5, overlap=False)):
        first, second = (SEARCHES[name](problem, uncut) for _ in range(2))
        assert first.dumps(canonical=True) == second.dumps(canonical=True)


@pytest.mark.parametrize("name", ["genetic", "hill-climbing"])
def test_goes_on_from_a_start(name: str) -> None:
    problem = topcuoglu()
    start = solve(problem, "exhaustive", counted(time_limit=100.0))
    answer = SEARCHES[name](problem, counted(time_limit=1e-3, start=start))
    assert answer.value == start.value


def test_looks_are_counted() -> None:
    problem = topcuoglu()
    search = Search(problem, counted(time_limit=10.0), "test")
    looks = search.looks
    search.score(search.draw())
    assert search.looks == looks - 1
    assert Search(problem, counted(time_limit=20.0), "test").looks > looks


def test_nothing_that_keeps_the_limits_is_said() -> None:
    costs = {"a": {"p1": 1.0}, "b": {"p2": 1.0}}
    platform = processors(2)
    apart = problem_of(costs, [("a", "b", 1)], type(platform)(platform.devices))
    with pytest.raises(InfeasibleError, match="random-walk found no schedule that keeps"):
        random_walk.solve(apart, QUICK)


def test_a_missing_library_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(search_library, "LIBRARY", tmp_path / "none.so")
    native._library.cache_clear()
    search_library.search_library.cache_clear()
    with pytest.raises(SolverError, match="make setup"):
        hill_climbing.solve(topcuoglu(), QUICK)
    monkeypatch.undo()
    native._library.cache_clear()
    search_library.search_library.cache_clear()
    assert hill_climbing.solve(topcuoglu(), QUICK).value <= 80.0
