"""What any node of a saved graph is, and what lists and maps of nodes are.

Each node becomes one object, however often it is referred to; a node that is met again while
it is being made goes in circles, which no program of Relay does. Lists within lists are bounded by
what they are once they are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import RelayLimits
from tvm_hetero.frontends.relay.core.trampoline import Walk
from tvm_hetero.frontends.relay.json_reader.graph_file import GraphNode, RelayGraph
from tvm_hetero.frontends.relay.json_reader.graph_leaves import Leaves


class GraphValues:
    """Makes each node's object once. `makers` has, by type, what makes those that refer to others;
    all others are `leaves`.
    """

    def __init__(self, graph: RelayGraph, name: str, limits: RelayLimits) -> None:
        self.graph, self.name, self.limits = graph, name, limits
        self.leaves = Leaves(graph, name, limits)
        self.made: dict[int, Any] = {}
        self.sizes: dict[int, int] = {}
        self.open: set[int] = set()
        self.counted = 0
        self.makers: dict[str, Callable[[GraphNode], Walk]] = {
            "Array": self._array,
            "Map": self._map,
        }

    def value(self, node: GraphNode) -> Any:
        """A node's object: an expression, a type, a list, a number, a text or None; or the walk
        that makes it (`run` takes either).
        """
        if node.index in self.made:
            return self.made[node.index]
        if node.index in self.open:
            raise ModelError(
                f"{self.name}: {node} contains itself: no Relay program goes in circles; the "
                "file is damaged"
            )
        maker = self.makers.get(node.type)
        if maker is not None:
            return self._making(node, maker(node))
        made = self.made[node.index] = self.leaves.leaf(node)
        return made

    def _making(self, node: GraphNode, walk: Walk) -> Walk:
        self.open.add(node.index)
        made = self.made[node.index] = yield from walk
        self.open.discard(node.index)
        return made

    def field(self, node: GraphNode, name: str) -> Any:
        """The object that a field refers to, or the walk that makes it."""
        return self.value(self.graph.target(node, name))

    def listed(self, node: GraphNode, name: str) -> Walk:
        """The objects of a list that a field refers to."""
        target = self.graph.target(node, name)
        if target.type not in ("Array", ""):
            raise ModelError(f"{self.name}: {node}: its {name} are no list; the file is damaged")
        found = list((yield self.value(target)) or ())
        self.counted += len(found)  # thousands of calls may each name the same long list
        if self.counted > 2 * self.limits.nodes:
            raise ModelError(
                f"{self.name}: {node}: its {name} are {len(found)} more of over "
                f"{2 * self.limits.nodes} arguments and fields; damaged"
            )
        return found

    def _array(self, node: GraphNode) -> Walk:
        found: list[Any] = []
        for index in node.data:
            if index in self.made:
                found.append(self.made[index])
            else:
                found.append((yield self.value(self.graph.node(index, node))))
        self.grown(node, node.data)
        return tuple(found)

    def _map(self, node: GraphNode) -> Walk:
        keys: list[Any] = list(node.keys) or (yield from self._keys(node))
        data = node.data if node.keys else node.data[1::2]
        if len(keys) != len(data):
            raise ModelError(f"{self.name}: {node} has {len(keys)} keys for {len(data)} values")
        found = {}
        for key, index in zip(keys, data, strict=True):
            found[str(key)] = yield self.value(self.graph.node(index, node))
        self.grown(node, data)
        return found

    def _keys(self, node: GraphNode) -> Walk:
        """The keys of a map in which every other value is one."""
        keys = []
        for index in node.data[::2]:
            key = yield self.value(self.graph.node(index, node))
            if not isinstance(key, str | int | float):
                raise ModelError(f"{self.name}: {node}: a key is neither text nor number; damaged")
            keys.append(key)
        return keys

    def grown(self, node: GraphNode, within: Iterable[int]) -> None:
        """Bound a value that is lists of lists: sixty of two, each the next twice, are 2^60."""
        size = 1 + sum(self.sizes.get(index, 1) for index in within)
        if size > self.limits.nodes:
            raise ModelError(
                f"{self.name}: {node} is a list within lists of {size} values; damaged"
            )
        self.sizes[node.index] = size
