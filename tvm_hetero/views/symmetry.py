"""Devices that can change places: identical devices of a node, and identical nodes as a whole.

A *symmetry* is a permutation p of the devices that leaves the problem as it is:

    what a device is     memory, overlap, watts, idle watts and price of p(d) are those of d
    what tasks cost      every task has the same cost table on p(d) and d, or none on both
    how devices join     link(p(a), p(b)) has bandwidth, latency and exclusiveness of link(a, b)
    who excludes whom    p of the devices on a core are those on a core (of as many cores each)
    who shares memory    p of the devices that see one memory are those that see one
    which way data goes  the path from p(a) to p(b) is p of the path from a to b

The last follows from the third unless two paths tie: ties fall to the order of the devices. Whether
any do is in `tvm_hetero.views.symmetric_paths`.

Two kinds of permutations are looked for, which are what clusters are made of:

- *twins*: exchanging a and b alone is a symmetry. That is an equivalence relation, since
  (a c) = (a b)(b c)(a b), so twins come in sets within which every permutation is a symmetry;
- *blocks*: exchanging two nodes, each device of one with its like in the other, is one. The same
  argument makes nodes come in orbits, aligned with the first node of each.

Colour refinement (devices of one colour see as many devices of each colour over links of each
kind) says who may match whom; it is a filter only. Every exchange that is claimed has been
verified against the definition, so there may be symmetries that are not found, never false ones.
Refinement as in McKay and Piperno, J. Symb. Comput. 60, 2014, doi:10.1016/j.jsc.2013.09.003.

- within a node, *subtrees of nested teams* (`views.team_blocks`): blocks that may hold others.

Positions at which two blocks hold twins are left out of the blocks: what twins can do, blocks
need not. Then every set of twins lies in one block or in none, so that blocks can be ordered
first and twins afterwards, and no ordering disturbs the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np

from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.model import Problem
from tvm_hetero.views.array_types import IntArray
from tvm_hetero.views.symmetric_paths import Permutation, path_judge
from tvm_hetero.views.team_blocks import team_orbits

Block = tuple[int, ...]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Symmetry:
    """What can change places. Devices are positions in the platform.

    Attributes
    ----------
    devices : number of devices.
    twins : sets of at least two devices, of which any two can be exchanged.
    blocks : orbits of at least two blocks, of which any two can be exchanged, device by device.
        Blocks of teams may lie in others, which then come before.
    """

    devices: int
    twins: tuple[tuple[int, ...], ...] = ()
    blocks: tuple[tuple[tuple[int, ...], ...], ...] = ()

    def generators(self) -> Iterator[Permutation]:
        """Exchanges of neighbours; all other symmetries that are known are made of these."""
        for twins in self.twins:
            for a, b in pairwise(twins):
                yield _exchange(self.devices, (a,), (b,))
        for orbit in self.blocks:
            for left, right in pairwise(orbit):
                yield _exchange(self.devices, left, right)

    def types(self) -> tuple[int, ...]:
        """For each device the first device that it can be carried to: equal for equal devices."""
        return self._types

    @cached_property
    def _types(self) -> tuple[int, ...]:
        first = list(range(self.devices))

        def root(d: int) -> int:
            while first[d] != d:
                d = first[d]
            return d

        exchanged = [pair for twins in self.twins for pair in pairwise(twins)]
        for orbit in self.blocks:
            for left, right in pairwise(orbit):
                exchanged += zip(left, right, strict=True)
        for a, b in exchanged:
            low, high = sorted((root(a), root(b)))
            first[high] = low
        return tuple(root(d) for d in range(self.devices))

    @cached_property
    def carriers(self) -> tuple[Permutation, ...]:
        """For each device a symmetry that carries the first of its type (see `types`) to it."""
        found: list[Permutation | None] = [None] * self.devices
        generators = list(self.generators())
        for first in sorted(set(self._types)):
            found[first] = tuple(range(self.devices))
            todo = [first]
            while todo:
                here = found[todo[-1]]
                at = todo.pop()
                assert here is not None, "it was reached"
                for move in generators:
                    if found[move[at]] is None:
                        found[move[at]] = tuple(move[d] for d in here)
                        todo.append(move[at])
        return tuple(row for row in found if row is not None)

    def carry(self, here: int, there: int) -> Permutation:
        """A symmetry that carries one device to another one of its type."""
        to, back = self.carriers[there], [0] * self.devices
        for d, image in enumerate(self.carriers[here]):
            back[image] = d
        return tuple(to[d] for d in back)


@cached_per_problem
def find_symmetry(problem: Problem) -> Symmetry:
    """Twins and blocks of a problem's devices (see the head of this file)."""
    platform = problem.platform
    count = len(platform.devices)
    if count == 1:
        return Symmetry(1)
    links = link_codes(platform)
    kinds = _signatures(problem)
    paths = path_judge(problem, links)
    if paths is None:
        return Symmetry(count)
    cliques = frozenset(map(frozenset, (*platform.cliques, *platform.shared_memories)))

    def apart(permutation: Permutation) -> bool:
        moved = (frozenset(permutation[d] for d in clique) for clique in cliques)
        return all(clique in cliques for clique in moved)

    def verified(permutation: Permutation) -> bool:
        return apart(permutation) and paths(permutation)

    def twins(a: int, b: int) -> bool:
        return _twins(links, a, b) and apart(_exchange(count, (a,), (b,)))

    colors = _refine(kinds, links)
    cells = _cells(colors)
    sets = [row for cell in cells for row in _classes(cell, twins)]
    sets = [
        row for row in sets if all(verified(_exchange(count, (a,), (b,))) for a, b in pairwise(row))
    ]
    orbits = [
        orbit
        for orbit in _block_orbits(platform, kinds, colors, links)
        if all(verified(_exchange(count, a, b)) for a, b in pairwise(orbit))
    ]
    blocks = [_without_twins(orbit, sets) for orbit in orbits]
    whole = tuple(sorted(tuple(orbit) for orbit in blocks if orbit[0]))
    return Symmetry(
        count,
        tuple(sorted(tuple(row) for row in sets)),
        whole + _team_blocks(platform, kinds, links, verified),
    )


def _team_blocks(
    platform: Platform,
    kinds: IntArray,
    links: IntArray,
    verified: Callable[[Permutation], bool],
) -> tuple[tuple[Block, ...], ...]:
    """Subtrees of nested teams that can be exchanged, those that hold others first."""
    orbits = [
        orbit
        for row in team_orbits(platform, kinds.tolist())
        for orbit in _classes(row, lambda a, b: _can_swap(kinds, kinds, links, a, b))
    ]
    count = len(kinds)
    return tuple(
        tuple(orbit)
        for orbit in orbits
        if all(verified(_exchange(count, a, b)) for a, b in pairwise(orbit))
    )


def link_codes(platform: Platform) -> IntArray:
    """A number for every ordered pair of devices: equal links, equal numbers; -1 without a link."""
    nodes = {name: i for i, name in enumerate(dict.fromkeys(d.node for d in platform.devices))}
    node = np.array([nodes[d.node] for d in platform.devices], dtype=np.int64)
    codes: dict[tuple[float, float, bool], int] = {}

    def code(bandwidth: float, latency: float, exclusive: bool) -> int:
        return codes.setdefault((bandwidth, latency, exclusive), len(codes))

    result = np.full((len(node), len(node)), -1, dtype=np.int64)
    for fabric in platform.fabrics:
        if fabric.node is None:
            where = node[:, None] != node[None, :]
        else:
            inside = node == nodes[fabric.node]
            where = inside[:, None] & inside[None, :]
        result[where] = code(fabric.bandwidth, fabric.latency, fabric.exclusive)
    for link in platform.links:
        number = code(link.bandwidth, link.latency, link.exclusive)
        result[platform.index[link.src], platform.index[link.dst]] = number
    np.fill_diagonal(result, -1)
    return result


def _signatures(problem: Problem) -> IntArray:
    """A number for every device: equal figures and equal costs of all tasks, equal numbers."""
    table = np.array([_numbered(problem, task.id) for task in problem.tasks], dtype=np.int64)
    seen: dict[object, int] = {}
    result = []
    for device, column in zip(problem.platform.devices, table.T, strict=True):
        figures: tuple[object, ...] = (
            device.memory, device.overlap, device.watts, device.idle_watts, device.price,
            len(problem.platform.team_cores.get(device.name, ())),
        )  # fmt: skip
        result.append(seen.setdefault((figures, column.tobytes()), len(seen)))
    return np.array(result, dtype=np.int64)


def _numbered(problem: Problem, task: str) -> list[int]:
    """For each device a number for what a task costs there: equal costs, equal numbers; -1: none.

    One object may be the cost of many devices, and is compared once.
    """
    costs = list(map(problem.costs[task].get, problem.platform.names))
    numbers: dict[object, int] = {}
    number_of = {id(None): -1}
    for cost in {id(cost): cost for cost in costs}.values():
        if cost is not None:
            number_of[id(cost)] = numbers.setdefault((cost.points, cost.energy), len(numbers))
    return [number_of[id(cost)] for cost in costs]


def _refine(kinds: IntArray, links: IntArray) -> IntArray:
    """The coarsest stable colouring that is no coarser than `kinds`."""
    colors = kinds
    size = int(links.max(initial=0)) + 2
    while True:
        # What a device sees: for each other the kinds of the two links and its colour.
        seen = ((links + 1) * size + links.T + 1) * (int(colors.max()) + 1) + colors[None, :]
        rows = np.column_stack([colors, np.sort(seen, axis=1)])
        _, finer = np.unique(rows, axis=0, return_inverse=True)
        finer = finer.reshape(-1).astype(np.int64)
        if finer.max() == len(np.unique(colors)) - 1:
            return finer
        colors = finer


def _cells(colors: IntArray) -> list[list[int]]:
    cells: dict[int, list[int]] = {}
    for d, color in enumerate(colors.tolist()):
        cells.setdefault(color, []).append(d)
    return list(cells.values())


def _classes(items: Sequence[_T], alike: Callable[[_T, _T], bool]) -> list[list[_T]]:
    """The classes of an equivalence that have at least two members."""
    classes: list[list[_T]] = []
    for item in items:
        for members in classes:
            if alike(members[0], item):
                members.append(item)
                break
        else:
            classes.append([item])
    return [members for members in classes if len(members) > 1]


def _twins(links: IntArray, a: int, b: int) -> bool:
    """Whether exchanging two devices of one colour (so: of one kind) changes no link."""
    if links[a, b] != links[b, a]:
        return False
    out, back = links[a] == links[b], links[:, a] == links[:, b]
    out[[a, b]] = back[[a, b]] = True
    return bool(out.all() and back.all())


def _block_orbits(
    platform: Platform, kinds: IntArray, colors: IntArray, links: IntArray
) -> list[list[Block]]:
    """Nodes of at least two devices that can be exchanged, aligned with the first of each orbit."""
    nodes: dict[str, list[int]] = {}
    for d, device in enumerate(platform.devices):
        nodes.setdefault(device.node, []).append(d)
    rows = [
        tuple(sorted(row, key=lambda d: (int(colors[d]), d)))
        for row in nodes.values()
        if len(row) > 1
    ]
    return _classes(rows, lambda a, b: _can_swap(kinds, colors, links, a, b))


def _can_swap(kinds: IntArray, colors: IntArray, links: IntArray, a: Block, b: Block) -> bool:
    """Whether exchanging two aligned blocks changes no device and no link."""
    if len(a) != len(b) or (colors[list(a)] != colors[list(b)]).any():
        return False
    permutation = np.array(_exchange(len(kinds), a, b))
    moved = np.array([*a, *b])
    # Links between devices that stay where they are need no look.
    out = links[permutation[moved]][:, permutation] == links[moved]
    back = links[permutation][:, permutation[moved]] == links[:, moved]
    return bool((kinds[permutation] == kinds).all() and out.all() and back.all())


def _exchange(count: int, left: Block, right: Block) -> Permutation:
    """The permutation that exchanges two aligned rows of devices."""
    result = list(range(count))
    for a, b in zip(left, right, strict=True):
        result[a], result[b] = b, a
    return tuple(result)


def _without_twins(orbit: Sequence[Block], twins: Sequence[Sequence[int]]) -> list[Block]:
    """The blocks without the positions where they hold twins of each other."""
    of = {d: i for i, row in enumerate(twins) for d in row}
    first, second = orbit[:2]
    keep = [
        i
        for i, (a, b) in enumerate(zip(first, second, strict=True))
        if a not in of or of[a] != of.get(b)
    ]
    return [tuple(block[i] for i in keep) for block in orbit]
