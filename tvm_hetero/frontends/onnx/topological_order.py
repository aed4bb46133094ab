"""Nodes in an order in which each stands behind what it reads.

ONNX demands it, but ONNX Runtime orders nodes itself, so files that are not in order are about
(onnxconverter's float16 conversion puts its casts at the end).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import onnx
from onnx import GraphProto, NodeProto


def sort_nodes(model: onnx.ModelProto) -> None:
    """Order the nodes of a model, and of the graphs within it, in place.

    A graph that is in order stays as it is; one that cannot be ordered (a node that reads what
    depends on it, or what no one makes) is left for onnx's checker to refuse.

    Parameters
    ----------
    model : onnx.ModelProto
        Of which the structure is checked.
    """
    _sort(model.graph)


def _sort(graph: GraphProto) -> None:
    for inner in (a.g for node in graph.node for a in node.attribute if a.HasField("g")):
        _sort(inner)
    order = _order(graph)
    if order is not None:
        nodes = [NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
        del graph.node[:]
        graph.node.extend(nodes)


def _order(graph: GraphProto) -> list[int] | None:
    """Return the positions of the nodes in order; None if they are, or cannot be put in order."""
    maker = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [{maker[name] for name in _reads(node) if name in maker} for node in graph.node]
    if all(need < i for i, needed in enumerate(needs) for need in needed):
        return None
    readers: list[list[int]] = [[] for _ in graph.node]
    for i, needed in enumerate(needs):
        for need in sorted(needed):
            readers[need].append(i)
    waiting = [len(needed) for needed in needs]
    ready = deque(i for i, count in enumerate(waiting) if not count)
    order: list[int] = []
    while ready:
        order.append(ready.popleft())
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return order if len(order) == len(needs) else None


def _reads(node: NodeProto) -> Iterator[str]:
    """Yield what a node reads, and what graphs within it read of the one around them."""
    yield from node.input
    for graph in (a.g for a in node.attribute if a.HasField("g")):
        for inner in graph.node:
            yield from _reads(inner)
        yield from (value.name for value in graph.output)
