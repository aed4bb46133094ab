"""Covers: what they are worth as flows, and that the search ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.planning.helix.layer_flows import random_layer_flow
from tests.planning.helix.test_judge import drawn_layout
from tests.planning.helix.test_price_bound import wide
from tvm_hetero.planning.helix.cover_search import MoveBudget, least_cover, search_covers
from tvm_hetero.planning.helix.judge import judge
from tvm_hetero.planning.helix.link_search import FlowEvaluator
from tvm_hetero.planning.helix.price_bound import price_bound


@settings(max_examples=draws(60), deadline=None)
@given(st.integers(0, 2**31))
def test_where_links_never_bind_the_flow_is_the_least_cover(seed: int) -> None:
    problem = random_layer_flow(seed, wide=True)
    layout = drawn_layout(problem, random.Random(seed))
    assert problem.links_never_bind(1000.0)
    assert judge(problem, layout).value == pytest.approx(least_cover(problem, layout))


@settings(max_examples=draws(60), deadline=None)
@given(st.integers(0, 2**31), st.booleans())
def test_the_search_counts_flows_as_the_judge_does(seed: int, partial: bool) -> None:
    problem = random_layer_flow(seed, partial=partial)
    layout = drawn_layout(problem, random.Random(seed))
    held = [each for each in layout if each is not None]
    if len(held) == len(layout):
        value = judge(problem, layout).value
        assert FlowEvaluator(problem).flow(held) == pytest.approx(value, abs=0.05)


def test_a_search_meets_the_bound_of_two_kinds_that_fit_together() -> None:
    # Slow nodes hold two layers at 3 a second, in pairs; fast ones two layers at 6.
    problem = wide(8, [(13.0, 6.0)] * 2 + [(7.0, 3.0)] * 4)
    bound = price_bound(problem)
    value, held = search_covers(problem, bound, 1e-6, 0, MoveBudget(200_000, lambda: False))
    assert value == least_cover(problem, held) == pytest.approx(6.0)


def test_a_search_ends_when_its_moves_are_spent() -> None:
    problem = wide(8, [(13.0, 6.0)] * 5)
    spent = MoveBudget(2_000, lambda: False)
    value, _ = search_covers(problem, 1e6, 1e-6, 0, spent)
    assert spent.moves <= 0
    assert value > 0
