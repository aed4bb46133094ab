"""Ideals that a known value leaves: the same best chains as over all, and never one too few."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.draws import draws
from tests.solvers.examples import counted, problem_of, processors
from tests.solvers.stage_dp.test_device_sets import PIPELINE, scattered
from tests.strategies import problems
from tvm_hetero.errors import SolverError
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.stage_dp import ideals_dp, prune_by_value
from tvm_hetero.solvers.stage_dp.ideals_dp import all_ideals
from tvm_hetero.solvers.stage_dp.stage_dp import StageChain, best_plan, run
from tvm_hetero.views.ideals import IdealFamily
from tvm_hetero.views.instance import Instance

many = settings(max_examples=draws(80), deadline=None, suppress_health_check=list(HealthCheck))


def sets_of(family: IdealFamily, chain: StageChain) -> list[tuple[int, list[bool]]]:
    """The stages of a chain by what they hold, whatever the number of their ideals."""
    return [(kind, family.ideals[last].tolist()) for kind, _, last in chain.stages]


def assert_the_same(instance: Instance, known: float) -> IdealFamily:
    """Where no more than `known` is asked for, the pruned family has the best chain of all."""
    whole = all_ideals(instance)
    left = all_ideals(instance, known=known)
    assert len(left) <= len(whole)
    expected, found = (run(family, known * (1 + 1e-9)) for family in (whole, left))
    assert found.value == expected.value
    assert sets_of(left, found) == sets_of(whole, expected)
    return left


@many
@given(problem=problems(7, 3, kinds=("throughput",), contiguous=True, memory=True))
def test_the_best_chain_is_that_over_all_ideals(problem: Problem) -> None:
    instance = Instance(problem)
    best = run(all_ideals(instance)).value
    assume(0 < best < math.inf)
    for known in (best, 1.05 * best, 2 * best):
        assert_the_same(instance, known)
    below = all_ideals(instance, known=0.9 * best)
    assert run(below, 0.9 * best).value == math.inf


@pytest.mark.parametrize("seed", range(12))
def test_where_only_work_counts_as_well(seed: int) -> None:
    instance = Instance(scattered(seed))
    best = run(all_ideals(instance)).value
    left = assert_the_same(instance, best)
    assert len(left) < len(all_ideals(instance))
    assert_the_same(instance, 1.02 * best)


@many
@given(problem=problems(5, 3, kinds=("throughput",), contiguous=True, colors=False))
def test_every_ideal_of_every_chain_of_the_value_is_left(problem: Problem) -> None:
    family = all_ideals(Instance(problem))
    best = run(family).value
    assume(0 < best < math.inf)
    known = 1.3 * best
    left = all_ideals(Instance(problem), known=known)
    kept = {tuple(row) for row in left.ideals.tolist()}
    assert {tuple(family.ideals[i].tolist()) for i in in_chains(family, known)} <= kept


def in_chains(family: IdealFamily, most: float) -> set[int]:
    """All ideals of all chains with no stage above `most`, by going through the chains."""
    after = {i: list(stages_behind(family, i, most)) for i in range(len(family) - 1)}
    found: set[int] = set()

    def go(path: list[int], used: list[int]) -> None:
        if path[-1] == len(family) - 1:
            found.update(path)
            return
        for kind, later in after[path[-1]]:
            if used[kind] < len(family.kinds[kind].devices):
                go([*path, later], [n + (k == kind) for k, n in enumerate(used)])

    go([0], [0] * len(family.kinds))
    return found


def stages_behind(family: IdealFamily, i: int, most: float) -> list[tuple[int, int]]:
    """(kind, later ideal) of the stages behind an ideal."""
    later, loads = family.row(i, most)
    pairs = itertools.product(range(len(family.kinds)), range(len(later)))
    return [(k, int(later[j])) for k, j in pairs if loads[k, j] <= most]


def test_where_ways_are_too_many_to_be_named_they_are_bounded_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prune_by_value, "MOST_WAYS", 1)
    for seed in range(6):
        instance = Instance(scattered(seed))
        assert_the_same(instance, 1.01 * run(all_ideals(instance)).value)


def wide(branches: int = 12) -> Problem:
    """Branches side by side, of which every set is an ideal, and what joins them, on two alike."""
    costs = {f"b{i}": {"p1": 1.0 + i, "p2": 1.0 + i} for i in range(branches)}
    edges = [(f"b{i}", "end", 8) for i in range(branches)]
    return problem_of({**costs, "end": {"p1": 1.0, "p2": 1.0}}, edges, processors(2), PIPELINE)


def test_ideals_that_are_too_many_are_few_once_a_value_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ideals_dp, "MOST_IDEALS", 1_000)
    instance = Instance(wide())
    with pytest.raises(SolverError, match="more than 1000 ideals"):
        all_ideals(instance, ideals_dp.MOST_IDEALS)
    # Half of 79 s is on each device: only sets of 39 or 40 s are between them.
    left = all_ideals(instance, ideals_dp.MOST_IDEALS, known=40.0)
    work = sorted(set(left.work[:, 0].tolist()))
    assert work == [0.0, 39.0, 40.0, 79.0]
    placement, chain = best_plan(instance, left, 40.0)
    assert placement is not None and chain.value == 40.0
    found = solve(wide(), "ideals-dp", counted(time_limit=5.0))
    assert (found.value, found.status) == (40.0, "optimal")
    with pytest.raises(SolverError, match="ideals are left"):
        all_ideals(instance, 100, known=60.0)
