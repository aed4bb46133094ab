"""Random networks: the size that was asked for, the same for the same seed, another for another."""

from __future__ import annotations

import networkx as nx
import pytest

from tvm_hetero import zoo
from tvm_hetero.zoo.random_wiring import neighbours_of, wires

RANDOM = [name for name in zoo.names() if "seed" in zoo.describe(name).parameters]


@pytest.mark.parametrize("name", RANDOM)
def test_the_seed_decides(name: str):
    first, again, other = (zoo.work_graph(name, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.edges != other.edges


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5, 6, 30, 50])
def test_a_module_has_exactly_so_many_tasks_inside(tasks: int):
    graph = zoo.work_graph("module", tasks=tasks)
    assert len(graph.works) == tasks + 2
    assert [work.kind for work in graph.works].count("output") == 1


@pytest.mark.parametrize("name", ["layered", "series-parallel"])
@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 7, 8, 50, 2000])
def test_random_graphs_have_exactly_so_many_tasks_inside(name: str, tasks: int):
    for seed in range(3):
        graph = zoo.work_graph(name, tasks=tasks, seed=seed)
        assert len(graph.works) == tasks + 2


@pytest.mark.parametrize("name", ["module", "wide", "randwire-er", "layered", "series-parallel"])
def test_every_task_lies_between_input_and_output(name: str):
    graph = zoo.work_graph(name, seed=3)
    edges = nx.DiGraph([(edge.src, edge.dst) for edge in graph.edges])
    assert len(edges) == len(graph.works)
    assert nx.descendants(edges, "input") == set(edges) - {"input"}
    assert nx.ancestors(edges, "output") == set(edges) - {"output"}


def test_series_parallel_graphs_are_what_they_are_called():
    graph = zoo.work_graph("series-parallel", tasks=200, seed=1)
    assert _reduces_to_one_edge([(edge.src, edge.dst) for edge in graph.edges])


def _reduces_to_one_edge(pairs: list[tuple[str, str]]) -> bool:
    """Merge parallel edges and drop tasks of one input and one output while there are any."""
    graph = nx.DiGraph(pairs)  # a DiGraph holds parallel edges once
    while True:
        inner = [n for n in graph if graph.in_degree(n) == 1 and graph.out_degree(n) == 1]
        if not inner:
            return graph.number_of_edges() == 1
        (before,), (after,) = graph.predecessors(inner[0]), graph.successors(inner[0])
        graph.remove_node(inner[0])
        graph.add_edge(before, after)


def test_a_wide_network_has_cuts_between_its_blocks():
    graph = zoo.work_graph("wide", blocks=3, branches=4)
    joins = [work.id for work in graph.works if work.op == "concat"]
    assert len(joins) == 3
    edges = nx.DiGraph([(edge.src, edge.dst) for edge in graph.edges])
    edges.remove_node(joins[1])
    assert not nx.has_path(edges, "input", "output")


@pytest.mark.parametrize("model", ["ws", "er", "ba"])
def test_wires_point_upwards(model: str):
    given = wires(model, 32, seed=1, neighbours=4, chance=0.5)
    assert given == sorted(set(given))
    assert all(0 <= a < b < 32 for a, b in given)
    reads, last = neighbours_of(32, given)
    assert sum(map(len, reads)) == len(given)
    assert last[31]


def test_watts_strogatz_wires_two_neighbours_to_each_side():
    assert len(wires("ws", 32, seed=0)) == 64
    assert wires("ws", 1, seed=0) == []
    assert wires("ws", 2, seed=0) == [(0, 1)]
