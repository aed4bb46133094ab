"""The knapsack against brute force, and what its bound is worth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tvm_hetero.pipeline.precision import knapsack
from tvm_hetero.pipeline.precision.knapsack import fill_knapsack


def by_force(gains: list[float], weights: list[float], budget: float) -> float:
    best = 0.0
    for size in range(len(gains) + 1):
        for chosen in itertools.combinations(range(len(gains)), size):
            if math.fsum(weights[i] for i in chosen) <= budget:
                best = max(best, math.fsum(gains[i] for i in chosen))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_within_the_budget_gains_more(seed: int) -> None:
    d = np.random.default_rng(seed)
    count = int(d.integers(1, 11))
    gains, weights = (list(map(float, d.lognormal(size=count))) for _ in range(2))
    weights[0] *= float(d.integers(0, 2))  # now and then one weighs nothing
    budget = float(d.uniform(0, 1.1)) * math.fsum(weights)
    filling = fill_knapsack(gains, weights, budget)
    assert math.fsum(weights[i] for i in filling.chosen) <= budget
    assert filling.gain == pytest.approx(by_force(gains, weights, budget))
    assert filling.bound == filling.gain == math.fsum(gains[i] for i in filling.chosen)


def test_what_weighs_infinitely_stays_out_unless_all_may_come() -> None:
    assert fill_knapsack([5.0, 1.0], [math.inf, 0.5], 1.0).chosen == (1,)
    assert fill_knapsack([5.0, 1.0], [math.inf, 0.5], math.inf).chosen == (0, 1)
    assert fill_knapsack([], [], 1.0).gain == 0.0


def test_a_search_that_is_cut_short_says_how_far_it_may_be_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = np.random.default_rng(0)
    weights = [float(w) for w in d.uniform(1, 2, 200)]
    gains = [w + 1e-6 * float(d.random()) for w in weights]  # nearly alike: hard to prove
    monkeypatch.setattr(knapsack, "_NODES", 2000)
    filling = fill_knapsack(gains, weights, 100.0)
    assert math.fsum(weights[i] for i in filling.chosen) <= 100.0
    assert 0.95 * filling.bound < filling.gain < filling.bound <= 100.1
