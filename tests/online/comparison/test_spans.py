"""Which requests are disturbed."""

from __future__ import annotations

import pytest

from tvm_hetero.errors import UsageError
from tvm_hetero.online.comparison.spans import DisturbedSpans, disturbed_often, disturbed_once


def test_one_disturbance_is_the_second_third_unless_it_is_said() -> None:
    assert disturbed_once(30).spans == ((10, 20),)
    assert disturbed_once(30, begin=5).spans == ((5, 20),)
    assert disturbed_once(30, 25).spans == ((25, 26),)
    assert disturbed_once(30, 5, 30).quiet == ()
    assert disturbed_once(3).spans == ((1, 2),)


def test_disturbances_come_again_and_the_last_one_ends_with_the_stream() -> None:
    found = disturbed_often(25, 10, 6)
    assert found.spans == ((10, 16), (20, 25))
    assert found.quiet == ((16, 20),)
    assert found.edges == (10, 16, 20, 25)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: disturbed_once(30, 0, 5), "requests 0 to 5 is none of 30"),
        (lambda: disturbed_once(30, 20, 20), "requests 20 to 20"),
        (lambda: disturbed_once(30, 20, 31), "requests 20 to 31"),
        (lambda: disturbed_often(30, 5, 5), "duration < period"),
        (lambda: disturbed_often(30, 30, 5), "a shorter period, or more requests"),
        (lambda: DisturbedSpans(0, ()), "at least one request"),
        (lambda: DisturbedSpans(9, ((3, 5), (4, 6))), "one after the other"),
        (lambda: DisturbedSpans(9, ((0, 5),)), "within requests 1 to 9"),
    ],
)
def test_what_disturbs_nothing_or_everything_is_refused(make, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
