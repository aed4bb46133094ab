"""Modularity: where a graph falls into parts that can be scheduled one after the other.

*Articulation parts.* A part is an articulation if every other part precedes or follows it through
the data, and no tensor passes it by, made before it and read after it      -> `articulations`

*Modules* are what lies between two articulations, with both                   -> `modules_of`.
When the first ends, everything before it has ended, and so has every hop, as a hop is made for a
reader. So every device and link is idle, and the rest of the schedule needs to know nothing but
where the first ran: the least latency is that of the best chain of modules. It holds too where
copies block devices or links are exclusive, and for any division of a batch into parts. It does
not where memory binds, as weights and long-lived tensors reach across  -> `cut_is_exact`, and at
an articulation with a color on both sides, which is none for us        -> `cuts_of`.

*Pieces* are parts of an instance as an instance of their own             -> `Piece`.

*Equal modules* differ in names only. Parts are put into an order that follows from the structure
(colors are refined by those of the neighbours, as in B. Weisfeiler and A. Leman, 1968), then all
that matters to a schedule is written down in that order: keys that are equal prove that the
modules are; modules that are equal but so symmetric that the order depends on their names may
get different keys, which costs time and nothing else                   -> `canonical`, `signature`.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tvm_hetero.views.articulation import articulation_positions
from tvm_hetero.views.instance import Flow, Instance

# How often colors are refined: then they know the neighbourhood so many steps away.
_REFINEMENTS = 3
Signature = tuple[object, ...]


@dataclass(frozen=True)
class Module:
    """Parts in topological order: `first` and `last` (None: there is none) and those between."""

    first: int | None
    last: int | None
    parts: tuple[int, ...]


def articulations(instance: Instance) -> list[int]:
    """The parts that all others precede or follow, and no tensor passes, in topological order."""
    order = instance.order
    position = {v: p for p, v in enumerate(order)}
    edges = [(position[t.maker], position[w]) for t in instance.tensors for w in t.readers]
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return [order[p] for p in articulation_positions(len(order), ends[:, 0], ends[:, 1])]


def cuts_of(instance: Instance) -> list[int]:
    """The articulations at which the halves share no color, in topological order."""
    order, found = instance.order, articulations(instance)
    shared = [group for group in instance.groups if len(group) > 1]
    if not shared or not found:
        return found
    position = {v: p for p, v in enumerate(order)}
    across = [0] * (len(order) + 1)
    for group in shared:
        places = [position[v] for v in group]
        across[min(places)] += 1
        across[max(places)] -= 1
    depth = list(accumulate(across))
    return [v for v in found if depth[position[v]] == 0]


def modules_of(instance: Instance, cuts: Iterable[int] | None = None) -> list[Module]:
    """The instance cut at `cuts` (by default all that `cuts_of` finds)."""
    at = set(cuts_of(instance) if cuts is None else cuts)
    found: list[Module] = []
    first: int | None = None
    parts: list[int] = []
    for v in instance.order:
        parts.append(v)
        if v in at:
            found.append(Module(first, v, tuple(parts)))
            first, parts = v, [v]
    if len(parts) > (first is not None):
        found.append(Module(first, None, tuple(parts)))
    return found


def cut_is_exact(instance: Instance) -> bool:
    """Whether the best chain of modules is the best schedule of the instance's parts.

    For a batch of more than one element that says nothing about other divisions of it.
    """
    if any(instance.memory_binds):
        return False
    return all_linked(instance) or (instance.routes_form_trees and is_connected(instance))


def all_linked(instance: Instance) -> bool:
    """Whether every two devices of use have a link between them; then no copy takes a detour."""
    return next(_without_link(instance), None) is None


def is_connected(instance: Instance) -> bool:
    """Whether every tensor can go from and to every device on which some part can run.

    Then a list scheduler always finds a schedule, so that a missing one never has to be told
    from one that is not there.
    """
    # Whether links lead there does not depend on how many bytes are to go.
    nbytes = next((flow.nbytes for flow in instance.tensors), None)
    if nbytes is None:
        return True
    return all(instance.route(j, k, nbytes) is not None for j, k in _without_link(instance))


def _used(instance: Instance) -> list[int]:
    return sorted({d for devices in set(instance.devices) for d in devices})


def _without_link(instance: Instance) -> Iterator[tuple[int, int]]:
    """The pairs of devices of use that no link joins."""
    used = _used(instance)
    for j in used:
        linked = instance.problem.platform.links_from(j)
        yield from ((j, k) for k in used if j != k and k not in linked)


class Piece(Instance):
    """Some parts of an instance, in a topological order, as an instance: part p is `parts[p]`.

    Tensors that do not stay inside are left out, as are readers outside. Names, routes and
    platform are those of the whole; `tensor_of[t]` is the whole's number of tensor t.
    """

    def __init__(self, whole: Instance, parts: Sequence[int]) -> None:
        local = {v: p for p, v in enumerate(parts)}
        self.problem, self.names, self.capacity = whole.problem, whole.names, whole.capacity
        self.memory_of = whole.memory_of
        self.whole, self.parts = whole, tuple(parts)
        self.tasks = tuple(whole.tasks[v] for v in parts)
        self.elements = tuple(whole.elements[v] for v in parts)
        tasks: dict[int, list[int]] = {}
        for p, v in enumerate(parts):
            tasks.setdefault(whole.task_of[v], []).append(p)
        self.parts_of = tuple(tuple(own) for own in tasks.values())
        number = {task: i for i, task in enumerate(tasks)}
        self.task_of = tuple(number[whole.task_of[v]] for v in parts)
        self.order = tuple(range(len(parts)))
        self.weights = tuple(whole.weights[v] for v in parts)
        self.unread = tuple(whole.unread[v] for v in parts)
        self.devices = tuple(whole.devices[v] for v in parts)
        self.seconds = tuple(whole.seconds[v] for v in parts)
        self._set_tensors(whole, local)
        self._set_groups(whole, local)
        self._routes, self._links, self._occupied = whole._routes, whole._links, whole._occupied
        self._copies = whole._copies

    def _set_tensors(self, whole: Instance, local: dict[int, int]) -> None:
        tensors: list[Flow] = []
        numbers: list[int] = []
        inputs: list[list[int]] = [[] for _ in local]
        outputs: list[list[int]] = [[] for _ in local]
        for v, p in local.items():
            for t in whole.outputs[v]:
                flow = whole.tensors[t]
                readers = tuple(local[w] for w in flow.readers if w in local)
                if not readers:
                    continue
                for reader in readers:
                    inputs[reader].append(len(tensors))
                outputs[p].append(len(tensors))
                tensors.append(Flow(flow.name, p, readers, flow.nbytes))
                numbers.append(t)
        self.tensors, self.tensor_of = tuple(tensors), tuple(numbers)
        self.inputs = tuple(tuple(row) for row in inputs)
        self.outputs = tuple(tuple(row) for row in outputs)

    def _set_groups(self, whole: Instance, local: dict[int, int]) -> None:
        groups: dict[int, list[int]] = {}
        for v, p in local.items():
            groups.setdefault(whole.group_of[v], []).append(p)
        self.groups = tuple(tuple(group) for group in groups.values())
        self.group_of = {p: g for g, group in enumerate(self.groups) for p in group}

    def pinned(self, places: dict[int, int], free: Iterable[int] = ()) -> Piece:
        """This piece with some parts (and their colors) held on one device, and some for free."""
        return self.held({p: (d,) for p, d in places.items()}, free)

    def held(self, places: Mapping[int, Sequence[int]], free: Iterable[int] = ()) -> Piece:
        """The same with each of these parts held on a few devices."""
        other = copy.copy(self)
        devices, seconds = list(self.devices), list(self.seconds)
        for p, few in places.items():
            for q in self.groups[self.group_of[p]]:
                devices[q] = tuple(few)
                seconds[q] = _only(self.seconds[q], few)
        for p in free:
            seconds[p] = tuple(0.0 if s < math.inf else s for s in seconds[p])
        other.devices, other.seconds = tuple(devices), tuple(seconds)
        return other


def _only(row: tuple[float, ...], devices: Sequence[int]) -> tuple[float, ...]:
    return tuple(s if d in devices else math.inf for d, s in enumerate(row))


def canonical(instance: Instance, parts: Sequence[int]) -> list[int]:
    """The parts in a topological order that follows from the structure, not from names."""
    inside = set(parts)
    color = {v: hash((instance.seconds[v], len(instance.elements[v]))) for v in parts}
    flows = {v: [instance.tensors[t] for t in instance.outputs[v]] for v in parts}
    before: dict[int, list[tuple[int, int]]] = {v: [] for v in parts}
    after: dict[int, list[tuple[int, int]]] = {v: [] for v in parts}
    for v in parts:
        for flow in flows[v]:
            for w in flow.readers:
                if w in inside:
                    before[w].append((v, flow.nbytes))
                    after[v].append((w, flow.nbytes))
    for _ in range(_REFINEMENTS):
        color = {
            v: hash(
                (
                    color[v],
                    tuple(sorted((color[u], b) for u, b in before[v])),
                    tuple(sorted((color[w], b) for w, b in after[v])),
                )
            )
            for v in parts
        }
    place = {v: p for p, v in enumerate(parts)}
    waiting = {v: len(before[v]) for v in parts}
    # Among the free ones first those whose makers came first, so that branches stay in order.
    done: dict[int, int] = {}
    heap: list[tuple[tuple[int, ...], int, int, int]] = []
    heap += (((), color[v], place[v], v) for v in parts if waiting[v] == 0)
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        v = heapq.heappop(heap)[-1]
        done[v] = len(order)
        order.append(v)
        for w, _ in after[v]:
            waiting[w] -= 1
            if waiting[w] == 0:
                makers = tuple(sorted(done[u] for u, _ in before[w]))
                heapq.heappush(heap, (makers, color[w], place[w], w))
    return order


def signature(piece: Piece, ends: tuple[bool, bool]) -> Signature:
    """What two modules must share to share their entries: all but names.

    `ends` says whether the module has a first and a last part (see `Module`).
    """
    elements = tuple(len(own) for own in piece.elements)
    flows = tuple((flow.maker, flow.nbytes, flow.readers) for flow in piece.tensors)
    groups = tuple(group for group in piece.groups if len(group) > 1)
    own = () if not any(piece.capacity) else (piece.weights, piece.unread, piece.task_of)
    return (ends, piece.seconds, flows, groups, elements, own)
