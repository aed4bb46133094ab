"""The replay on examples that were computed by hand, and its figures."""

from __future__ import annotations

import math

import pytest

from tests.serve.scheduling.streams import profile
from tvm_hetero.errors import UsageError
from tvm_hetero.serve.scheduling.outcome import QueryOutcome, figures_of
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.one_stage import OneStage
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.scheduling.policies.whole_machine import WholeMachine
from tvm_hetero.serve.scheduling.query import Query, ShareDecision
from tvm_hetero.serve.scheduling.replay import Deviation, replay_queries


def test_a_query_alone_takes_a_fill_and_its_periods() -> None:
    (found,) = replay_queries(WholeMachine(profile(4), 4), [Query(0, "a", 5, 1.0)])
    assert (found.started, found.ended) == (1.0, pytest.approx(1 + 1 + 4 / 4))
    assert found.shares == [(1.0, 4)]


def test_a_share_that_is_given_up_and_given_back_is_in_the_outcome() -> None:
    low = Query(0, "a", 8, 0.0, 20.0)
    high = Query(1, "a", 4, 0.5, 4.0)
    scheduler = Accordion(profile(4), 4, AccordionOptions(spare=0))
    first, second = replay_queries(scheduler, [low, high])
    # At 0.5 the first one goes down to two places, of which the other two are free at 1.0.
    assert second.started == pytest.approx(1.0) and second.ended == pytest.approx(3.5)
    assert first.shares[:2] == [(0.0, 4), (pytest.approx(1.0), 2)]
    # Items 0 and 1 had entered; item 2 ends half a second after item 1, the last one 5 later.
    assert first.ended == pytest.approx(1.25 + 6 * 0.5) and first.met and second.met


def test_noise_is_by_its_seed_and_a_slowdown_lasts_as_long_as_its_window() -> None:
    queries = [Query(0, "a", 4, 0.0)]
    noisy = [Deviation(spread=0.2, seed=seed) for seed in (1, 1, 2)]
    found = [replay_queries(OneStage(profile(1), 1), queries, deviation=d) for d in noisy]
    once = [outcome.ended for (outcome,) in found]
    assert once[0] == once[1] != once[2]
    slow = Deviation(slowdown=2.0, begin=1.0, end=2.5)
    (late,) = replay_queries(OneStage(profile(1), 1), queries, deviation=slow)
    # The item that begins at 1 s is twice as slow, the one at 3 s as fast as ever.
    assert late.ended == pytest.approx(1 + 2 + 1 + 1)


def test_a_policy_that_learns_cannot_be_its_own_truth() -> None:
    with pytest.raises(UsageError, match="truth"):
        replay_queries(OneStage(profile(1), 1), [Query(0, "a", 1, 0.0)], learn=True)


def test_what_is_measured_is_learned() -> None:
    scheduler = OneStage(profile(1), 1)
    queries = [Query(i, "a", 2, 10.0 * i) for i in range(8)]
    replay_queries(scheduler, queries, truth=profile(1, a=3.0, b=0.1), learn=True)
    assert scheduler.profile.latency("a", 2, 1) == pytest.approx(6.0)


def test_a_policy_that_lets_a_query_wait_for_ever_is_found() -> None:
    class Asleep(OneStage):
        def _plan(self, now: float) -> None:
            return None

    with pytest.raises(UsageError, match="for ever"):
        replay_queries(Asleep(profile(1), 1), [Query(0, "a", 1, 0.0)])


def test_figures_count_the_late_and_the_refused() -> None:
    queries = [Query(0, "a", 1, 0.0, 2.0), Query(1, "a", 1, 0.0, 1.5), Query(2, "a", 1, 0.0, 0.5)]
    scheduler = Accordion(profile(1), 1)
    outcomes = replay_queries(scheduler, queries)
    assert [each.refusal is None for each in outcomes] == [True, False, False]
    found = figures_of(outcomes, 1)
    assert found.violations == pytest.approx(2 / 3) == found.refused
    assert found.mean == found.p50 == found.p99 == pytest.approx(1.0)
    assert found.rate == pytest.approx(1.0) and found.accommodated == pytest.approx(1 / 3)
    assert found.occupancy == found.full == pytest.approx(1.0)


def test_occupancy_is_of_the_time_in_which_there_were_queries() -> None:
    queries = [Query(0, "a", 1, 0.0), Query(1, "a", 1, 5.0), Query(2, "a", 1, 5.5)]
    outcomes = replay_queries(OneStage(profile(2), 2), queries)
    found = figures_of(outcomes, 2)
    # One place for 1 s; then one, two, one for half a second each.
    assert found.occupancy == pytest.approx(3.0 / (2 * 2.5)) and found.full == pytest.approx(0.2)
    assert math.isnan(QueryOutcome(queries[0]).latency)


def test_it_is_deterministic() -> None:
    def run() -> list[list[ShareDecision]]:
        scheduler, seen = Accordion(profile(4), 4), list[list[ShareDecision]]()
        decide = scheduler._decide
        scheduler._decide = lambda now: seen.append(decide(now)) or seen[-1]  # type: ignore
        replay_queries(scheduler, [Query(i, "ab"[i % 2], 1 + i % 5, 0.2 * i, 0.2 * i + 3)
                                   for i in range(40)], deviation=Deviation(0.3, 1))  # fmt: skip
        return seen

    assert run() == run()
