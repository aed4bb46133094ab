"""The judge's flows against networkx's, and what a token may do."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.planning.helix.layer_flows import random_layer_flow
from tvm_hetero.errors import UsageError
from tvm_hetero.planning.helix.judge import judge
from tvm_hetero.planning.helix.problem import LayerFlowProblem, LayerInterval, LayerNode, Layout


def drawn_layout(problem: LayerFlowProblem, rng: random.Random) -> Layout:
    """Any interval for most nodes, none for others."""
    found: list[LayerInterval | None] = []
    for node in problem.nodes:
        length = rng.randint(1, len(node.rates))
        first = rng.randint(0, problem.layers - length)
        found.append(LayerInterval(first, length) if rng.random() < 0.9 else None)
    return tuple(found)


def flow_by_networkx(problem: LayerFlowProblem, layout: Layout) -> float:
    """The same flow over a graph whose vertices are pairs of a node and a boundary."""
    graph = nx.DiGraph()
    graph.add_nodes_from(("from", "to"))
    for j, after in enumerate(layout):
        if after is None:
            continue
        graph.add_edge(("in", j), ("out", j), capacity=problem.nodes[j].rate(after))
        if after.first == 0:
            graph.add_edge("from", ("in", j), capacity=problem.entries[j])
        if after.first + after.length == problem.layers:
            graph.add_edge(("out", j), "to", capacity=problem.exits[j])
        for (i, there), capacity in problem.links.items():
            before = layout[i]
            if there != j or before is None:
                continue
            at = before.first + before.length
            inside = range(after.first, after.first + (after.length if problem.partial else 1))
            if at in inside:
                graph.add_edge(("out", i), ("in", j), capacity=capacity)
    return float(nx.maximum_flow_value(graph, "from", "to"))


@settings(max_examples=draws(60), deadline=None)
@given(st.integers(0, 2**31), st.booleans(), st.booleans())
def test_the_judge_finds_the_flow_that_networkx_finds(seed: int, wide: bool, partial: bool) -> None:
    problem = random_layer_flow(seed, wide=wide, partial=partial)
    layout = drawn_layout(problem, random.Random(seed))
    assert judge(problem, layout).value == pytest.approx(flow_by_networkx(problem, layout))


@pytest.mark.parametrize(("partial", "value"), [(True, 4.0), (False, 0.0)])
def test_only_with_partial_inference_a_node_begins_inside_of_its_interval(
    partial: bool, value: float
) -> None:
    nodes = (LayerNode("a", (9.0, 8.0)), LayerNode("b", (5.0, 4.0)))
    wide = (100.0, 100.0)
    problem = LayerFlowProblem("two", 3, nodes, {(0, 1): 50.0}, wide, wide, partial)
    flow = judge(problem, (LayerInterval(0, 2), LayerInterval(1, 2)))
    assert flow.value == value
    assert flow.over.get(("a", "b"), 0.0) == value


def test_a_flow_says_what_passes_over_each_link() -> None:
    nodes = tuple(LayerNode(name, (3.0,)) for name in "abc")
    links = {(0, 2): 2.0, (1, 2): 2.0}
    problem = LayerFlowProblem("fork", 2, nodes, links, (2.5, 9.0, 0.0), (0.0, 0.0, 9.0))
    flow = judge(problem, (LayerInterval(0, 1), LayerInterval(0, 1), LayerInterval(1, 1)))
    assert flow.value == 3.0
    assert flow.over["a", "c"] + flow.over["b", "c"] == 3.0
    assert flow.over["c", "coordinator"] == 3.0


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ((LayerInterval(0, 2),), "a holds 1 to 1 layers, got 2"),
        ((LayerInterval(2, 1),), "layers 2 to 2, expected some of 0 to 1"),
        ((LayerInterval(-1, 1),), "layers -1 to -1"),
        ((), "expected an interval or none for each of 1 nodes, got 0"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout: Layout, said: str) -> None:
    problem = LayerFlowProblem("one", 2, (LayerNode("a", (3.0,)),), {}, (1.0,), (1.0,))
    with pytest.raises(UsageError, match=said):
        judge(problem, layout)
