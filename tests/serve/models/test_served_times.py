"""Times of a served model: of one element, and of many, apart."""

from __future__ import annotations

import pytest

from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.scheduling.course import Pace

SLOW = 9.0


@pytest.mark.parametrize("items", [1, 4])
def test_what_was_slow_once_does_not_refuse_for_ever(items: int) -> None:
    times = ServedTimes([Pace(1.0, 1.0)] * 2, [Pace(1.0, 1.0)] * 2)
    for _ in range(5):
        times.add(items, 1, SLOW)
        times.add(items, 2, SLOW)
    assert times.paces(items)[1].seconds(items) == pytest.approx(SLOW)
    for _ in range(5):
        times.doubt(items, 2.0)
    assert times.paces(items)[1].seconds(items) < SLOW


def test_doubt_of_one_element_leaves_what_is_known_of_many() -> None:
    times = ServedTimes([Pace(1.0, 1.0)], [Pace(1.0, 1.0)])
    for _ in range(5):
        times.add(4, 1, SLOW)
    times.doubt(1, 2.0)
    assert times.paces(4)[0].seconds(4) == pytest.approx(SLOW)
