"""Measured times that differ: what others wait for is typical, and who asks has a margin."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.serve.scheduling.streams import profile, query_streams, refusals_of, starts_of
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority, Query
from tvm_hetero.serve.scheduling.replay import replay_queries

SPREAD = (*[1.0] * 7, *[1.5] * 3)  # a median of 1 and a q90 of 1.5
ITEMS = (1, 2, 3, 5, 8)


def measured(places: int, seconds: float = 1.0) -> ModelTimes:
    """Times whose medians are as in `streams.profile`, with a q90 half as much again."""
    times = ModelTimes([Pace(seconds, seconds / k) for k in range(1, places + 1)])
    for k, pace in enumerate(times.predicted, 1):
        for factor in SPREAD:
            times.add(0, k, pace.period)
            for items in ITEMS:
                times.add(items, k, factor * pace.seconds(items))
    return times


def test_a_cell_is_worth_its_q90_and_its_margin_is_what_is_above_the_median() -> None:
    times = measured(2)
    assert times.paces(1)[0].seconds(1) == pytest.approx(1.5)
    assert times.typical(1, 1).seconds(1) == pytest.approx(1.0)
    assert times.margin(1, 1) == pytest.approx(0.5)
    assert ModelTimes([Pace(1.0, 1.0)]).margin(1, 1) == 0.0


def test_where_only_one_element_was_measured_others_wait_for_its_median_too() -> None:
    times = ModelTimes([Pace(1.0, 1.0)])  # as of plans on one core: the period is all it takes
    for factor in SPREAD:
        times.add(1, 1, factor)
    (share,) = times.useful_shares(1)
    assert (share.seconds, share.margin) == pytest.approx((1.0, 0.5))
    assert times.typical(1, 1).seconds(1) == pytest.approx(share.seconds)


def test_a_margin_follows_samples_that_leave_the_q90_where_it_was() -> None:
    times = measured(1)
    before = times.useful_shares(1)[0]
    for _ in range(10):
        times.add(1, 1, 1.5)
    after = times.useful_shares(1)[0]
    assert before.margin == pytest.approx(0.5) and after.margin < 0.5
    assert after.seconds + after.margin == pytest.approx(1.5)


@settings(max_examples=draws(30), deadline=None)
@given(query_streams())
def test_an_accepted_query_never_loses_its_slo_where_times_are_typical(
    queries: list[Query],
) -> None:
    for places in (1, 2, 4):
        known = ServiceProfile({"a": measured(places), "b": measured(places, 0.1)})
        outcomes = replay_queries(Accordion(known, places), queries, truth=profile(places))
        assert all(each.met for each in outcomes if each.refusal is None)


def test_margins_of_those_who_wait_for_each_other_do_not_add_up() -> None:
    scheduler = Accordion(ServiceProfile({"a": measured(1)}), 1, AccordionOptions(weigh=False))
    for number in range(3):
        # Typically it ends at 1, 2 and 3; q90s would add up to 4.5.
        decisions = scheduler.arrive(Query(number, "a", 1, 0.0, number + 1.6), 0.0)
        assert not refusals_of(decisions)
    assert scheduler.waiting


def test_who_is_in_time_typically_is_tried_and_who_is_not_is_refused() -> None:
    scheduler = Accordion(ServiceProfile({"a": measured(1)}), 1)
    assert starts_of(scheduler.arrive(Query(0, "a", 1, 0.0, 1.2), 0.0)) == {0: 1}
    (refusal,) = refusals_of(scheduler.arrive(Query(1, "a", 1, 0.0, 1.9), 0.0))
    assert refusal.value == pytest.approx(2.5)
    assert not refusals_of(scheduler.arrive(Query(2, "a", 1, 0.0, 2.1), 0.0))
    assert scheduler.foresee(Query(3, "a", 1, 0.0, 2.2), 0.0) is not None


def test_a_query_that_was_tried_stands_in_nobody_s_way() -> None:
    scheduler = Accordion(ServiceProfile({"a": measured(1)}), 1)
    assert starts_of(scheduler.arrive(Query(0, "a", 1, 0.0, 1.6), 0.0)) == {0: 1}
    others = [
        Query(1, "a", 1, 0.0, 2.6),  # from 1 to 2
        Query(2, "a", 1, 0.0, 3.1),  # from 2 to 3: tried, as with its margin it would want 3.5
        Query(3, "a", 1, 0.0, 9.0, Priority.LOW),  # from 3 to 4
        Query(4, "a", 1, 0.0, 4.6),  # in its place, if the one that is tried keeps its own
    ]
    for query in others:
        assert not refusals_of(scheduler.arrive(query, 0.0))
    starts = {number: spot.start for number, spot in scheduler.reservations.items()}
    assert starts == pytest.approx({1: 1.0, 2: 2.0, 3: 4.0, 4: 3.0})


def test_alone_it_is_tried_where_the_door_says_so() -> None:
    times = ModelTimes([Pace(10.0, 5.0), Pace(9.0, 5.0)])  # two places are not measured
    for factor in (*[5.0] * 7, *[10.0] * 3):
        times.add(1, 1, factor)
    scheduler = Accordion(ServiceProfile({"a": times}), 2)
    query = Query(0, "a", 1, 0.0, 7.0)
    assert scheduler.foresee(query, 0.0) is None
    assert not refusals_of(scheduler.arrive(query, 0.0))


@pytest.mark.parametrize(("slo", "share"), [(3.1, 2), (9.0, 1)])
def test_spare_places_are_for_who_may_be_late_without(slo: float, share: int) -> None:
    scheduler = Accordion(
        ServiceProfile({"a": measured(2)}), 2, AccordionOptions(spare=1, guard=False)
    )
    assert starts_of(scheduler.arrive(Query(0, "a", 2, 0.0, slo, Priority.LOW), 0.0)) == {0: share}


def test_who_gives_places_keeps_its_margin() -> None:
    scheduler = Accordion(ServiceProfile({"a": measured(2)}), 2, AccordionOptions(spare=0))
    # Eight items take 4.5 s on two places and 8 s on one, and half as much again.
    assert starts_of(scheduler.arrive(Query(0, "a", 8, 0.0, 9.0, Priority.LOW), 0.0)) == {0: 2}
    decisions = scheduler.arrive(Query(1, "a", 1, 0.1, 2.0, Priority.HIGH), 0.1)
    # On one place it would typically end before 9 s, but not nine times of ten.
    assert scheduler.running[0].share == 2 and refusals_of(decisions)
