"""Who had which core: no moment is told twice, and none is lost."""

from __future__ import annotations

import math
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.serve.metrics.core_times import CoreTimes


class Pool:
    """Notes changes."""

    def __init__(self) -> None:
        self.changes: deque[tuple[float, tuple[str | None, ...]]] = deque()


@given(
    st.lists(
        st.tuples(st.floats(0.0, 3.0), st.sampled_from("ab"), st.sampled_from(["a", None])),
        min_size=1,
    ),
    st.lists(st.booleans(), min_size=1),
)
def test_times_add_up_whenever_one_looks(steps, looks):
    pool, now = Pool(), 1000.5
    times = CoreTimes([4, 5], pool, now)
    held: dict[str, list[float]] = {"a": [], "b": []}
    for number, (passed, *owners) in enumerate(steps):
        pool.changes.append((now, tuple(owners)))
        for owner in owners:
            if owner is not None:
                held[owner].append(passed)
        if looks[number % len(looks)]:
            times.catch_up(now)
        now += passed
    times.catch_up(now)
    for model, seconds in held.items():
        assert times.totals[model] == pytest.approx(math.fsum(seconds))


def test_a_change_shorter_than_a_look_counts():
    pool = Pool()
    times = CoreTimes([0], pool, 10.0)
    pool.changes.extend([(10.1, ("a",)), (10.101, (None,)), (10.2, ("b",)), (10.25, ("a",))])
    times.catch_up(11.5)
    (second,) = times.before(11)[-1]
    assert second == pytest.approx({"a": 0.751, "b": 0.05})
    assert times.owners == ("a",)


def test_no_core_is_held_for_more_than_a_second_in_a_second():
    pool = Pool()
    times = CoreTimes([0, 1], pool, 0.0)
    pool.changes.append((0.0, ("a", "b")))
    times.catch_up(130.0)
    assert times.before(130) == [[{"a": 1.0}, {"b": 1.0}]] * 60


def test_before_the_first_change_cores_are_free():
    times = CoreTimes([0], Pool(), 0.0)
    times.catch_up(90.0)
    assert times.before(90) == [[{}]] * 60
    assert times.totals == {}
