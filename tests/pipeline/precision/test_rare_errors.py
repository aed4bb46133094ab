"""What measured errors say of others: shares that may exceed a limit, and tails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_hetero.pipeline.precision.rare_errors import (
    CONFIDENCE,
    RARE,
    exceeding_share,
    rare_error,
)


@pytest.mark.parametrize("tries", [1, 8])
def test_a_choice_that_exceeds_more_often_is_seldom_believed(tries: int) -> None:
    """The worst case: each choice that is tried exceeds the limit on just that share of inputs."""
    count, trials = 100, 4000
    share = exceeding_share(count, tries)
    above = np.random.default_rng(0).random((trials, tries, count)) < share
    believed = float((~above.any(axis=2)).any(axis=1).mean())
    assert 0.8 * (1 - CONFIDENCE) < believed < 1.2 * (1 - CONFIDENCE)


def test_shares_fall_with_inputs_and_rise_with_tries() -> None:
    assert exceeding_share(0, 1) == 1.0
    assert exceeding_share(59, 1) == pytest.approx(0.05, abs=1e-3)  # the rule of 59
    assert exceeding_share(1, 1) == pytest.approx(0.95)
    for count in (1, 10, 300):
        assert exceeding_share(count + 1, 8) < exceeding_share(count, 8)
        assert exceeding_share(count, 7) < exceeding_share(count, 8) < 1


def test_the_tail_of_exponential_errors_is_found() -> None:
    true = -math.log(RARE)
    for count in (100, 300, 1000):
        found = [
            rare_error(np.random.default_rng(seed).exponential(size=count).tolist())
            for seed in range(200)
        ]
        assert true - 0.3 < np.mean(found) < true + 1.5, count


def test_the_tail_is_never_below_what_was_seen() -> None:
    rng = np.random.default_rng(1)
    for count in (1, 2, 5, 30, 300):
        errors = (rng.standard_normal(count) ** 2).tolist()
        assert rare_error(errors) >= max(errors)
        assert rare_error([7.0] * count) == 7.0
    assert rare_error([]) == 0.0 and rare_error([0.1, math.inf]) == math.inf
