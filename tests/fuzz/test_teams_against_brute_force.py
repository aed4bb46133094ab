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


@pytest.mark.parametrize(
    ("kinds", "batch", "seeds"),
    [
        (("latency",), 1, range(64)),
        (("throughput",), 1, range(100, 148)),
        (("energy", "cost"), 1, range(200, 248)),
        (("latency", "throughput"), 2, range(300, 320)),
        (("energy", "cost"), 2, range(400, 424)),
        (KINDS, 3, range(500, 524)),
    ],
)
def test_no_bound_is_above_the_optimum_and_no_solver_beats_it(
    kinds: tuple[Kind, ...], batch: int, seeds: range
) -> None:
    found = {s: compare(team_problem(s, kinds, batch), solvers_for(s), 2e3) for s in seeds}
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
