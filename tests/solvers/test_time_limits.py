"""No solver works much longer than it may: processor time, with a factor that is generous."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case
from tests.solvers.examples import fork_join
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.search.search_loop import Search

LIMIT = 1.0


@pytest.fixture(scope="module")
def problem() -> Problem:
    """GPT-24 with half of its weights on a device; what is imported late is imported."""
    made = limited(zoo_case("gpt-24", "sched-nvl"), 0.5)
    for solver in ("cpsat", "milp"):
        solve(replace(made), solver, Options(time_limit=0.01))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver", ["annealing", "auto", "batches", "cpsat", "memory", "milp", "milp-split"]
)
def test_the_limit_is_kept(problem: Problem, solver: str) -> None:
    fresh = replace(problem)
    began = time.process_time()
    solve(fresh, solver, Options(time_limit=LIMIT))
    # Before rows of memory were counted, the MILP built its model for 24 s.
    assert time.process_time() - began < 2 * LIMIT + 1


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "cpsat", "milp-split"])
def test_the_limit_is_kept_on_many_devices(solver: str) -> None:
    """GPT-3 on 18 devices that it fills: of one model, hops and memory are the most."""
    crowded = zoo_case("gpt3-175b", "sched-6")
    began = time.process_time()
    solve(crowded, solver, Options(time_limit=LIMIT))
    # Before they were counted, CP-SAT's model was built for 20 s, twice.
    assert time.process_time() - began < 2 * LIMIT + 3


def test_a_search_of_looks_is_cut_by_the_clock_that_it_is_given() -> None:
    """Its deadline is 2 s; every look takes 1 s: it ends after the third, work left or not."""
    clock = partial(next, count(0.0))
    told = Options(time_limit=60.0, deadline=2.0, clock=clock)
    search = Search(fork_join(3), told, "hill-climbing")
    looks = 0
    while not search.over:
        search.score(search.draw())
        looks += 1
    assert looks == 3
