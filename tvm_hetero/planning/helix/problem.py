"""Layers in a row on nodes that share them: what is given, and what a layout is.

Notation of this folder (Y. Mei et al., Helix, arXiv 2406.01566, ASPLOS 2025):

    L        layers, 0 ... L - 1, which every token passes in this order
    K(i)     how many layers fit into node i
    T(i, k)  tokens a second that node i passes through the k layers that it holds, k = 1 ... K(i)
    [s, e)   the layers that a node holds: one contiguous interval, or none
    C(i, j)  tokens a second that the link from i to j carries: its bytes a second through the bytes
             of one token's activations; from and to the coordinator, through those of a token's id

A token goes from the coordinator to a node with s = 0, from node i to node j where j takes over,
and from a node with e = L back to the coordinator. Node j takes over from i if s(j) = e(i), or,
with partial inference, if s(j) <= e(i) < e(j): it then computes layers e(i) ... e(j) - 1 only. A
token that uses a part of the interval still counts as one of T(j, k). The throughput of a layout is
the largest flow of tokens a second from the coordinator through the nodes back to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tvm_hetero.errors import UsageError

# What stands for the coordinator where a link's ends are named.
COORDINATOR = "coordinator"


class LayerInterval(NamedTuple):
    """Layers first ... first + length - 1."""

    first: int
    length: int

    @property
    def end(self) -> int:
        """The layer behind the last."""
        return self.first + self.length


# What each node holds, in the order of the problem's nodes; None: nothing.
Layout = tuple[LayerInterval | None, ...]


@dataclass(frozen=True)
class LayerNode:
    """A node: `rates[k - 1]` is T(i, k), tokens a second while it holds k layers; K(i) of them."""

    name: str
    rates: tuple[float, ...]

    def rate(self, held: LayerInterval | None) -> float:
        """Tokens a second with so many layers; 0 with none."""
        return self.rates[held.length - 1] if held is not None else 0.0


@dataclass(frozen=True)
class LayerFlowProblem:
    """Layers, nodes and links (see the head of this file).

    Attributes
    ----------
    links : C(i, j) in tokens a second, by positions of nodes; a pair that is absent has no link.
    entries, exits : tokens a second from the coordinator to each node, and back.
    partial : whether a node may begin inside of its interval.
    """

    name: str
    layers: int
    nodes: tuple[LayerNode, ...]
    links: Mapping[tuple[int, int], float]
    entries: tuple[float, ...]
    exits: tuple[float, ...]
    partial: bool = True

    def kinds(self) -> dict[tuple[float, ...], list[int]]:
        """The positions of nodes with equal tables: a bound cannot tell these apart."""
        found: dict[tuple[float, ...], list[int]] = {}
        for i, node in enumerate(self.nodes):
            found.setdefault(node.rates, []).append(i)
        return found

    def links_never_bind(self, flow: float) -> bool:
        """Whether no link limits a layout's flow, which is known to be at most `flow`.

        No more passes over a link than its two ends compute.
        """
        most = [min(flow, max(node.rates)) for node in self.nodes]
        ends = zip(most, self.entries, self.exits, strict=True)
        return all(min(entry, leave) >= own for own, entry, leave in ends) and all(
            self.links.get((i, j), 0.0) >= min(most[i], most[j])
            for i in range(len(most))
            for j in range(len(most))
            if i != j
        )


def check_layout(problem: LayerFlowProblem, layout: Sequence[LayerInterval | None]) -> None:
    """Refuse a layout that is none of this problem.

    Raises
    ------
    UsageError
        If it has another number of nodes, or one holds layers that there are not or too many.
    """
    if len(layout) != len(problem.nodes):
        raise UsageError(
            f"layout: expected an interval or none for each of {len(problem.nodes)} nodes, "
            f"got {len(layout)}"
        )
    for node, held in zip(problem.nodes, layout, strict=True):
        if held is None:
            continue
        if not 1 <= held.length <= len(node.rates):
            raise UsageError(
                f"layout: {node.name} holds 1 to {len(node.rates)} layers, got {held.length}"
            )
        if not 0 <= held.first <= problem.layers - held.length:
            raise UsageError(
                f"layout: {node.name} holds layers {held.first} to {held.end - 1}, "
                f"expected some of 0 to {problem.layers - 1}"
            )
