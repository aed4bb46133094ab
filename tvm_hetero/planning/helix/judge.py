"""The judge: what a layout is worth, by a maximum flow whose cut proves it.

The network has two vertices for each node that holds layers, joined by an arc of capacity T(i, k),
and an arc for each link over which a token may pass (see `problem`). Dinic's algorithm (1970): as
long as the sink can be reached, the residual arcs that lead one level on form a graph without
cycles, and paths in it are filled until there is none. What can then be reached from the
source is a cut, whose capacity is added up anew: it has to be the flow.

Searches and bounds use none of this (they count covers, or ask scipy).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_hetero.errors import SolverFault
from tvm_hetero.planning.helix.problem import (
    COORDINATOR,
    LayerFlowProblem,
    LayerInterval,
    check_layout,
)

# A path that carries less than this share of the largest capacity is rounding.
_ROUNDING = 1e-12
_SOURCE, _SINK = 0, 1


@dataclass(frozen=True)
class LayerFlow:
    """Tokens a second through a layout, and over each link in use (names of its ends)."""

    value: float
    over: dict[tuple[str, str], float]


@dataclass
class _FlowNetwork:
    """Residual arcs in pairs: arc a leads to `heads[a]`, has `room[a]`, and a ^ 1 leads back."""

    vertices: int
    heads: list[int] = field(default_factory=list)
    room: list[float] = field(default_factory=list)
    capacity: list[float] = field(default_factory=list)
    leaving: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leaving = [[] for _ in range(self.vertices)]

    def add(self, tail: int, head: int, capacity: float) -> int:
        """Add an arc; its position."""
        arc = len(self.heads)
        self.heads += [head, tail]
        self.room += [capacity, 0.0]
        self.capacity += [capacity, 0.0]
        self.leaving[tail].append(arc)
        self.leaving[head].append(arc + 1)
        return arc


def judge(problem: LayerFlowProblem, layout: Sequence[LayerInterval | None]) -> LayerFlow:
    """The throughput of a layout.

    Raises
    ------
    UsageError
        If it is no layout of this problem (see `check_layout`).
    SolverFault
        If flow and cut are not equal.
    """
    check_layout(problem, layout)
    network = _FlowNetwork(2 + 2 * len(problem.nodes))
    for i, node in enumerate(problem.nodes):
        network.add(_inlet(i), _outlet(i), node.rate(layout[i]))
    arcs = {
        network.add(tail, head, capacity): ends
        for tail, head, capacity, ends in _passages(problem, layout)
    }
    least = _ROUNDING * max([*network.capacity, 1.0])
    value = _fill(network, least)
    cut = _cut(network, least)
    if not math.isclose(value, cut, rel_tol=1e-9, abs_tol=1e-9):
        raise SolverFault(f"layer flow: the flow is {value!r} and its cut {cut!r}")
    flows = {ends: network.capacity[arc] - network.room[arc] for arc, ends in arcs.items()}
    return LayerFlow(value, {ends: flow for ends, flow in flows.items() if flow > least})


def _inlet(node: int) -> int:
    return 2 + 2 * node


def _outlet(node: int) -> int:
    return 3 + 2 * node


def _passages(
    problem: LayerFlowProblem, layout: Sequence[LayerInterval | None]
) -> list[tuple[int, int, float, tuple[str, str]]]:
    """Arcs over which tokens pass: tail, head, capacity, names of the ends."""
    found = []
    for i, held in enumerate(layout):
        name = problem.nodes[i].name
        if held is None:
            continue
        if held.first == 0:
            found.append((_SOURCE, _inlet(i), problem.entries[i], (COORDINATOR, name)))
        if held.end == problem.layers:
            found.append((_outlet(i), _SINK, problem.exits[i], (name, COORDINATOR)))
        for j, other in enumerate(layout):
            capacity = problem.links.get((i, j), 0.0)
            if other is not None and capacity > 0 and _takes_over(problem, held, other):
                found.append((_outlet(i), _inlet(j), capacity, (name, problem.nodes[j].name)))
    return found


def _takes_over(problem: LayerFlowProblem, before: LayerInterval, after: LayerInterval) -> bool:
    """Whether a token may pass from a node with one interval to a node with the other."""
    if problem.partial:
        return after.first <= before.end < after.end
    return after.first == before.end


def _fill(network: _FlowNetwork, least: float) -> float:
    """Send as much as there is way for; how much."""
    value = 0.0
    while (levels := _levels(network, least))[_SINK] >= 0:
        given_up = [0] * network.vertices
        while path := _path(network, levels, given_up, least):
            sent = min(network.room[arc] for arc in path)
            for arc in path:
                network.room[arc] -= sent
                network.room[arc ^ 1] += sent
            value += sent
    return value


def _levels(network: _FlowNetwork, least: float) -> list[int]:
    """Residual arcs from the source to each vertex at least; -1 where it cannot be reached."""
    levels = [-1] * network.vertices
    levels[_SOURCE] = 0
    queue = deque([_SOURCE])
    while queue:
        tail = queue.popleft()
        for arc in network.leaving[tail]:
            head = network.heads[arc]
            if network.room[arc] > least and levels[head] < 0:
                levels[head] = levels[tail] + 1
                queue.append(head)
    return levels


def _path(network: _FlowNetwork, levels: list[int], given_up: list[int], least: float) -> list[int]:
    """Arcs of one way to the sink, each a level on; empty if there is none left.

    `given_up` counts the arcs of each vertex that lead nowhere in this phase.
    """
    path: list[int] = []
    vertex = _SOURCE
    while vertex != _SINK:
        leaving = network.leaving[vertex]
        if given_up[vertex] < len(leaving):
            arc = leaving[given_up[vertex]]
            head = network.heads[arc]
            if network.room[arc] > least and levels[head] == levels[vertex] + 1:
                path.append(arc)
                vertex = head
            else:
                given_up[vertex] += 1
        elif path:
            vertex = network.heads[path.pop() ^ 1]
            given_up[vertex] += 1
        else:
            return []
    return path


def _cut(network: _FlowNetwork, least: float) -> float:
    """The capacity of all arcs that leave what can be reached from the source."""
    levels = _levels(network, least)
    return math.fsum(
        network.capacity[arc]
        for tail in range(network.vertices)
        if levels[tail] >= 0
        for arc in network.leaving[tail]
        if levels[network.heads[arc]] < 0
    )
