"""The solver against all layouts of small problems."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.planning.helix.layer_flows import best_by_trying_all, random_layer_flow
from tests.planning.helix.test_price_bound import wide
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.helix import judge, solve_layer_flow
from tvm_hetero.planning.helix.problem import LayerFlowProblem
from tvm_hetero.solvers import Options


@settings(max_examples=draws(6), deadline=None)
@given(st.integers(0, 2**31), st.booleans(), st.booleans())
def test_small_problems_are_solved_and_proven(seed: int, wide_links: bool, partial: bool) -> None:
    problem = random_layer_flow(seed, wide=wide_links, partial=partial)
    best = best_by_trying_all(problem)
    try:
        answer = solve_layer_flow(problem, Options(time_limit=0.2, deadline=60.0))
    except InfeasibleError:
        assert best == 0.0
        return
    assert answer.value == pytest.approx(best, abs=1e-6)
    assert answer.bound >= best * (1 - 1e-9)
    assert answer.proven


def test_an_answer_is_the_same_again() -> None:
    problem = wide(12, [(13.0, 6.0, 4.0)] * 3 + [(7.0, 3.0)] * 6)
    answers = [solve_layer_flow(problem, Options(time_limit=0.5, deadline=60.0)) for _ in "ab"]
    assert answers[0].layout == answers[1].layout
    assert answers[0].value == judge(problem, answers[0].layout).value


def test_too_many_layers_are_infeasible_and_the_error_says_how_many() -> None:
    with pytest.raises(InfeasibleError, match=r"hold at most 8 layers together.* room for 9"):
        solve_layer_flow(wide(9, [(20.0, 6.0)] * 4), Options(time_limit=1.0))


def test_without_any_link_nothing_passes_and_that_is_proven() -> None:
    problem = wide(3, [(9.0, 4.0)] * 2)
    cut = LayerFlowProblem("cut", 3, problem.nodes, {}, problem.entries, problem.exits)
    answer = solve_layer_flow(cut, Options(time_limit=1.0))
    assert answer.value == answer.bound == 0.0
    assert answer.proven


def test_partial_inference_passes_at_least_as_much() -> None:
    layers, rates = 5, (12.0, 7.0, 4.0)
    whole = wide(layers, [rates] * 3)
    strict = LayerFlowProblem(
        "strict", layers, whole.nodes, whole.links, whole.entries, whole.exits, partial=False
    )
    options = Options(time_limit=2.0, deadline=60.0)
    free, bound = (solve_layer_flow(each, options) for each in (whole, strict))
    assert free.proven
    assert bound.proven
    assert free.value >= bound.value
