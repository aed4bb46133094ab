"""On 160 random problems of every kind `auto` is complete search, with proof."""

from __future__ import annotations

import math

import pytest

from tests.fuzz.against_brute_force import CLOSED, OPEN, compare
from tests.fuzz.small_problems import small_problem
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem import Problem
from tvm_hetero.solvers.exhaustive.divisions import placements
from tvm_hetero.views.instance import instance_of

# Placements, and steps of brute force, up to which a problem is compared; `make fuzz` has more.
_MOST, _STEPS = 20_000, 5_000
_SEEDS, _COMPARED = range(220), 160


def _size(problem: Problem) -> float:
    try:
        return placements(problem, instance_of(problem)) * math.factorial(problem.batch)
    except InfeasibleError:
        return 0.0


@pytest.mark.parametrize("part", range(4))
def test_auto_is_complete_search(part: int) -> None:
    seeds = [seed for seed in _SEEDS[part::4] if _size(small_problem(seed)) <= _MOST]
    found = {seed: compare(small_problem(seed), _STEPS) for seed in seeds}
    assert {seed: text for seed, text in found.items() if text not in (CLOSED, OPEN)} == {}
    assert list(found.values()).count(CLOSED) >= _COMPARED / 4


def test_the_problems_have_everything_that_a_problem_may_have() -> None:
    problems = [small_problem(seed) for seed in _SEEDS]
    kinds = {(p.objective.kind, p.batch) for p in problems}
    assert {
        (kind, n) for kind in ("latency", "throughput", "energy", "cost") for n in (1, 2, 3)
    } <= (kinds)
    assert any(p.objective.contiguous for p in problems)
    assert any(p.objective.latency_limit for p in problems)
    assert any(p.colors for p in problems)
    assert any(d.memory for p in problems for d in p.platform.devices)
    assert any(link.exclusive for p in problems for link in p.platform.links)
    assert any("hub" in p.platform.names for p in problems)
