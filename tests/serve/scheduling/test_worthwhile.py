"""A query without deadline gets no place that brings little, and an overload that ended is over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.serve.scheduling.streams import profile, starts_of
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.policies.pressure import Pressure, QueryLoad
from tvm_hetero.serve.scheduling.policies.worthwhile import worthwhile_shares
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile, UsefulShare
from tvm_hetero.serve.scheduling.query import Priority, Query


def policy(second: float, **options: float) -> Accordion:
    """Two places, on which one element takes 1 s on one and `second` on both."""
    times = ModelTimes([Pace(1.0, 1.0), Pace(second, second)])
    return Accordion(ServiceProfile({"a": times}), 2, AccordionOptions(**options))


def free(number: int, now: float = 0.0) -> Query:
    return Query(number, "a", 1, now)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=8), st.floats(0, 0.5), st.floats(0, 1))
def test_what_is_kept_is_worth_it_and_what_is_not_is_not(
    seconds: list[float], gain: float, efficiency: float
) -> None:
    shares = [UsefulShare(k, s, 0.0) for k, s in enumerate(sorted(seconds, reverse=True), 1)]
    kept = worthwhile_shares(shares, gain, efficiency)
    assert kept[0] == shares[0]
    for share in shares[1:]:
        last = [each for each in kept if each.places < share.places][-1]
        won, more = last.seconds / share.seconds - 1, share.places / last.places - 1
        assert (share in kept) == (won >= max(gain, efficiency * more) - 1e-9)


def test_who_is_alone_has_all_places_unless_they_bring_next_to_nothing() -> None:
    assert starts_of(policy(0.8).arrive(free(0), 0.0)) == {0: 2}
    assert starts_of(policy(0.95).arrive(free(0), 0.0)) == {0: 1}
    assert starts_of(policy(0.95, free_gain=0.0).arrive(free(0), 0.0)) == {0: 2}


def test_where_others_have_deadlines_a_wider_share_has_to_bring_most_of_what_it_takes() -> None:
    for second, share in ((0.8, 1), (0.55, 2)):
        scheduler = policy(second)
        scheduler.arrive(Query(0, "a", 1, 0.0, 1.5), 0.0)
        scheduler.ended(0, 1.0)
        assert starts_of(scheduler.arrive(free(1, 1.0), 1.0)) == {1: share}


def test_who_comes_beside_others_waits_for_one_place_and_not_for_both() -> None:
    scheduler = policy(0.8)
    scheduler.arrive(free(0), 0.0)  # alone: on both
    scheduler.arrive(free(1, 0.1), 0.1)
    scheduler.arrive(free(2, 0.2), 0.2)
    assert starts_of(scheduler.ended(0, 0.8)) == {1: 1, 2: 1}


def test_a_query_of_several_elements_still_widens_for_it_gives_places_back() -> None:
    scheduler = Accordion(profile(4), 4, AccordionOptions(spare=0))
    scheduler.pressure.arrive(QueryLoad(None, 0.1), Priority.LOW, due=True)
    assert starts_of(scheduler.arrive(Query(0, "a", 8, 0.0), 0.0)) == {0: 4}


def test_an_idle_pool_forgets_an_overload_and_a_busy_one_does_not() -> None:
    pressure = Pressure(2)
    for _ in range(64):
        pressure.arrive(QueryLoad(None, 0.1), Priority.LOW, due=True)
        pressure.lose(avoidable=False)
    before = pressure.price(QueryLoad(None, 1.0), Priority.LOW)
    assert before > 1.0
    pressure.idle(1.0)  # in which the pool could have served twenty
    assert pressure.price(QueryLoad(None, 1.0), Priority.LOW) > 1.0
    pressure.idle(60.0)
    assert pressure.price(QueryLoad(None, 1.0), Priority.LOW) == 0.0 and not pressure.has_deadlines


def test_a_heavy_query_is_taken_on_idle_places_some_time_after_an_overload() -> None:
    table = ServiceProfile({"heavy": ModelTimes([Pace(1.0, 1.0)] * 2),
                            "light": ModelTimes([Pace(0.1, 0.1)] * 2)})  # fmt: skip
    for pause, taken in ((0.1, False), (120.0, True)):
        scheduler = Accordion(table, 2)
        for number in range(40):
            scheduler.arrive(Query(number, "light", 1, 0.0, 0.15), 0.0)
        for number in tuple(scheduler.running):
            scheduler.ended(number, 0.1)
        now = 0.1 + pause
        found = scheduler.arrive(Query(99, "heavy", 1, now, now + 3.0), now)
        assert bool(starts_of(found)) is taken
