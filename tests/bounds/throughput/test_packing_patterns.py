"""Fillings: no pattern within both limits is worth more than the best one that is listed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero.bounds.throughput.packing_patterns import MaximalPatterns, largest_patterns

SIZES = st.one_of(st.integers(0, 9).map(float), st.floats(0.01, 9), st.just(math.inf))
ITEMS = st.lists(
    st.tuples(SIZES, SIZES, st.integers(1, 3), st.floats(0, 9)), min_size=1, max_size=4
)
LIMITS = st.tuples(st.one_of(st.integers(-1, 20).map(float), st.just(math.inf)), st.floats(0, 20))


def fitting(sizes, counts, limits) -> list[tuple[int, ...]]:
    """Every pattern that keeps all limits, or the limit 0 that a negative one stands for."""
    return [
        pattern
        for pattern in itertools.product(*(range(count + 1) for count in counts))
        if all(
            used < math.inf and used <= max(0.0, limit)
            for used, limit in zip(_used(sizes, pattern), limits, strict=True)
        )
    ]


def _used(sizes, pattern) -> list[float]:
    return [math.fsum(a * s for a, s in zip(pattern, row, strict=True) if a) for row in sizes]


@settings(max_examples=draws(120), deadline=None)
@given(ITEMS, LIMITS)
def test_every_pattern_is_at_most_one_that_is_listed(items, limits):
    memory, load, counts, _ = zip(*items, strict=True)
    rows = largest_patterns((memory, load), counts, limits)
    assert rows is not None
    assert (rows <= np.array(counts)).all()
    for pattern in fitting((memory, load), counts, limits):
        assert (rows >= np.array(pattern)).all(axis=1).any()


@settings(max_examples=draws(50), deadline=None)
@given(ITEMS, LIMITS, st.sampled_from([0, 3, 10_000]))
def test_the_value_is_never_too_small(items, limits, most):
    memory, load, counts, prices = zip(*items, strict=True)
    value, _ = MaximalPatterns.of((memory, load), counts, limits, most).best(prices)
    worth = [np.dot(p, prices) for p in fitting((memory, load), counts, limits)]
    assert value >= max(worth) * (1 - 1e-12)


def test_limits_that_bind_together():
    """By memory three of the first or seven of the second, by time seven or four."""
    sizes, counts, limits = ((5.3, 2.4), (4.1, 7.6)), (96, 96), (17.2, 30.6)
    rows = largest_patterns(sizes, counts, limits)
    assert rows is not None
    assert {(3, 0), (2, 2), (1, 3), (0, 4)} <= set(map(tuple, rows.tolist()))
    assert MaximalPatterns.of(sizes, counts, limits).best((2.0, 1.0))[0] == 6.0
    # Each limit for itself is asked where the patterns are too many.
    assert MaximalPatterns.of(sizes, counts, limits, 1).best((2.0, 1.0))[0] > 6.0
    essay = ((3.0, 1.0), (1.0, 3.0)), (6, 6), (6.0, 6.0)
    assert MaximalPatterns.of(*essay).best((1.0, 1.0))[0] == 2.0
    assert MaximalPatterns.of(*essay, 0).best((1.0, 1.0))[0] == 6.0


def test_what_takes_nothing_is_always_there_and_what_cannot_be_never():
    rows = largest_patterns(((0.0, math.inf, 1.0), (0.0, 1.0, 2.0)), (2, 5, 9), (math.inf, 6.5))
    assert rows is not None
    assert set(map(tuple, rows[:, :2].tolist())) == {(2, 0)}
    assert rows[:, 2].max() == 3


@pytest.mark.parametrize("most", [1, 1_000])
def test_many_kinds_are_not_listed(most):
    sizes = ([1.0 + i / 50 for i in range(50)], [2.0 - i / 50 for i in range(50)])
    assert largest_patterns(sizes, [3] * 50, (20.0, 20.0), most) is None
    assert MaximalPatterns.of(sizes, [3] * 50, (20.0, 20.0), most).rows is None
