"""Who is refused for a crowd without deadlines: as soon as that is certain, and no one else."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.serve.scheduling.streams import count_holds, profile, query_streams
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.query import Priority, Query, ShareDecision
from tvm_hetero.serve.scheduling.replay import replay_queries

LOW = Priority.LOW


class Thorough(Accordion):
    """Which always reserves for all that wait before it refuses."""

    def _is_crowded(self, query: Query, now: float) -> bool:
        return False


class Asked(Accordion):
    """Asked at each arrival about others that have deadlines."""

    factors: tuple[float, ...] = ()

    def arrive(self, query: Query, now: float) -> list[ShareDecision]:
        for number, factor in enumerate(self.factors):
            for priority in Priority:
                due = now + factor * 0.1
                other = Query(1000 + number, "b", 1, now, due, priority)
                thorough = copy.deepcopy(self)
                thorough.__class__ = Thorough  # type: ignore[assignment]
                quick, full = self.foresee(other, now), thorough.foresee(other, now)
                assert (quick is None) == (full is None)
                if quick is not None:
                    assert quick.value > quick.limit
        return super().arrive(query, now)


@settings(max_examples=draws(25), deadline=None)
@given(
    query_streams(deadlines=False),
    st.lists(st.sampled_from([0.5, 1.0, 1.5, 3.0, 7.0, 20.0]), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4]),
)
def test_a_quick_refusal_is_one_that_would_come_anyway(
    queries: list[Query], factors: list[float], places: int
) -> None:
    policy = Asked(profile(places), places)
    policy.factors = tuple(factors)
    replay_queries(policy, [replace(query, items=1) for query in queries])


def _crowd(waiting: int) -> Accordion:
    """Two places that are taken, and so many low ones that count as high: they have waited."""
    policy = Accordion(profile(2), 2)
    for number in range(waiting + 2):
        policy.arrive(Query(number, "b", 1, 0.0, math.inf, LOW), 0.0)
    for place in (0, 1):
        policy.ended(place, 1.5)
    return policy


def _holds(policy: Accordion) -> int:
    """How often calendars are written to while one with a deadline is refused."""

    def refuse() -> None:
        refusal = policy.foresee(Query(10_000, "b", 1, 1.5, 1.85, LOW), 1.5)
        assert refusal is not None
        # 0.1 s each on two places, and its own.
        assert refusal.value == pytest.approx(0.1 * (len(policy.waiting) + 2) / 2 + 0.1)

    return count_holds(refuse)


def test_a_refusal_looks_at_as_many_of_200_that_wait_as_fit_before_its_deadline() -> None:
    few = _holds(_crowd(20))
    assert 4 <= few == _holds(_crowd(200)) <= 12
