"""Patterns of division: ranges that follow one another, each on the device that its share names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.solvers.examples import processors
from tvm_hetero.errors import UsageError
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.views.division_patterns import (
    ElementShare,
    divide_by_patterns,
    elements_by_device,
    even_counts,
    ranges_of,
)


def two_tasks(batch: int) -> Problem:
    costs = {name: {f"p{i}": Cost(((1, 1.0),)) for i in (1, 2)} for name in "ab"}
    graph = TaskGraph([Task("a"), Task("b")], [])
    return Problem(graph, costs, processors(2), Objective("latency", batch))


@given(st.lists(st.integers(1, 9), max_size=6))
def test_ranges_follow_one_another(counts: list[int]) -> None:
    found = ranges_of(counts)
    assert [len(part) for part in found] == counts
    assert [e for part in found for e in part] == list(range(sum(counts)))


@given(st.integers(1, 50), st.integers(1, 50))
def test_even_counts_differ_by_one_at_most(batch: int, parts: int) -> None:
    counts = even_counts(batch, parts)
    assert len(counts) == parts and sum(counts) == batch
    assert max(counts) - min(counts) <= 1


def test_every_share_is_a_part_on_its_device() -> None:
    patterns = [[ElementShare(1, 3), ElementShare(0, 1), ElementShare(1, 1)], [ElementShare(0, 5)]]
    instance, placement = divide_by_patterns(two_tasks(5), patterns)
    assert [tuple(own) for own in instance.elements] == [(0, 1, 2), (3,), (4,), (0, 1, 2, 3, 4)]
    assert placement == [1, 0, 1, 0] and instance.tasks == ("a", "a", "a", "b")


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(UsageError, match="division of task 'b'"):
        divide_by_patterns(two_tasks(2), [[ElementShare(0, 2)], [ElementShare(0, 1)]])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=8))
def test_what_a_device_has_of_several_shares_is_its_own(shares: list[tuple[int, int]]) -> None:
    pattern = [ElementShare(*share) for share in shares]
    held = elements_by_device(pattern)
    assert list(held) == list(dict.fromkeys(device for device, _ in shares))
    assert sorted(e for own in held.values() for e in own) == list(range(sum(n for _, n in shares)))
    for device, own in held.items():
        assert list(own) == sorted(own)
        assert len(own) == sum(share.elements for share in pattern if share.device == device)
