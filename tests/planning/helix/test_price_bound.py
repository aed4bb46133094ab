"""The bound by prices: above all layouts, and equal to the best where it should be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.planning.helix.layer_flows import best_by_trying_all, random_layer_flow
from tvm_hetero.planning.helix.price_bound import price_bound
from tvm_hetero.planning.helix.problem import LayerFlowProblem, LayerNode


def wide(layers: int, tables: list[tuple[float, ...]]) -> LayerFlowProblem:
    """A problem without limits but nodes."""
    nodes = tuple(LayerNode(f"n{i}", rates) for i, rates in enumerate(tables))
    count = len(nodes)
    links = {(i, j): 1e9 for i in range(count) for j in range(count) if i != j}
    return LayerFlowProblem("wide", layers, nodes, links, (1e9,) * count, (1e9,) * count)


@settings(max_examples=draws(15), deadline=None)
@given(st.integers(0, 2**31), st.booleans(), st.booleans())
def test_no_layout_surpasses_the_bound(seed: int, wide_links: bool, partial: bool) -> None:
    problem = random_layer_flow(seed, wide=wide_links, partial=partial)
    assert price_bound(problem) >= best_by_trying_all(problem) * (1 - 1e-9)


def test_identical_nodes_that_share_the_layers_evenly_meet_the_bound() -> None:
    # Four nodes, eight layers: two each, 6 tokens a second. Work alone allows 4 x 20 / 8 = 10.
    problem = wide(8, [(20.0, 6.0, 3.0)] * 4)
    assert price_bound(problem) == pytest.approx(6.0, rel=1e-6)


def test_layers_that_do_not_fit_have_a_bound_of_nothing() -> None:
    assert price_bound(wide(9, [(20.0, 6.0)] * 4)) == 0.0


def test_a_bound_that_is_stopped_at_once_is_the_work_of_all_nodes() -> None:
    tables = [(20.0, 6.0, 3.0), (8.0, 5.0)]
    stopped = price_bound(wide(4, tables), lambda: True)
    assert math.isclose(stopped, (20.0 + 10.0) / 4)
