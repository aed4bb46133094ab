"""The genetic algorithm: its operators, and what it finds."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, topcuoglu
from tests.solvers.search.test_encoding import assert_is_candidate
from tests.strategies import problems
from tvm_hetero.problem import KINDS, Problem
from tvm_hetero.solvers.lists import heft
from tvm_hetero.solvers.search import genetic
from tvm_hetero.solvers.search.encoding import EncodedSchedule, EncodingSpace
from tvm_hetero.solvers.search.genetic import RouletteWheel, cross, mutate
from tvm_hetero.views.instance import Instance


@settings(max_examples=draws(30))
@given(problem=problems(max_tasks=7, kinds=KINDS), seed=st.integers(0, 99))
def test_children_stay_in_the_space(problem: Problem, seed: int) -> None:
    space, rng = EncodingSpace(Instance(problem)), random.Random(seed)
    one, other = (
        EncodedSchedule(space.draw_placement(rng), space.draw_sequence(rng)) for _ in range(2)
    )
    child = cross(space, one, other, rng)
    assert_is_candidate(space, child)
    assert all(
        d in (a, b) for d, a, b in zip(child.placement, one.placement, other.placement, strict=True)
    )
    assert_is_candidate(space, mutate(space, child, rng))


def test_crossover_of_equal_parents_is_the_parent() -> None:
    space, rng = EncodingSpace(Instance(topcuoglu())), random.Random(1)
    parent = EncodedSchedule(space.draw_placement(rng), space.draw_sequence(rng))
    assert all(cross(space, parent, parent, rng) == parent for _ in range(20))


def test_better_ranks_are_drawn_more_often() -> None:
    rng, wheel = random.Random(0), RouletteWheel(50)
    drawn = [wheel.spin(rng) for _ in range(5000)]
    assert set(drawn) <= set(range(50))
    assert drawn.count(0) > 2 * drawn.count(24) > 0


def test_is_better_than_its_start_on_the_heft_paper() -> None:
    start = heft.solve(topcuoglu(), counted()).value
    assert genetic.solve(topcuoglu(), counted(time_limit=2.0)).value < start


def test_reaches_the_optimum_of_most_small_problems() -> None:
    missed: list[float] = []

    @settings(max_examples=draws(25, least=25), database=None, derandomize=True)
    @given(problem=problems(max_tasks=5, kinds=("latency", "throughput", "cost")))
    def count(problem: Problem) -> None:
        best = brute_force(problem)
        value = genetic.solve(problem, counted(time_limit=0.5)).value
        if value > best * (1 + 1e-9):
            missed.append(value / best)

    count()
    assert len(missed) <= 3
