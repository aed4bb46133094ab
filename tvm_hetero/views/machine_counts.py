"""A problem as count-based solvers see it: types of machines, and a line of tasks.

Machines: the nodes of the platform whose devices are alike (`tvm_hetero.views.symmetry`) are one
type; the devices of one type in a node are a class. Solvers count them and do not name them.

Line: the tasks in topological order, cut into *atoms* wherever a cut divides no color; graphs
with more than `_MOST_ATOMS` are cut where the fewest bytes cross. Tasks at both ends that cost and
weigh nothing (inputs and outputs) are left out and join their neighbours afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import find_symmetry

Vector = NDArray[np.float64]
_MOST_ATOMS = 600


@dataclass(frozen=True)
class NodeType:
    """A type of node: `nodes[i][c]` are the devices of class c in node i."""

    nodes: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Devices of each class in one node."""
        return tuple(len(row) for row in self.nodes[0])

    def like(self, c: int) -> int:
        """A device of class `c`."""
        return self.nodes[0][c][0]

    def pair(self, j: int, k: int) -> tuple[int, int]:
        """Two devices of classes j and k in one node; different ones where there are two."""
        row = self.nodes[0]
        return row[j][0], row[k][-1 if j == k else 0]


def machines_of(instance: Instance) -> tuple[NodeType, ...]:
    """The types of nodes, in the order of their first devices; devices that run nothing are out."""
    types = find_symmetry(instance.problem).types()
    useful = {d for row in instance.devices for d in row}
    nodes: dict[str, dict[int, list[int]]] = {}
    for d, device in enumerate(instance.problem.platform.devices):
        if d in useful:
            nodes.setdefault(device.node, {}).setdefault(types[d], []).append(d)
    alike: dict[tuple[tuple[int, int], ...], list[tuple[tuple[int, ...], ...]]] = {}
    for row in nodes.values():
        key = tuple(sorted((kind, len(devices)) for kind, devices in row.items()))
        alike.setdefault(key, []).append(tuple(tuple(row[kind]) for kind, _ in key))
    return tuple(NodeType(tuple(found)) for found in alike.values())


class TaskLine:
    """The tasks in a row of atoms.

    Attributes
    ----------
    atoms : parts of each atom, in order; before, behind : parts left out at the two ends.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        order = list(instance.order)
        # Where devices must form a pipeline, what is no input or output could close a ring.
        staged = instance.problem.objective.contiguous
        outer = instance.terminals
        free = [_is_free(instance, v) and (v in outer or not staged) for v in order]
        first = next((i for i, is_free in enumerate(free) if not is_free), len(order) - 1)
        last = next((i for i in reversed(range(len(order))) if not free[i]), first)
        self.before, self.behind = order[:first], order[last + 1 :]
        kept = order[first : last + 1]
        self._crossing = _crossing(instance, kept)
        cuts = _cuts(instance, kept, self._bytes)
        ends = [*cuts, len(kept)]
        self.starts = [0, *cuts]
        self.atoms = [tuple(kept[a:b]) for a, b in zip(self.starts, ends, strict=True)]

    def __len__(self) -> int:
        return len(self.atoms)

    def _bytes(self, position: int) -> int:
        return sum(self.instance.tensors[t].nbytes for t in self._crossing[position])

    def seconds(self, device: int) -> Vector:
        """Duration of every atom on a device, s; inf where it cannot run."""
        rows = self.instance.seconds
        return np.array([math.fsum(rows[v][device] for v in atom) for atom in self.atoms])

    @cached_property
    def weights(self) -> Vector:
        """Bytes that every atom leaves on its device for good."""
        own = self.instance
        steady = own.problem.objective.kind == "throughput"
        return np.array(
            [
                sum(own.weights[v] + own.unread[v] + steady * _made(own, v) for v in atom)
                for atom in self.atoms
            ],
            dtype=np.float64,
        )

    @cached_property
    def bytes_in(self) -> Vector:
        """Bytes that every atom reads, as if all of them came from elsewhere."""
        own = self.instance
        rows = ({t for v in atom for t in own.inputs[v]} for atom in self.atoms)
        total = [sum(own.tensors[t].nbytes for t in row) for row in rows]
        return np.array(total, dtype=np.float64)

    @cached_property
    def spare(self) -> int:
        """Bytes to keep free on a device for tensors that come and go, or only come."""
        own = self.instance
        crossing = max((self._bytes(p) for p in self.starts), default=0)
        if own.problem.objective.kind == "throughput":
            return crossing
        inside = [
            sum(own.tensors[t].nbytes for t in {*own.inputs[v], *own.outputs[v]})
            for atom in self.atoms
            for v in atom
        ]
        return max(inside, default=0) + 2 * crossing

    def crossings(self, j: int, k: int) -> Vector:
        """Time that what crosses the cut before each atom takes from device `j` to `k`, s.

        Side by side if both have copy engines, else one after the other.
        """
        devices = self.instance.problem.platform.devices
        join = max if devices[j].overlap and devices[k].overlap else math.fsum
        known: dict[int, float] = {}

        def seconds(nbytes: int) -> float:
            if nbytes not in known:
                known[nbytes] = self.instance.copy_seconds(j, k, nbytes)
            return known[nbytes]

        tensors = self.instance.tensors
        rows = ([seconds(tensors[t].nbytes) for t in self._crossing[p]] for p in self.starts)
        return np.array([join(row) if row else 0.0 for row in rows])

    def placed(self, homes: Sequence[int]) -> list[int]:
        """The device of every part, from those of the atoms."""
        own = self.instance
        placement = [-1] * len(own)
        for atom, home in zip(self.atoms, homes, strict=True):
            for v in atom:
                placement[v] = home
        for v in [*reversed(self.before), *self.behind]:
            placement[v] = _nearest(own, v, placement)
        return placement


def _is_free(instance: Instance, v: int) -> bool:
    costless = all(instance.seconds[v][d] == 0 for d in instance.devices[v])
    alone = len(instance.groups[instance.group_of[v]]) == 1
    return costless and alone and instance.weights[v] == 0


def _made(instance: Instance, v: int) -> int:
    return sum(instance.tensors[t].nbytes for t in instance.outputs[v])


def _crossing(instance: Instance, order: Sequence[int]) -> list[list[int]]:
    """For every position the tensors made before it and read from it on."""
    position = {v: i for i, v in enumerate(order)}
    result: list[list[int]] = [[] for _ in order]
    for t, flow in enumerate(instance.tensors):
        if flow.maker in position:
            last = max((position[w] for w in flow.readers if w in position), default=0)
            for p in range(position[flow.maker] + 1, last + 1):
                result[p].append(t)
    return result


def _cuts(instance: Instance, order: Sequence[int], nbytes: object) -> list[int]:
    """Positions at which the line may be cut."""
    assert callable(nbytes)
    position = {v: i for i, v in enumerate(order)}
    inside = [0] * (len(order) + 1)
    for group in instance.groups:
        places = [position[v] for v in group if v in position]
        if len(places) > 1:
            inside[min(places) + 1] += 1
            inside[max(places) + 1] -= 1
    allowed = []
    held = 0
    for p in range(1, len(order)):
        held += inside[p]
        if held == 0:
            allowed.append(p)
    if len(allowed) < _MOST_ATOMS:
        return allowed
    width = -(-len(allowed) // _MOST_ATOMS)
    windows = [allowed[i : i + width] for i in range(0, len(allowed), width)]
    return [min(window, key=lambda p: (nbytes(p), p)) for window in windows]


def _nearest(instance: Instance, v: int, placement: Sequence[int]) -> int:
    """The device for a free task that is nearest to the neighbours which have one."""

    def far(d: int) -> float:
        total = 0.0
        for t in (*instance.inputs[v], *instance.outputs[v]):
            flow = instance.tensors[t]
            for w in (flow.maker, *flow.readers):
                home = placement[w]
                if w != v and home >= 0:
                    j, k = (d, home) if flow.maker == v else (home, d)
                    total = max(total, instance.copy_seconds(j, k, flow.nbytes))
        return total

    return min(instance.devices[v], key=lambda d: (far(d), d))
