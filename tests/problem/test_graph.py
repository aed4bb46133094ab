"""Task graphs: structure, and every graph that is refused."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given

from tests.strategies import graphs
from tvm_hetero.errors import FormatError
from tvm_hetero.problem.graph import Edge, Task, TaskGraph


def diamond() -> TaskGraph:
    """a makes x (for b and c) and y (for c alone); d reads b and c."""
    tasks = [Task("a", output_bytes=20), Task("b"), Task("c"), Task("d", output_bytes=7)]
    edges = [
        Edge("a", "b", 8, "x"),
        Edge("a", "c", 8, "x"),
        Edge("a", "c", 4, "y"),
        Edge("b", "d", 1),
        Edge("c", "d", 2),
    ]
    return TaskGraph(tasks, edges)


def test_structure() -> None:
    graph = diamond()
    assert len(graph) == 4
    assert graph.task("c") == Task("c")
    assert graph.topological_order == ("a", "b", "c", "d")
    assert graph.predecessors["c"] == ("a",)
    assert graph.successors["a"] == ("b", "c")
    assert graph.tensors["x"].readers == ("b", "c")
    assert graph.tensors["b"].bytes == 1
    assert [t.name for t in graph.inputs["c"]] == ["x", "y"]
    assert [t.name for t in graph.outputs["a"]] == ["x", "y"]


def test_unread_bytes() -> None:
    graph = diamond()
    assert graph.unread_bytes("a") == 20 - 8 - 4
    assert graph.unread_bytes("d") == 7
    assert graph.unread_bytes("b") == 0  # says 0 bytes, and 1 byte of it is read


AB = [Task("a"), Task("b")]


@pytest.mark.parametrize(
    ("tasks", "edges", "message"),
    [
        ([], [], "no tasks; expected at least one"),
        ([Task("a"), Task("a")], [], "task 'a' is given twice"),
        (AB, [Edge("a", "z", 1)], "edge 'a' -> 'z': there is no task 'z'"),
        (AB, [Edge("a", "b", 1), Edge("a", "b", 1)], "tensor 'a', is given twice"),
        (AB, [Edge("a", "a", 1)], "in a cycle: a -> a"),
        (AB, [Edge("a", "b", 1), Edge("b", "a", 1)], "in a cycle: (a -> b -> a|b -> a -> b)$"),
        (
            [*AB, Task("c")],
            [Edge("a", "c", 1, "t"), Edge("b", "c", 1, "t")],
            "tensor 't' is made by 'a' and by 'b'",
        ),
        (
            [*AB, Task("c")],
            [Edge("a", "b", 1), Edge("a", "c", 2)],
            "tensor 'a' has 2 bytes here and 1 on another edge",
        ),
    ],
)
def test_refused(tasks: list[Task], edges: list[Edge], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        TaskGraph(tasks, edges)


def test_a_long_cycle_is_named_in_short() -> None:
    count = 30_000
    tasks = [Task(f"t{i}") for i in range(count)]
    edges = [Edge(f"t{i}", f"t{(i + 1) % count}", 0) for i in range(count)]
    with pytest.raises(FormatError, match=r"cycle: t\d+ -> .* -> \.\.\. -> t\d+$") as error:
        TaskGraph(tasks, edges)
    assert len(str(error.value)) < 300


def test_tasks_below_a_cycle_are_not_said_to_be_on_it() -> None:
    tasks = [Task("below"), Task("a"), Task("b")]
    edges = [Edge("a", "b", 0), Edge("b", "a", 0, "back"), Edge("b", "below", 0, "down")]
    with pytest.raises(FormatError) as error:
        TaskGraph(tasks, edges)
    assert "below" not in str(error.value)


@given(graphs(max_tasks=8))
def test_queries_agree_with_networkx(graph: TaskGraph) -> None:
    other = nx.DiGraph()
    other.add_nodes_from(graph.index)
    other.add_edges_from((e.src, e.dst) for e in graph.edges)
    assert {t: set(s) for t, s in graph.successors.items()} == {t: set(other[t]) for t in other}
    assert {t: set(p) for t, p in graph.predecessors.items()} == {
        t: set(other.pred[t]) for t in other
    }
    place = {task: i for i, task in enumerate(graph.topological_order)}
    assert set(place) == set(graph.index)
    assert all(place[e.src] < place[e.dst] for e in graph.edges)
    assert list(graph.topological_order) == list(
        nx.lexicographical_topological_sort(other, key=graph.index.__getitem__)
    )
