"""The knapsack's value is never below the best filling, and is it where sizes are exact."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero.bounds.throughput.knapsack import Knapsack

ITEMS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 3), st.integers(-2, 9)), min_size=1, max_size=4
)


def by_hand(items: list[tuple[int, int, int]], capacity: int) -> float:
    """The best value of all fillings."""
    fillings = itertools.product(*(range(count + 1) for _, count, _ in items))
    return max(
        sum(a * value for a, (_, _, value) in zip(filling, items, strict=True))
        for filling in fillings
        if sum(a * size for a, (size, _, _) in zip(filling, items, strict=True)) <= capacity
    )


@settings(max_examples=draws(80), deadline=None)
@given(ITEMS, st.integers(0, 20))
def test_exact_where_sizes_are_whole(items, capacity):
    sizes, counts, values = zip(*items, strict=True)
    sack = Knapsack(sizes, counts, capacity)
    value, filling = sack.best([float(v) for v in values])
    assert value == by_hand(items, capacity)
    assert sum(a * s for a, s in zip(filling, sizes, strict=True)) <= capacity
    assert sum(a * v for a, v in zip(filling, values, strict=True)) == value
    assert all(0 <= a <= n for a, n in zip(filling, counts, strict=True))


@settings(max_examples=draws(40), deadline=None)
@given(ITEMS, st.integers(0, 20))
def test_one_table_has_every_smaller_capacity(items, capacity):
    sizes, counts, values = zip(*items, strict=True)
    table = Knapsack(sizes, counts, capacity).table([float(v) for v in values])
    for level in range(capacity + 1):
        filling = table.filling(level)
        assert table.values[level] == by_hand(items, level)
        assert sum(a * s for a, s in zip(filling, sizes, strict=True)) <= level
        assert sum(a * v for a, v in zip(filling, values, strict=True)) == table.values[level]


@settings(max_examples=draws(50), deadline=None)
@given(ITEMS, st.integers(1, 20), st.integers(1, 30))
def test_never_too_small_when_sizes_are_rounded(items, capacity, levels):
    sizes, counts, values = zip(*items, strict=True)
    value, _ = Knapsack.of(sizes, counts, capacity, levels).best([float(v) for v in values])
    assert value >= by_hand(items, capacity)


@pytest.mark.parametrize(("capacity", "expected"), [(math.inf, 7.0), (0.0, 1.0), (-1.0, 1.0)])
def test_without_limit_and_without_room(capacity, expected):
    sack = Knapsack.of([2.0, 0.0, math.inf], [3, 1, 5], capacity, 100)
    assert sack.best([2.0, 1.0, 9.0])[0] == expected
