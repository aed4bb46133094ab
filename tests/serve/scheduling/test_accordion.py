"""Accordion keeps its promises and the rules, and is its simpler relatives where it has to be."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.serve.scheduling.streams import (
    profile,
    query_streams,
    refusals_of,
    replay_watched,
    starts_of,
)
from tvm_hetero.errors import UsageError
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.outcome import QueryOutcome
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.one_stage import OneStage
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.policies.slo_conforming import SloConforming
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority, Query, ResizeQuery, WaitUntil
from tvm_hetero.serve.scheduling.replay import Deviation

HIGH, LOW = Priority.HIGH, Priority.LOW
PLAIN = AccordionOptions(shrink=False, widen=False, weigh=False, guard=False)


def times_of(outcomes: list[QueryOutcome]) -> list[tuple[float, float, int]]:
    return [(round(o.started, 6), round(o.ended, 6), o.shares[0][1]) for o in outcomes]


@settings(max_examples=draws(60), deadline=None)
@given(query_streams())
def test_an_accepted_query_never_loses_its_slo_in_the_predicted_model(queries: list[Query]) -> None:
    for places in (1, 2, 4):
        outcomes = replay_watched(Accordion(profile(places), places), queries)
        assert all(each.met for each in outcomes if each.refusal is None)


@settings(max_examples=draws(25), deadline=None)
@given(query_streams())
def test_every_query_ends_or_is_told_why_not_whatever_times_really_are(
    queries: list[Query],
) -> None:
    wrong = Deviation(spread=0.5, seed=3, slowdown=3.0, begin=0.5, end=2.0)
    for options in (AccordionOptions(), AccordionOptions(best_effort=True, weigh=False)):
        outcomes = replay_watched(Accordion(profile(4), 4, options), queries, wrong)
        assert all(each.done for each in outcomes)
        for each in outcomes:
            if each.refusal is not None:
                assert each.refusal.reason and each.refusal.value > each.refusal.limit
                assert not options.best_effort


@settings(max_examples=draws(30), deadline=None)
@given(query_streams(deadlines=False))
def test_on_one_place_it_is_one_stage(queries: list[Query]) -> None:
    same = [Query(q.number, q.model, q.items, q.arrival) for q in queries]
    ours = replay_watched(Accordion(profile(1), 1, PLAIN), same)
    assert times_of(ours) == times_of(replay_watched(OneStage(profile(1), 1), same))


@settings(max_examples=draws(30), deadline=None)
@given(query_streams())
def test_without_resizing_and_with_room_it_is_slo_conforming(queries: list[Query]) -> None:
    table = profile(4)
    able = [q for q in queries if table.least_latency(q.model, q.items) <= q.slo < math.inf]
    ours = replay_watched(Accordion(table, 64, PLAIN), able)
    theirs = replay_watched(SloConforming(table, 64), able)
    assert times_of(ours) == times_of(theirs)


@settings(max_examples=draws(30), deadline=None)
@given(query_streams())
def test_no_high_one_waits_while_low_ones_could_give_it_an_earlier_start(
    queries: list[Query],
) -> None:
    scheduler = Accordion(profile(4), 4)
    decide = scheduler._decide

    def watched(now: float) -> list:  # type: ignore[type-arg]
        decisions = decide(now)
        if any(each.given_up for each in scheduler.running.values()):
            return decisions  # places are on their way
        # Who has no deadline is first in no queue, and asks nobody.
        high = [
            w
            for w in scheduler._waiting.values()
            if w.query.priority is HIGH and w.query.deadline < math.inf
        ]
        for each in sorted(high, key=lambda w: w.order(now))[:1]:
            spot = each.reservation
            calendar = scheduler._calendar(now)
            calendar.take(spot.start, spot.end, -spot.share)
            room = scheduler._room(each.query, calendar, now, low_only=True)
            assert room is None or room.begin >= spot.start - 1e-9
        return decisions

    scheduler._decide = watched  # type: ignore[method-assign]
    replay_watched(scheduler, queries)


def test_a_high_one_takes_places_from_a_low_one_with_slack() -> None:
    scheduler = Accordion(profile(4), 4, AccordionOptions(spare=0))
    # Alone, a low one with much slack is given all four places.
    assert starts_of(scheduler.arrive(Query(0, "a", 8, 0.0, 20.0, LOW), 0.0)) == {0: 4}
    # The high one needs two: the low one gives its first two stages.
    decisions = scheduler.arrive(Query(1, "a", 4, 0.5, 4.0, HIGH), 0.5)
    assert decisions[0] == ResizeQuery(0, (3, 0)) and not refusals_of(decisions)
    assert scheduler.pool.free == 0  # what is given up is not empty yet
    reserved = scheduler.reservations[1]
    # Item 2 enters at 0.5; two periods of 0.25 s later the first two stages are empty.
    assert reserved.share == 2 and reserved.start == pytest.approx(1.0)
    assert starts_of(scheduler.released(0, 1.0)) == {1: 2}


def test_who_is_given_places_that_are_free_at_once_starts_on_all_of_them() -> None:
    """The giver has not begun: nothing will end, so that no event would tell of what it gave."""
    paces = {
        "long": [Pace(1.5, 1.5), Pace(0.55, 0.275), Pace(0.55, 0.55), Pace(0.4, 0.4)],
        "short": [Pace(0.15, 0.15), Pace(0.1, 0.05), Pace(0.08, 0.03), Pace(0.07, 0.07)],
    }
    known = ServiceProfile({name: ModelTimes(each) for name, each in paces.items()})
    queries = [
        Query(0, "long", 2, 0.0, 0.81, LOW),
        Query(1, "short", 5, 0.2, math.inf, LOW),
        Query(2, "long", 5, 0.7, 2.8, HIGH),
    ]
    outcomes = replay_watched(Accordion(known, 4, AccordionOptions(weigh=False)), queries)
    assert [each.shares[-1] for each in outcomes[1:]] == [(0.8, 2), (0.8, 2)]
    assert outcomes[2].met and outcomes[2].ended == pytest.approx(0.8 + 1.65)


def test_a_low_one_takes_nothing_from_a_high_one() -> None:
    scheduler = Accordion(profile(4), 4, AccordionOptions(spare=0))
    scheduler.arrive(Query(0, "a", 8, 0.0, 20.0, HIGH), 0.0)
    (refusal,) = refusals_of(scheduler.arrive(Query(1, "a", 1, 0.5, 2.0, LOW), 0.5))
    # The high one ends after 1 + 7/4 s.
    assert refusal.limit == pytest.approx(1.5) and refusal.value == pytest.approx(2.75 - 0.5 + 1)
    assert refusal.retry_after == pytest.approx(refusal.value - refusal.limit)
    assert "behind what was accepted" in refusal.reason


def test_what_no_share_can_do_in_time_is_refused_for_good() -> None:
    (refusal,) = refusals_of(Accordion(profile(4), 4).arrive(Query(0, "a", 2, 0.0, 1.0), 0.0))
    assert refusal.retry_after is None and refusal.value == pytest.approx(1.25)


def test_best_effort_takes_what_is_late_and_runs_it() -> None:
    scheduler = Accordion(profile(4), 4, AccordionOptions(best_effort=True))
    assert starts_of(scheduler.arrive(Query(0, "a", 2, 0.0, 1.0), 0.0))


def test_idle_places_go_to_who_has_least_slack_and_some_are_spared() -> None:
    scheduler = Accordion(profile(4), 4, AccordionOptions(spare=1))
    assert starts_of(scheduler.arrive(Query(0, "a", 8, 0.0, 9.0), 0.0)) == {0: 3}
    assert scheduler.pool.free == 1


def test_one_item_is_not_widened_because_it_gains_nothing() -> None:
    scheduler = Accordion(profile(4), 4, AccordionOptions(spare=0))
    assert starts_of(scheduler.arrive(Query(0, "a", 1, 0.0, 9.0), 0.0)) == {0: 1}


def test_a_low_one_without_deadline_counts_as_high_after_a_while() -> None:
    scheduler = Accordion(profile(2), 2, AccordionOptions(ageing=0.5))
    assert starts_of(scheduler.arrive(Query(0, "a", 8, 0.0, math.inf, LOW), 0.0)) == {0: 2}
    decisions = scheduler.arrive(Query(1, "b", 1, 0.0, math.inf, LOW), 0.0)
    # Half of ten times its 0.1 s; who runs could give it a place then.
    assert decisions == [WaitUntil(0.5)]
    scheduler.arrive(Query(2, "b", 1, 0.1, math.inf, HIGH), 0.1)
    order = sorted(scheduler._waiting.values(), key=lambda each: each.order(0.2))
    assert [each.query.number for each in order] == [2, 1]
    assert scheduler._waiting[1].is_high(0.6) and not scheduler._waiting[1].is_high(0.4)


def test_under_pressure_heavy_queries_give_way_to_many_light_ones() -> None:
    table = profile(2, a=1.0, b=0.01)
    queries, number = list[Query](), 0
    for second in range(60):
        for step in range(20):
            now = second + step * 0.05
            heavy = step % 10 == 0
            slo = 8.0 if heavy else 0.02
            queries.append(Query(number, "a" if heavy else "b", 2 if heavy else 1, now, now + slo))
            number += 1

    def met(options: AccordionOptions) -> int:
        return sum(each.met for each in replay_watched(Accordion(table, 2, options), queries))

    even, weighed = met(AccordionOptions(weigh=False)), met(AccordionOptions())
    assert weighed > 1.3 * even


def test_a_query_that_is_here_already_or_of_no_model_is_an_error() -> None:
    scheduler = Accordion(profile(4), 4)
    scheduler.arrive(Query(0, "a", 1, 0.0), 0.0)
    with pytest.raises(UsageError, match="here already"):
        scheduler.arrive(Query(0, "a", 1, 0.0), 0.0)
    with pytest.raises(UsageError, match="no model"):
        scheduler.arrive(Query(1, "c", 1, 0.0), 0.0)


def test_who_goes_away_leaves_the_queue() -> None:
    scheduler = Accordion(profile(1), 1)
    scheduler.arrive(Query(0, "a", 8, 0.0), 0.0)
    scheduler.arrive(Query(1, "a", 1, 0.0), 0.0)
    assert [query.number for query in scheduler.waiting] == [1]
    scheduler.withdraw(1, 0.5)
    assert scheduler.waiting == () and scheduler.ended(0, 8.0) == []


def test_long_ones_without_deadline_leave_a_place_where_short_ones_were_lost() -> None:
    table = ServiceProfile({"long": ModelTimes([Pace(1.0, 1.0)] * 2),
                            "short": ModelTimes([Pace(0.1, 0.1)] * 2)})  # fmt: skip
    policy = Accordion(table, 2)
    for number in range(4):
        policy.arrive(Query(number, "long", 1, 0.0, priority=Priority.LOW), 0.0)
    assert set(policy.running) == {0, 1}
    for number in (10, 11):  # both places are held for longer than they may take
        short = Query(number, "short", 1, 0.1, 0.4)
        refusal = policy.foresee(short, 0.1)
        assert refusal is not None
        policy.turned_away(short, refusal)
    policy.ended(0, 0.8)
    assert set(policy.running) == {1}
    policy.arrive(Query(12, "short", 1, 0.8, 1.1), 0.8)
    assert set(policy.running) == {1, 12}
    policy.ended(12, 0.9)
    policy.ended(1, 1.0)
    assert len(policy.running) == 1 and len(policy.waiting) == 1  # and none waits for ever
    policy.ended(*policy.running, 2.0)
    assert len(policy.running) == 1 and not policy.waiting


def test_who_runs_on_all_places_alone_is_as_heavy_as_it_is_there() -> None:
    steps = ModelTimes([Pace(1e6, 1e6), Pace(0.001, 0.001)])  # a decoder: never on fewer
    policy = Accordion(ServiceProfile({"steps": steps}), 2)
    policy.arrive(Query(0, "steps", 1, 0.0, priority=Priority.LOW), 0.0)
    assert policy.pressure.mean_work == pytest.approx(0.002)


@pytest.mark.parametrize("seed", range(40))
def test_queries_that_take_longer_than_was_thought_do_not_wait_for_each_other_for_ever(
    seed: int,
) -> None:
    rng = random.Random(seed)
    times = ModelTimes([Pace(2.0, 2.0), Pace(1.2, 1.2)])
    scheduler = Accordion(ServiceProfile({"a": times}), 2)
    for number in range(4):
        now = 0.1 * number
        due = now + rng.choice([2.5, 4.0, 6.0, 8.0])
        scheduler.arrive(Query(number, "a", 1, now, due, LOW), now)
    for _ in range(8):
        times.add(1, 1, 4.0)
        times.add(1, 2, 2.4)
    now = rng.choice([1.0, 2.5, 5.5])
    while scheduler.running:  # as long as something runs, its end is an event
        scheduler.ended(next(iter(scheduler.running)), now)
        now += rng.choice([0.01, 1.0, 5.0])
    assert not scheduler.waiting
