"""Hill climbing: tops, and how often they are the highest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, topcuoglu
from tests.strategies import problems
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.search import hill_climbing
from tvm_hetero.solvers.search.hill_climbing import climb
from tvm_hetero.solvers.search.search_loop import Search


@settings(max_examples=draws(30))
@given(problem=problems(max_tasks=5), seed=st.integers(0, 99))
def test_a_climb_ends_where_no_group_can_be_moved_to_advantage(problem: Problem, seed: int) -> None:
    search = Search(problem, counted(time_limit=5.0, seed=seed), "test")
    foot = search.draw()
    height = search.score(foot)
    top, reached = climb(search, foot, height)
    assert reached <= height
    assert search.score(top) == reached
    for g in search.space.movable:
        for device in search.space.choices(g):
            placement = search.space.moved(top.placement, g, device)
            other = type(top)(placement, top.sequence)
            assert search.score(other)[:2] >= (reached[0], reached[1] * (1 - 1e-9))


def test_reaches_the_optimum_of_the_heft_paper() -> None:
    best = solve(topcuoglu(), "cpsat").value
    assert hill_climbing.solve(topcuoglu(), counted(time_limit=2.0)).value == best


@pytest.mark.slow
def test_reaches_the_optimum_of_most_small_problems() -> None:
    missed: list[float] = []

    @settings(max_examples=draws(36, least=36), database=None, derandomize=True)
    @given(problem=problems(max_tasks=5, kinds=("latency", "throughput", "energy")))
    def count(problem: Problem) -> None:
        best = brute_force(problem)
        value = hill_climbing.solve(problem, counted(time_limit=0.5)).value
        if value > best * (1 + 1e-9):
            missed.append(value / best)

    count()
    assert len(missed) <= 3
