"""Levels: no messages backwards, as few rounds as there can be, nothing alone that need not be."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.cluster.parts.levels import levels


def drawn(seed: int) -> tuple[list[str], dict[str, list[str]], dict[str, int]]:
    """A random graph on up to three nodes."""
    rng = random.Random(seed)
    tasks = [f"t{i}" for i in range(rng.randint(1, 14))]
    reads = {task: rng.sample(tasks[:i], rng.randint(0, min(i, 3))) for i, task in enumerate(tasks)}
    return tasks, reads, {task: rng.randrange(3) for task in tasks}


@given(st.integers(0, 10**6))
def test_messages_go_upwards_and_rounds_are_the_fewest(seed):
    tasks, reads, node = drawn(seed)
    found = levels(tasks, reads, node)
    longest: dict[str, int] = {}
    for task in tasks:
        for maker in reads[task]:
            assert found[task] >= found[maker] + (node[task] != node[maker])
        longest[task] = max(
            (longest[maker] + (node[task] != node[maker]) for maker in reads[task]), default=0
        )
    assert max(found.values()) == max(longest.values())


def test_what_needs_nothing_goes_with_its_reader():
    reads = {"a": [], "table": [], "b": ["a"], "c": ["b", "table"]}
    node = {"a": "left", "b": "right", "table": "left", "c": "left"}
    assert levels(list(reads), reads, node) == {"a": 0, "table": 2, "b": 1, "c": 2}


def test_a_task_waits_for_a_part_that_is_there_rather_than_for_its_last_moment():
    # c may run at level 3 on `left`, but a part of `left` is at level 2 already.
    reads = {"a": [], "b": ["a"], "d": ["b"], "c": [], "e": ["d"], "f": ["e", "c"], "g": ["f"]}
    node = {"a": "left", "b": "right", "d": "left", "c": "left", "e": "right", "f": "right",
            "g": "left"}  # fmt: skip
    found = levels(list(reads), reads, node)
    assert found["d"] == 2 and found["f"] == 3
    assert found["c"] == 2
