"""Each baseline is what its one line says."""

from __future__ import annotations

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
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES
from tvm_hetero.serve.scheduling.policies.bbs import BufferBased
from tvm_hetero.serve.scheduling.policies.fastest import Fastest
from tvm_hetero.serve.scheduling.policies.fixed_partitions import FixedPartitions, divide_models
from tvm_hetero.serve.scheduling.policies.one_stage import OneStage
from tvm_hetero.serve.scheduling.policies.packrat import best_instances
from tvm_hetero.serve.scheduling.policies.slo_conforming import SloConforming
from tvm_hetero.serve.scheduling.policies.whole_machine import WholeMachine
from tvm_hetero.serve.scheduling.query import Priority, Query, StartQuery


@pytest.mark.parametrize("name", sorted(SHARE_POLICIES))
@settings(max_examples=draws(10), deadline=None)
@given(queries=query_streams())
def test_every_policy_keeps_the_rules_of_the_pool_and_ends_every_query(
    name: str, queries: list[Query]
) -> None:
    outcomes = replay_watched(SHARE_POLICIES[name](profile(4), 4), queries)
    assert all(each.done for each in outcomes)


def test_slo_conforming_takes_the_least_share_that_meets_the_slo_and_waits_for_it() -> None:
    scheduler = SloConforming(profile(4), 4)
    # 1 + 3/k <= 2.1: three places.
    assert starts_of(scheduler.arrive(Query(0, "a", 4, 0.0, 2.1), 0.0)) == {0: 3}
    # One place is free; this one needs two.
    assert starts_of(scheduler.arrive(Query(1, "a", 4, 0.0, 2.6), 0.0)) == {}
    assert starts_of(scheduler.ended(0, 0.05)) == {1: 2}


def test_fastest_takes_all_places_that_make_it_quicker() -> None:
    scheduler = Fastest(profile(4), 4)
    assert starts_of(scheduler.arrive(Query(0, "a", 1, 0.0, 9.0), 0.0)) == {0: 1}
    assert starts_of(scheduler.arrive(Query(1, "a", 8, 0.0, 90.0), 0.0)) == {1: 3}
    assert starts_of(scheduler.arrive(Query(2, "a", 8, 0.0, 90.0), 0.0)) == {}


def test_one_stage_takes_one_place() -> None:
    scheduler = OneStage(profile(4), 4)
    assert starts_of(scheduler.arrive(Query(0, "a", 8, 0.0, 1.5), 0.0)) == {0: 1}


def test_the_whole_machine_runs_one_query_at_a_time() -> None:
    scheduler = WholeMachine(profile(4), 4)
    assert starts_of(scheduler.arrive(Query(0, "a", 8, 0.0), 0.0)) == {0: 4}
    assert starts_of(scheduler.arrive(Query(1, "b", 1, 0.0), 0.0)) == {}
    assert starts_of(scheduler.ended(0, 2.75)) == {1: 4}


def test_bbs_joins_a_running_stream_of_its_model_without_filling_the_pipeline_anew() -> None:
    scheduler = BufferBased(profile(4), 4)
    scheduler.arrive(Query(0, "a", 4, 0.0, 2.1), 0.0)
    # Behind the other one it ends at 2 + 4/3 s.
    assert starts_of(scheduler.arrive(Query(1, "a", 4, 0.0, 3.4), 0.0)) == {}
    assert scheduler.ended(0, 2.0) == [StartQuery(1, (0, 1, 2), follows=0)]
    assert scheduler.running[1].course.finish == pytest.approx(2 + 4 / 3)


def test_bbs_is_slo_conforming_where_the_stream_ends_too_late() -> None:
    scheduler = BufferBased(profile(4), 4)
    scheduler.arrive(Query(0, "a", 8, 0.0, 8.0), 0.0)
    assert starts_of(scheduler.arrive(Query(1, "a", 4, 0.0, 3.4), 0.0)) == {1: 2}


def test_fixed_partitions_never_lend_places() -> None:
    scheduler = FixedPartitions(profile(4), 4, {"a": 3.0, "b": 1.0})
    assert starts_of(scheduler.arrive(Query(0, "b", 8, 0.0), 0.0)) == {0: 1}
    assert starts_of(scheduler.arrive(Query(1, "b", 8, 0.0), 0.0)) == {}
    assert starts_of(scheduler.arrive(Query(2, "a", 8, 0.0), 0.0)) == {2: 3}


def test_models_share_a_partition_where_there_are_more_of_them_than_places() -> None:
    found = divide_models({"a": 5.0, "b": 3.0, "c": 1.0}, 2)
    assert found == [(frozenset("a"), 1), (frozenset("bc"), 1)]
    assert divide_models({"a": 6.0, "b": 2.0}, 4) == [(frozenset("a"), 3), (frozenset("b"), 1)]
    with pytest.raises(UsageError, match="load above 0"):
        divide_models({"a": 0.0}, 2)


def test_packrat_divides_a_batch_among_instances_of_threads() -> None:
    def amdahl(threads: int, batch: int) -> float:
        return batch * (0.5 + 0.5 / threads)

    # Four instances of one thread and an item each beat one of four threads: 1 s, not 2.5 s.
    assert best_instances(amdahl, 4, 4) == pytest.approx(1.0)
    # One item is best on all threads together.
    assert best_instances(amdahl, 1, 4) == pytest.approx(0.625)
    # Three items on four: two instances of one thread and one of two.
    assert best_instances(amdahl, 3, 4) == pytest.approx(1.0)


def test_high_goes_before_low_and_what_is_too_late_is_dropped_if_asked() -> None:
    scheduler = OneStage(profile(1), 1, drop_late=True)
    scheduler.arrive(Query(0, "a", 4, 0.0, 9.0), 0.0)
    scheduler.arrive(Query(1, "a", 1, 0.1, 9.0, Priority.LOW), 0.1)
    scheduler.arrive(Query(2, "a", 1, 0.2, 9.0, Priority.HIGH), 0.2)
    scheduler.arrive(Query(3, "a", 1, 0.3, 2.0, Priority.HIGH), 0.3)
    decisions = scheduler.ended(0, 4.0)
    assert starts_of(decisions) == {2: 1}
    (refusal,) = refusals_of(decisions)
    assert refusal.query == 3 and refusal.value > refusal.limit
