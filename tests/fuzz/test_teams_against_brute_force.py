"""Random problems with teams: bounds, and every solver that knows teams, against brute force."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.fuzz.team_problems import team_problem
from tests.fuzz.teams_against_brute_force import (
    APART,
    CLOSED,
    INFEASIBLE,
    compare,
    faults,
    solvers_for,
)
from tvm_hetero.problem import KINDS, Kind
from tvm_hetero.views.instance import instance_of


@pytest.mark.parametrize(
    ("kinds", "batch", "limited", "seeds"),
    [
        (("latency",), 1, False, range(10)),
        (("throughput",), 1, False, range(100, 108)),
        (("energy", "cost"), 1, False, range(200, 208)),
        (("latency", "throughput"), 2, False, range(300, 306)),
        (("energy", "cost"), 2, False, range(400, 406)),
        (KINDS, 3, False, range(500, 512)),
        (("latency",), 1, True, range(600, 608)),
        (("throughput",), 2, True, range(700, 708)),
        (KINDS, 2, True, range(800, 812)),
    ],
)
def test_no_bound_is_above_the_optimum_and_no_solver_beats_it(
    kinds: tuple[Kind, ...], batch: int, limited: bool, seeds: range
) -> None:
    problems = {seed: team_problem(seed, kinds, batch, limited=limited) for seed in seeds}
    found = {seed: compare(made, solvers_for(seed), 2e3) for seed, made in problems.items()}
    closed = sum(verdict in (CLOSED, INFEASIBLE) for verdict, _ in found.values())
    assert closed >= 0.5 * len(seeds)
    assert {seed: texts for seed, (_, texts) in found.items() if texts} == {}


def test_a_wrong_optimum_is_a_fault_of_bounds_and_of_those_who_prove() -> None:
    problem = team_problem(0)
    assert compare(problem, ["auto"]) == (CLOSED, [])
    lower, higher = (faults(problem, optimum, ["auto"]) for optimum in (1e-3, 1e3))
    assert any(text.startswith("bound ") for text in lower)
    assert any(text.startswith("auto bounds by") for text in lower)
    assert [text for text in higher if text.startswith("auto answers")]


def test_in_the_problems_with_limits_memory_binds_and_mostly_suffices() -> None:
    made = [team_problem(seed, KINDS, 2, limited=True) for seed in range(99)]
    instances = [instance_of(problem) for problem in made if problem.platform.cliques]
    assert sum(instance.memories_shared for instance in instances) >= 0.4 * len(instances)
    closed = [compare(problem, [], 2e3)[0] for problem in made[:40]]
    assert closed.count(CLOSED) > closed.count(INFEASIBLE) > 0


def test_problems_without_a_shared_core_are_passed_over() -> None:
    seeds = (seed for seed in range(99) if not team_problem(seed).platform.cliques)
    assert compare(team_problem(next(seeds)), ["auto"]) == (APART, [])


def test_the_problems_have_every_kind_of_team() -> None:
    made = [team_problem(seed, KINDS, 2) for seed in range(99)]
    counts = Counter(
        (problem.objective.kind, problem.batch > 1) for problem in made if problem.platform.cliques
    )
    assert len(counts) == 8
    assert any(not d.overlap for p in made for d in p.platform.devices)
    assert any("gpu" in p.platform.names for p in made)
    sizes = {len(clique) for p in made for clique in p.platform.cliques}
    assert {2, 3} <= sizes and not any(math.isinf(size) for size in sizes)
