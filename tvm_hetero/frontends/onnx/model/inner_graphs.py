"""What nodes read: as operands, and within the graphs that they hold (If, Loop, Scan).

A graph within a node reads values of the graph around it by their names. Whoever drops a value, or
gives it another name, has to look there too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import GraphProto, NodeProto


def inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs that a node holds."""
    yield from (a.g for a in node.attribute if a.HasField("g"))


def names_within(graph: GraphProto) -> Iterator[str]:
    """Yield the names of all values that a graph, or one within it, makes."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from node.output
        for inner in inner_graphs(node):
            yield from names_within(inner)


def node_reads(node: NodeProto) -> Iterator[str]:
    """Yield the names of all values that a node reads, or a graph within it."""
    yield from node.input
    for graph in inner_graphs(node):
        yield from (name for inner in graph.node for name in node_reads(inner))
        yield from (value.name for value in graph.output)


def rename_reads(node: NodeProto, renamed: Mapping[str, str]) -> None:
    """Let a node, and the graphs within it, read other values, in place.

    Parameters
    ----------
    node : NodeProto
        Changed in place.
    renamed : mapping of str to str
        Name of a value -> of the one to be read instead, which may be renamed itself.
    """
    for position, name in enumerate(node.input):
        if name in renamed:
            node.input[position] = _final(name, renamed)
    for graph in inner_graphs(node):
        own = set(names_within(graph))
        outer = {name: other for name, other in renamed.items() if name not in own}
        for inner in graph.node:
            rename_reads(inner, outer)
        for value in graph.output:
            value.name = _final(value.name, outer)


def _final(name: str, renamed: Mapping[str, str]) -> str:
    while name in renamed:
        name = renamed[name]
    return name
