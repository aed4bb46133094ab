"""Queries of one kind are as heavy as each other, though measured times move between them."""

from __future__ import annotations

import pytest

from tests.serve.scheduling.streams import refusals_of, starts_of
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.pressure import LoadKind, Pressure, QueryLoad
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority, Query

HIGH, LOW = Priority.HIGH, Priority.LOW


def _measure(times: ModelTimes, seconds: float) -> None:
    for _ in range(64):
        times.add(1, 1, seconds)


def _lose(policy: Accordion, count: int, now: float) -> None:
    """So many that would have to begin at once are refused."""
    for number in range(count):
        hurried = Query(1000 + number, "a", 1, now, now + 1.2)
        refusal = policy.foresee(hurried, now)
        assert refusal is not None and refusal.retry_after is not None
        policy.turned_away(hurried, refusal)


@pytest.mark.parametrize("drift", [0.9, 1.0, 1.1, 1.5])
def test_no_place_is_kept_from_a_query_for_others_of_its_own_kind(drift: float) -> None:
    times = ModelTimes([Pace(1.0, 1.0)] * 2)
    _measure(times, 1.0)
    policy = Accordion(ServiceProfile({"a": times}), 2)
    for number in range(6):
        policy.arrive(Query(number, "a", 1, 0.0, priority=LOW), 0.0)
    assert set(policy.running) == {0, 1}
    _lose(policy, 10, 0.1)
    _measure(times, drift)
    assert starts_of(policy.ended(0, 1.0)) == {2: 1}
    assert starts_of(policy.ended(1, 1.0)) == {3: 1}


@pytest.mark.parametrize("drift", [0.9, 1.0, 1.1, 1.5])
def test_who_is_as_heavy_as_those_who_were_refused_keeps_no_lighter_ones_out(drift: float) -> None:
    times = ModelTimes([Pace(1.0, 1.0)] * 2)
    _measure(times, 1.0)
    policy = Accordion(ServiceProfile({"a": times}), 2)
    for number in (0, 1):
        policy.arrive(Query(number, "a", 1, 0.0), 0.0)
    _lose(policy, 40, 0.1)
    _measure(times, drift)
    policy.ended(0, 1.0)
    assert not refusals_of(policy.arrive(Query(2, "a", 1, 1.0, 3.0), 1.0))


def test_sums_of_what_is_forgotten_are_forgotten() -> None:
    pressure, light, heavy = Pressure(2), LoadKind("light", 1, 1), LoadKind("heavy", 1, 1)
    for turn in range(1000):
        for kind in (light, heavy):
            pressure.arrive(QueryLoad(kind, 0.1 + 1e-3 * (turn % 7)), LOW, due=True)
            if turn % 3 == 0:
                pressure.lose(avoidable=False)
    assert sum(each.many for each in pressure._all_of.values()) == pressure._all.many == 256
    lost = [each.load.work for each in pressure._seen if each.lost]
    assert sum(each.many for each in pressure._lost_of.values()) == len(lost)
    assert pressure._lost.work == pytest.approx(sum(lost))
    pressure.idle(1e6)
    assert not pressure._seen and not pressure._all_of and not pressure._lost_of
    assert pressure._all == pressure._lost == (0, 0.0)


@pytest.mark.parametrize("work", [1.5, 3.0])
def test_who_is_heavier_than_lost_ones_of_another_kind_is_so_in_spite_of_its_own(
    work: float,
) -> None:
    pressure, own = Pressure(2), LoadKind("own", 1, 1)
    for number in range(10):
        pressure.arrive(QueryLoad(own if number else LoadKind("other", 1, 1), 2.0), HIGH, due=True)
        pressure.lose(avoidable=False)
    assert pressure.outweighs_lost(QueryLoad(own, work)) == (work > 2.0)
    assert pressure.is_heavy(QueryLoad(own, work)) == (work > 2.0)
