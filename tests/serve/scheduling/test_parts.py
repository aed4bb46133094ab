"""Courses, calendars, pools, profiles and streams."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serve.scheduling.streams import profile
from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.serve.scheduling.arrivals import (
    SLO_LEVELS,
    QueryMix,
    draw_bursts,
    draw_poisson,
    mean_work,
    parse_trace,
    slo_rule,
)
from tvm_hetero.serve.scheduling.calendar import PlaceCalendar
from tvm_hetero.serve.scheduling.course import Course, Pace
from tvm_hetero.serve.scheduling.pool import PlacePool
from tvm_hetero.serve.scheduling.profile import MOST_CELLS, WINDOW, ModelTimes
from tvm_hetero.serve.scheduling.query import Priority, Query


def test_a_wider_share_takes_the_items_that_have_not_entered() -> None:
    course = Course.begin(8, 1, Pace(1.0, 1.0), 0.0)
    new = course.resized(0.5, 4, Pace(1.0, 0.25), 0.1).course
    # Item 1 enters at 0.5 and ends at 1.5 and the switch; six more follow.
    assert new.first == 1 and new.finish == pytest.approx(1.5 + 0.1 + 6 * 0.25)


def test_what_is_given_up_is_free_when_the_first_stages_are_empty() -> None:
    course = Course.begin(8, 4, Pace(1.0, 0.25), 0.0)
    new = course.resized(0.3, 1, Pace(1.0, 1.0), 0.0)
    assert new.release == pytest.approx(0.5 + 3 * 0.25)
    # Item 1 ends at 1.25, item 2 not before one period of the new share.
    assert new.course.finish == pytest.approx(2.25 + 5 * 1.0)


def test_at_the_end_places_are_free_without_loss() -> None:
    course = Course.begin(4, 4, Pace(1.0, 0.25), 0.0)
    new = course.resized(1.0, 2, Pace(1.0, 0.5), 0.1)
    assert new.course.finish == course.finish == 1.75
    assert new.release == pytest.approx(0.75 + 2 * 0.25)


def test_a_late_item_makes_the_others_late() -> None:
    course = Course.begin(3, 1, Pace(1.0, 1.0), 0.0).shifted(0, 1.5)
    assert course.finish == 3.5 and course.shifted(1, 2.5) == course


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(1, 3)), max_size=8),
    st.integers(1, 6),
    st.integers(1, 8),
)
def test_the_calendar_finds_what_looking_at_every_second_finds(
    holds: list[tuple[int, int, int]], count: int, seconds: int
) -> None:
    calendar, free = PlaceCalendar(6, 0.0), [6] * 60
    for begin, length, places in holds:
        calendar.take(begin, begin + length, places)
        for t in range(begin, begin + length):
            free[t] -= places
    by_hand = next(t for t in range(60) if min(free[t : t + seconds]) >= count)
    assert calendar.earliest(count, seconds, 0.0) == by_hand
    assert calendar.least(3, 3 + seconds) == min(free[3 : 3 + seconds])
    assert calendar.overbooked == (min(free) < 0)


def test_a_place_has_one_owner() -> None:
    pool = PlacePool(3)
    assert pool.take(7, 2) == (0, 1) and pool.owners == (7, 7, None) and pool.free == 1
    with pytest.raises(UsageError, match="wants 2 places; 1 are free"):
        pool.take(8, 2)
    with pytest.raises(UsageError, match="which 7 owns"):
        pool.give_back(8, [0])
    pool.give_back(7, [0])
    assert pool.hand_over(7, 9) == (1,) and pool.owners == (None, 9, None)


def test_a_cell_is_predicted_then_careful_then_measured() -> None:
    times = ModelTimes([Pace(1.0, 1.0)])
    assert times.paces(1)[0].fill == 1.0
    times.add(1, 1, 0.5)
    assert times.paces(1)[0].fill == 1.0  # one sample says little
    for _ in range(4):
        times.add(1, 1, 0.5)
    assert times.paces(1)[0].fill == 0.5
    for i in range(WINDOW):
        times.add(1, 1, 1.0 if i % 8 == 0 else 0.2)
    assert times.paces(1)[0].fill == pytest.approx(1.0)  # the q90, not the mean


def test_a_cell_without_samples_is_as_much_slower_as_those_that_have_some() -> None:
    times = ModelTimes([Pace(1.0, 1.0), Pace(1.0, 0.5)])
    for _ in range(5):
        times.add(4, 1, 8.0)  # 4 s were predicted
    assert times.paces(4)[1].seconds(4) == pytest.approx(2 * 2.5)


def test_times_that_refuse_are_forgotten_one_by_one() -> None:
    times = ModelTimes([Pace(1.0, 1.0)])
    for _ in range(6):
        times.add(2, 1, 8.0)
    assert times.paces(2)[0].seconds(2) == pytest.approx(8.0)
    for _ in range(6):
        times.doubt(2, 0.1)  # 8 were measured, 2 predicted
    assert times.paces(2)[0].seconds(2) == pytest.approx(8.0)
    for _ in range(6):
        times.doubt(2, 8.0)
    assert times.paces(2)[0].seconds(2) == pytest.approx(2.0)


def test_who_asks_for_ever_other_numbers_of_items_fills_no_memory() -> None:
    times = ModelTimes([Pace(1.0, 1.0)])
    for items in range(1, 3 * MOST_CELLS):
        times.add(items, 1, 2.0 * items)
    assert len(times._samples) == len(times._values) == MOST_CELLS
    assert (1, 1) in times._samples  # others are predicted from it
    assert times.paces(5)[0].seconds(5) == pytest.approx(10.0)  # forgotten, and predicted


def test_a_prediction_that_refuses_is_believed_less_until_something_is_measured() -> None:
    times = ModelTimes([Pace(1.0, 1.0)])
    doubts = 0
    while times.paces(3)[0].seconds(3) > 0.2:
        times.doubt(3, 0.2)
        doubts += 1
    assert 5 < doubts < 100
    times.add(3, 1, 6.0)  # it was even better than it is
    assert times.paces(3)[0].seconds(3) == pytest.approx(6.0)
    assert times.paces(1)[0].seconds(1) == pytest.approx(2.0)


def test_who_allows_absurdly_little_erodes_nothing_before_anything_was_measured() -> None:
    times = ModelTimes([Pace(1.0, 1.0)])
    for _ in range(1000):
        times.doubt(1, 1e-9)
    assert times.paces(1)[0].seconds(1) == pytest.approx(1.0)


def test_more_places_are_never_predicted_slower() -> None:
    times = ModelTimes([Pace(1.0, 0.5), Pace(1.0, 0.7), Pace(2.0, 0.2)])
    seconds = [pace.seconds(3) for pace in times.paces(3)]
    assert seconds == [2.0, 2.0, 2.0] and times.shape(3, 3) == 1
    assert times.shape(9, 3) == 3


def test_times_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="0 < period <= fill"):
        ModelTimes([Pace(1.0, 2.0)])
    with pytest.raises(UsageError, match="above 0"):
        ModelTimes([Pace(1.0, 1.0)]).add(1, 1, math.nan)


def test_streams_are_drawn_by_their_seed_at_their_rate() -> None:
    table, mix = profile(4), QueryMix(("a", "b"))
    slo = slo_rule(table, SLO_LEVELS["moderate"])
    queries = draw_poisson(mix, slo, 10.0, 2000, 1)
    assert queries == draw_poisson(mix, slo, 10.0, 2000, 1)
    assert queries != draw_poisson(mix, slo, 10.0, 2000, 2)
    assert 2000 / queries[-1].arrival == pytest.approx(10.0, rel=0.1)
    assert all(q.slo == pytest.approx(3 * table.least_latency(q.model, q.items)) for q in queries)
    assert mean_work(table, mix) == pytest.approx(0.55 * 31 / 5)


def test_bursts_come_in_the_first_part_of_a_period_at_the_same_rate() -> None:
    mix = QueryMix(("a",))
    queries = draw_bursts(mix, lambda m, n: 1.0, 10.0, 2000, 1, period=4.0, duty=0.25)
    assert all(q.arrival % 4.0 < 1.0 + 1e-9 for q in queries)
    assert 2000 / queries[-1].arrival == pytest.approx(10.0, rel=0.1)


def test_a_trace_is_read_line_by_line_and_what_is_wrong_is_named() -> None:
    lines = ["# seconds model items priority slo", "0.5 a 2 high 0.1", "", "0.5 b 1 low -"]
    first, second = parse_trace(lines)
    assert first == Query(0, "a", 2, 0.5, 0.6, Priority.HIGH)
    assert second == Query(1, "b", 1, 0.5, math.inf, Priority.LOW)
    for wrong in (
        "0.5 a 2 high",
        "x a 2 high 1",
        "0 a 0 high 1",
        "0 a 1 urgent 1",
        "nan a 1 low -",
    ):
        with pytest.raises(FormatError, match="line 1: expected 'seconds model"):
            parse_trace([wrong])
    with pytest.raises(FormatError, match="line 2: arrives before"):
        parse_trace(["1 a 1 low -", "0 a 1 low -"])
