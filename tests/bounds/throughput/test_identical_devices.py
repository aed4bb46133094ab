"""The bound of runs on devices that are alike: never above the best, and above that of shares."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.strategies import problems
from tvm_hetero.bounds.throughput.identical_devices import (
    MOST,
    kinds_of,
    placements_of_kinds,
    run_bound,
)
from tvm_hetero.bounds.throughput.share_program import share_bound
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Piece, canonical, modules_of

many = settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))


def forks(widths: list[int], costs: list[float], alike: int, nbytes: int) -> Problem:
    """A chain of forks on devices that are alike, after one that is not."""
    number = iter(range(10**6))
    table: dict[str, dict[str, float]] = {}
    edges = []

    def add(name: str) -> None:
        i = next(number)
        seconds = costs[i % len(costs)]
        table[name] = {f"p{k}": seconds for k in range(2, alike + 2)}
        table[name]["p1"] = seconds + i % 3

    add("c0")
    for m, width in enumerate(widths):
        for b in range(width):
            add(f"m{m}b{b}")
            edges += [(f"c{m}", f"m{m}b{b}", nbytes), (f"m{m}b{b}", f"c{m + 1}", nbytes)]
        add(f"c{m + 1}")
    platform = processors(alike + 1, overlap=False, bandwidth=16.0)
    return problem_of(table, edges, platform, Objective("throughput"))


@pytest.mark.slow
@many
@given(
    widths=st.lists(st.integers(1, 2), min_size=2, max_size=3),
    costs=st.lists(st.integers(1, 9).map(float), min_size=2, max_size=5),
    alike=st.integers(2, 3),
    nbytes=st.sampled_from([4, 16, 48]),
    above=st.sampled_from([1.0, 1.1, 2.0]),
    heavy=st.integers(0, 3),
)
def test_never_above_the_best(
    widths: list[int], costs: list[float], alike: int, nbytes: int, above: float, heavy: int
) -> None:
    problem = forks(widths, costs, alike, nbytes)
    instance = Instance(problem)
    assume(len(instance) <= 7)
    best = min(
        exact_value(instance, plan)
        for plan in itertools.product(range(alike + 1), repeat=len(instance))
    )
    weights = np.ones(alike + 1)
    weights[0] += heavy
    assert 0 < run_bound(instance, above * best, weights) <= best * (1 + 1e-12)


@pytest.mark.slow
@many
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True))
def test_never_above_the_best_of_any_problem(problem: Problem) -> None:
    best = solve(problem, "milp-split", counted(time_limit=4.0))
    instance = Instance(problem)
    bound = run_bound(instance, best.value, np.ones(len(instance.names)))
    assert bound <= best.value * (1 + 1e-12)


@many
@given(problem=problems(max_tasks=4))
def test_every_placement_is_one_that_is_listed(problem: Problem) -> None:
    """But for the order of devices that are alike."""
    instance = Instance(problem)
    kinds = kinds_of(instance)
    for module in modules_of(instance):
        piece = Piece(instance, canonical(instance, module.parts))
        listed = placements_of_kinds(piece, kinds, 10**6)
        assert listed is not None
        rows = {tuple(row) for row in listed.tolist()}
        assert len(rows) == len(listed)
        for choice in itertools.product(*(piece.devices[group[0]] for group in piece.groups)):
            places = [choice[piece.group_of[p]] for p in range(len(piece))]
            renamed: dict[int, int] = {}
            for d in places:
                seen = [e for e in renamed if kinds.of[e] == kinds.of[d] and e != d]
                renamed.setdefault(d, kinds.members[kinds.of[d]][len(seen)])
            assert tuple(renamed[d] for d in places) in rows


def test_eight_alike_need_copies_that_shares_do_not_see() -> None:
    problem = forks([3] * 24, [3.0, 4.0, 2.0], 8, 16)
    instance = Instance(problem)
    shares, weights = share_bound(instance)
    answer = solve(problem, "throughput", counted(time_limit=4.0))
    bound = run_bound(instance, answer.value, weights)
    assert shares * 1.02 < bound <= answer.lower_bound * (1 + 1e-9) <= answer.value


def test_where_no_devices_are_alike_it_says_nothing() -> None:
    problem = forks([2, 2, 2], [1.0, 2.0], 1, 16)
    assert run_bound(Instance(problem), 100.0, np.ones(2)) == 0.0


@pytest.mark.parametrize("most", [10, 100])
def test_too_many_placements_are_left_alone(most: int) -> None:
    problem = forks([6, 6], [1.0], 4, 16)
    assert run_bound(Instance(problem), 100.0, np.ones(5), most) == 0.0
    assert run_bound(Instance(problem), 100.0, np.ones(5), MOST) > 0.0
