"""The last minute: counted once, gone after it, percentiles near the truth."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.serve.metrics.recent import SECONDS, RecentMinute, bin_end, bin_of, percentile


@given(st.floats(1e-5, 90.0))
def test_a_time_is_inside_its_bin(seconds):
    number = bin_of(seconds)
    assert bin_end(number - 1) * (1 - 1e-9) <= seconds <= bin_end(number) * (1 + 1e-9)


@given(st.lists(st.floats(1e-4, 50.0), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_within_a_bin_of_the_true_one(times, share):
    true = float(np.quantile(times, share, method="inverted_cdf"))
    told = percentile(Counter(map(bin_of, times)), share)
    assert true / 1.13 <= told <= true * 1.13


def test_there_is_no_percentile_of_nothing():
    assert percentile(Counter(), 0.5) is None


def test_a_second_is_there_for_a_minute_and_then_gone():
    minute = RecentMinute()
    minute.at(100).tokens += 3
    minute.at(100).tokens += 4
    assert [row.tokens for row in minute.before(101)] == [0] * (SECONDS - 1) + [7]
    assert sum(row.tokens for row in minute.before(100 + SECONDS)) == 7
    assert sum(row.tokens for row in minute.before(101 + SECONDS)) == 0


def test_the_second_that_is_not_over_is_not_told():
    minute = RecentMinute()
    minute.at(5).tokens += 1
    assert sum(row.tokens for row in minute.before(5)) == 0


def test_a_second_takes_the_place_of_the_one_a_minute_before():
    minute = RecentMinute()
    minute.at(7).tokens += 1
    minute.at(7 + SECONDS).tokens += 2
    assert [row.tokens for row in minute.before(8 + SECONDS)][-1] == 2
