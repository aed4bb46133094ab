"""What counts as an error of outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_hetero.errors import UsageError
from tvm_hetero.executor.relative_error import largest_relative_error
from tvm_hetero.pipeline.precision.output_error import error_by, metric_name

A = np.array([1.0, -4.0, 0.5], np.float32)


def test_the_worst_output_counts_by_its_own_largest_value() -> None:
    near, other = A + np.float32(0.04), np.array([100.0, 101.0], np.float32)
    assert largest_relative_error([A], [A]) == 0.0
    assert largest_relative_error([A, other], [near, other]) == pytest.approx(0.01, rel=1e-4)
    assert largest_relative_error([other, A], [other + 1, A]) == pytest.approx(1 / 101, rel=1e-4)


def test_numbers_must_stay_numbers() -> None:
    odd = np.array([np.nan, np.inf, 1.0])
    assert largest_relative_error([odd], [odd.copy()]) == 0.0
    assert largest_relative_error([odd], [np.array([0.0, np.inf, 1.0])]) == math.inf
    assert largest_relative_error([odd], [np.array([np.nan, -np.inf, 1.0])]) == math.inf
    assert largest_relative_error([A], [A * np.float32(np.nan)]) == math.inf
    assert largest_relative_error([0 * A], [A]) == math.inf
    assert largest_relative_error([0 * A], [0 * A]) == 0.0


def test_of_whole_numbers_those_count_that_differ() -> None:
    classes = np.array([3, 5, 7, 9])
    assert largest_relative_error([classes], [np.array([3, 5, 8, 9])]) == 0.25
    assert largest_relative_error([classes[:0]], [classes[:0]]) == 0.0


def test_a_metric_of_the_users_own_gives_a_number() -> None:
    def mean(expected: list, found: list) -> float:
        return float(abs(expected[0] - found[0]).mean())

    assert error_by(mean, [A], [A + 2]) == pytest.approx(2.0)
    assert metric_name(mean).endswith("mean") and "relative" in metric_name(None)
    for bad in (math.nan, -1.0, "much", None):
        with pytest.raises(UsageError, match="expected a number from 0"):
            error_by(lambda _a, _b, bad=bad: bad, [A], [A])
