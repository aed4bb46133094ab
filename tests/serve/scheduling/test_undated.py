"""Queries without deadline wait in order, and cost no more the more of them there are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.serve.scheduling.streams import (
    count_holds,
    profile,
    query_streams,
    replay_watched,
    starts_of,
)
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.query import Priority, Query, ShareDecision
from tvm_hetero.serve.scheduling.replay import Deviation

HIGH, LOW = Priority.HIGH, Priority.LOW


def _overload(waiting: int) -> Accordion:
    """Two places, each with a query of one item, and so many that wait."""
    scheduler = Accordion(profile(2), 2)
    for number in range(waiting + 2):
        scheduler.arrive(Query(number, "b", 1, 0.0), 0.0)
    assert len(scheduler.running) == 2 and len(scheduler.waiting) == waiting
    return scheduler


def _holds(scheduler: Accordion) -> int:
    """How often a calendar is written to while one query ends and one comes."""

    def end_and_come() -> None:
        scheduler.ended(next(iter(scheduler.running)), 0.05)
        scheduler.arrive(Query(1000, "b", 1, 0.06), 0.06)

    return count_holds(end_and_come)


def test_an_event_looks_at_as_many_of_200_that_wait_as_of_two() -> None:
    few = _holds(_overload(2))
    assert 0 < few == _holds(_overload(200))


def test_who_comes_first_starts_first_and_high_ones_before_low_ones() -> None:
    scheduler = _overload(0)
    for number, priority in ((10, LOW), (11, HIGH), (12, LOW), (13, HIGH)):
        assert not starts_of(
            scheduler.arrive(Query(number, "b", 1, 0.01 * number, math.inf, priority), 0.2)
        )
    begun = []
    for step in range(4):
        begun += starts_of(scheduler.ended(min(scheduler.running), 0.3 + 0.1 * step))
    assert begun == [11, 13, 10, 12]


@settings(max_examples=draws(40), deadline=None)
@given(query_streams(deadlines=False))
def test_no_place_is_free_that_the_first_that_waits_would_take_at_once(
    queries: list[Query],
) -> None:
    single = [replace(query, items=1) for query in queries]
    for places in (1, 2, 4):
        options = AccordionOptions(guard=False, shrink=False)
        scheduler = Accordion(profile(places), places, options)
        decide = scheduler._decide

        def watched(now: float) -> list[ShareDecision]:
            decisions = decide(now)  # noqa: B023
            if scheduler._waiting:  # noqa: B023
                first = min(scheduler._waiting.values(), key=lambda each: each.order(now))  # noqa: B023
                shares = scheduler._shares(first.query)  # noqa: B023
                assert scheduler.pool.free < min(each.places for each in shares)  # noqa: B023
            return decisions

        scheduler._decide = watched  # type: ignore[method-assign]
        wrong = Deviation(spread=0.3, seed=len(queries))
        assert all(each.done for each in replay_watched(scheduler, single, wrong))


def test_the_first_with_a_deadline_finds_reservations_of_all_who_came_before_it() -> None:
    scheduler = _overload(3)
    assert {spot.start for spot in scheduler.reservations.values()} == {math.inf}
    scheduler.arrive(Query(10, "b", 1, 0.01, 0.5, LOW), 0.01)
    spots = scheduler.reservations
    assert all(spot.start < math.inf and spot.share == 1 for spot in spots.values())
    assert spots[10].end <= 0.5
    assert not scheduler._calendar(0.01).overbooked


_INF = math.inf
_BROKEN = {
    # A place that one gave up before it had begun was free at once, and nobody was told.
    "a gift that is free at once": [
        Query(1, "a", 1, 0.1, _INF, LOW),
        Query(2, "a", 5, 0.4, _INF, HIGH),
        Query(3, "b", 3, 0.5, _INF, LOW),
        Query(4, "b", 5, 0.7, _INF, LOW),
        Query(5, "b", 2, 1.0, 1.8, HIGH),
        Query(6, "a", 8, 1.01, _INF, LOW),
        Query(7, "a", 8, 1.41, 17.41, HIGH),
    ],
    # A place was free before the turn of who had reserved it, and no end told of that turn.
    "a turn that no end tells of": [
        Query(1, "a", 8, 0.3, 32.3, LOW),
        Query(2, "a", 3, 0.4, 6.4, LOW),
        Query(3, "b", 5, 0.7, _INF, LOW),
        Query(4, "a", 5, 1.4, 11.4, LOW),
        Query(5, "b", 3, 2.1, 2.49, HIGH),
        Query(6, "a", 8, 2.1, _INF, HIGH),
        Query(7, "b", 5, 2.2, 4.2, LOW),
    ],
    # All places were free, and who was first took them from who had reserved one sooner.
    "the first of those whose time has not come": [
        Query(1, "b", 3, 0.0, _INF, HIGH),
        Query(2, "a", 1, 0.01, 1.31, HIGH),
        Query(3, "a", 5, 0.01, 45.01, HIGH),
        Query(4, "b", 2, 0.11, _INF, LOW),
        Query(5, "b", 8, 0.11, _INF, LOW),
        Query(6, "b", 5, 0.12, 0.77, LOW),
        Query(7, "b", 8, 0.82, _INF, LOW),
        Query(8, "b", 3, 1.12, 1.42, LOW),
        Query(9, "b", 1, 1.22, 2.12, LOW),
    ],
}


@pytest.mark.parametrize("queries", _BROKEN.values(), ids=_BROKEN)
def test_a_promise_that_was_broken_once_is_kept(queries: list[Query]) -> None:
    outcomes = replay_watched(Accordion(profile(2), 2), queries)
    assert all(each.met for each in outcomes if each.refusal is None)
    assert sum(each.refusal is None for each in outcomes) >= 5


@settings(max_examples=draws(40), deadline=None)
@given(query_streams(), query_streams(deadlines=False))
def test_promises_hold_beside_those_to_whom_nothing_is_promised(
    dated: list[Query], undated: list[Query]
) -> None:
    both = dated + [replace(query, number=100 + query.number) for query in undated]
    both.sort(key=lambda query: (query.arrival, query.number))
    for places in (1, 2, 4):
        outcomes = replay_watched(Accordion(profile(places), places), both)
        assert all(each.met for each in outcomes if each.refusal is None)
        assert all(each.refusal is None for each in outcomes if each.query.number >= 100)
