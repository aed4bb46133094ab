"""The best so far: what a search that is ended from outside leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.solvers.examples import fork_join
from tvm_hetero.check import check_schedule
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import BestSoFar, Options, solve
from tvm_hetero.util.search_clock import allow_searches, stop_searches


@pytest.fixture
def stopped() -> Iterator[None]:
    """Searches are to stop."""
    stop_searches()
    yield
    allow_searches()


@pytest.fixture(scope="module")
def problem() -> Problem:
    return fork_join(6)


def test_nothing_is_known_at_first(problem: Problem) -> None:
    assert BestSoFar(problem).answer(1.0, 0) is None


def test_the_better_schedule_and_the_higher_bound_are_kept(problem: Problem) -> None:
    poor, good = solve(problem, "single"), solve(problem, "auto")
    assert good.value < poor.value
    best = BestSoFar(problem)
    best.offer(good, 0.5 * good.value)
    best.offer(poor, 0.25 * good.value)
    answer = best.answer(2.0, 7)
    assert answer is not None
    assert (answer.value, answer.lower_bound) == (good.value, 0.5 * good.value)
    assert (answer.seconds, answer.seed, answer.status) == (2.0, 7, "feasible")
    best.offer(poor, good.value)
    closed = best.answer(2.0, 7)
    assert closed is not None and closed.status == "optimal"


def test_schedules_of_another_problem_are_not_kept(problem: Problem) -> None:
    best = BestSoFar(problem)
    best.offer(solve(fork_join(5), "single"))
    assert best.answer(1.0, 0) is None


def test_what_auto_finds_is_there_before_it_ends(problem: Problem) -> None:
    """Each time it says whom it asks next, the best of those before is known, and valid."""
    best, seen = BestSoFar(problem), []
    solve(problem, "auto", Options(best=best, tell=lambda _: seen.append(best.answer(0.0, 0))))
    known = [answer for answer in seen if answer is not None]
    assert known and not any(check_schedule(problem, answer) for answer in known)
    assert all(answer.best_single_device is not None for answer in known)
    values = [answer.value for answer in known]
    assert values == sorted(values, reverse=True)


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("solver", ["auto", "annealing", "cpsat", "milp-split", "batches"])
def test_who_is_told_to_stop_answers_with_a_bound(problem: Problem, solver: str) -> None:
    """At once, though it has a minute; `seconds` are those that it took."""
    fresh, said = replace(problem), list[str]()
    answer = solve(fresh, solver, Options(time_limit=60.0, tell=said.append))
    assert not check_schedule(fresh, answer)
    assert 0 < answer.lower_bound <= answer.value
    assert answer.seconds < 60
    assert said[-1] in (
        "stopped: it was told to stop",
        "stopped: value and bound meet: proven optimal",
    )
