"""Families of ideals and what the stages between them cost: the ground of all stage methods.

With contiguous stages (rule 8) the devices in use stand in an order d1, d2, ... such that nothing
is read from a later one. The tasks on the first s devices are then an *ideal*: a set that holds,
with a task, all that it reads. A plan is a chain of ideals 0 = I0 < I1 < ... < Ik = V with a
device for every stage S = I(s) - I(s-1). Tasks of one color share a stage, and so does everything
on a path between two of them; such *blocks* are single nodes here (`contract`).

What device d has to do for stage S, whatever the other stages are (`IdealFamily.row`):

    work     sum of seconds[v][d] over v in S
    arrive   every tensor from outside that S reads, once, over the quickest link into d
    leave    every tensor of S that is read outside, once, over the quickest link out of d
    hold     weights and outputs of S and the tensors that arrive, in bytes

arrive and leave count only where d has no copy engine. Inputs and outputs are in no stage: all
inputs belong to I0 and no output to any ideal, and what d could hold of them neither arrives there
nor leaves. This is exact but for three things that can only make the true load larger: a tensor
that several other devices read leaves several times, links may differ, and copies of others may
pass through d. So a smallest largest stage load over
all chains of ideals is a lower bound of the problem, and mostly its value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray, UInt64Array
from tvm_hetero.views.instance import Instance


@dataclass(frozen=True)
class Blocks:
    """Sets of parts that share a stage, in a topological order, and what each waits for."""

    members: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.members)


def contract(instance: Instance, leave_out: Collection[int] = ()) -> Blocks:
    """Join what must share a stage: groups, and strongly connected groups.

    Inputs and outputs may be left out (`Instance.terminals`): they are in no stage.

    The order goes depth first: after a block, a block that only waited for it. So branches come
    one after the other and few tensors are open between two blocks.
    """
    import networkx as nx

    quotient = nx.DiGraph()
    home = instance.group_of
    kept = [g for g, group in enumerate(instance.groups) if group[0] not in leave_out]
    reads = [
        (flow.maker, w)
        for flow in instance.tensors
        for w in flow.readers
        if flow.maker not in leave_out and w not in leave_out
    ]
    quotient.add_nodes_from(kept)
    quotient.add_edges_from((home[v], home[w]) for v, w in reads)
    rank = {v: i for i, v in enumerate(instance.order)}
    found = [
        sorted((v for g in component for v in instance.groups[g]), key=rank.__getitem__)
        for component in nx.strongly_connected_components(quotient)
    ]
    found.sort(key=lambda block: rank[block[0]])
    number = {v: b for b, block in enumerate(found) for v in block}
    before: list[set[int]] = [set() for _ in found]
    for v, w in reads:
        if number[w] != number[v]:
            before[number[w]].add(number[v])
    order = _depth_first(before)
    place = {b: i for i, b in enumerate(order)}
    return Blocks(
        tuple(tuple(found[b]) for b in order),
        tuple(tuple(sorted(place[a] for a in before[b])) for b in order),
    )


def _depth_first(before: Sequence[set[int]]) -> list[int]:
    """A topological order that stays on a branch as long as it can."""
    after: list[list[int]] = [[] for _ in before]
    waiting = [len(row) for row in before]
    for b, row in enumerate(before):
        for a in sorted(row):
            after[a].append(b)
    stack = [b for b in reversed(range(len(before))) if waiting[b] == 0]
    order: list[int] = []
    while stack:
        b = stack.pop()
        order.append(b)
        for reader in reversed(after[b]):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                stack.append(reader)
    return order


@dataclass(frozen=True)
class Kind:
    """Devices of which a stage asks the same: their positions, and what they have (see `hold`)."""

    devices: tuple[int, ...]
    capacity: int | None


class IdealFamily:
    """Ideals by rising size, from the empty one to all tasks, with the costs between them.

    Parameters
    ----------
    ideals : for each ideal whether it holds each block, booleans (ideals, blocks).
    nested : whether each ideal holds the one before it (prefixes of one order).
    """

    def __init__(
        self,
        instance: Instance,
        blocks: Blocks,
        ideals: BoolArray,
        *,
        nested: bool,
    ) -> None:
        self.instance = instance
        self.blocks = blocks
        self.ideals = ideals
        self.nested = nested
        self.arrive, self.leave = _stage_hops(instance)
        self.kinds = kinds_of(instance, self.arrive, self.leave)
        # Two columns more: what every ideal holds (inputs), and what none does (outputs).
        ends = np.array([[True, False]] * len(ideals))
        self._held = np.hstack([ideals, ends.reshape(len(ideals), 2)])
        self._words = _packed(ideals)
        self._ways: UInt64Array | None = None
        self._add_tasks()
        self._add_tensors()

    def __len__(self) -> int:
        return len(self.ideals)

    def _add_tasks(self) -> None:
        """Work, forbidden tasks and bytes of every ideal."""
        instance, first = self.instance, [kind.devices[0] for kind in self.kinds]
        table = np.array(instance.seconds, dtype=np.float64)[:, first]
        count = len(self.blocks)
        member = np.full(len(instance), count, dtype=np.int64)
        member[[v for v in instance.terminals if instance.inputs[v]]] = count + 1
        for b, block in enumerate(self.blocks.members):
            member[list(block)] = b
        shape = (count + 2, len(first))
        work, barred = np.zeros(shape), np.zeros(shape)
        np.add.at(work, member, np.where(np.isfinite(table), table, 0.0))
        np.add.at(barred, member, ~np.isfinite(table))
        own = np.zeros(count + 2, dtype=np.int64)
        made = [sum(instance.tensors[t].nbytes for t in row) for row in instance.outputs]
        holds = [w + u + m for w, u, m in zip(instance.weights, instance.unread, made, strict=True)]
        np.add.at(own, member, np.array(holds, dtype=np.int64))
        whole = self.ideals.astype(np.float64)
        self.work = whole @ work[:count]
        self.barred = whole @ barred[:count]
        self._bars = bool(barred.any())
        self.block_work = np.where(barred[:count] > 0, np.inf, work[:count])
        self.own = self.ideals.astype(np.int64) @ own[:count]
        self._member = member

    def _add_tensors(self) -> None:
        """For every ideal and tensor: is it made inside, and how many readers are."""
        flows = self.instance.tensors
        self.nbytes = np.array([flow.nbytes for flow in flows], dtype=np.int64)
        self.readers = np.array([len(flow.readers) for flow in flows], dtype=np.int64)
        self.made = self._held[:, self._member[[flow.maker for flow in flows]]]
        self.read = np.zeros((len(self), len(flows)), dtype=np.int32)
        for t, flow in enumerate(flows):
            for w in flow.readers:
                self.read[:, t] += self._held[:, self._member[w]]
        first = [kind.devices[0] for kind in self.kinds]
        self._arrive = self.arrive[:, first]
        self._leave = self.leave[:, first]
        self.open = self.made & (self.read < self.readers)
        self._leaving = self.open.astype(np.float64) @ self._leave

    @property
    def kind_hops(self) -> tuple[FloatArray, FloatArray]:
        """(tensors, kinds): least seconds to leave a device of each kind, and to arrive."""
        return self._leave, self._arrive

    def restrict(self, ways: BoolArray) -> None:
        """Let stages lead only from a way to use the devices to the next, both of their ideals.

        Parameters
        ----------
        ways : (ideals, ways), by the number of devices of each kind, the last kind's the lowest
            digit; at most 64 of them.
        """
        sizes = [len(kind.devices) + 1 for kind in self.kinds]
        number = np.arange(ways.shape[1])
        self._ways = _as_bits(ways)
        self._steps = []
        for k, size in enumerate(sizes):
            stride = math.prod(sizes[k + 1 :])
            free = number // stride % size + 1 < size
            self._steps.append((np.uint64(stride), _as_bits(free[None, :])[0]))

    def _can_follow(self, i: int, later: IntArray) -> BoolArray:
        """Whether some way of ideal `i` and one device more is a way of a later one."""
        assert self._ways is not None, "asked where ways are restricted"
        reached = np.uint64(0)
        for stride, free in self._steps:
            reached |= (self._ways[i] & free) << stride
        return np.asarray(self._ways[later] & reached != 0)

    @cached_property
    def additive(self) -> bool:
        """Whether a stage costs the work of its blocks and nothing else counts."""
        copied = self.arrive.any() or self.leave.any()
        return not copied and not any(self.instance.memory_binds)

    def beyond(self) -> FloatArray:
        """(kinds, ideals): least work of an ideal with one more block that the kind can run.

        inf where there is none. Less than it is by what rounding may do.
        """
        found = np.full(self.work.shape, np.inf)
        if self.nested:
            more = self.barred[1:] == self.barred[:-1]
            found[:-1] = np.where(more, self.work[1:], np.inf)
        else:
            for b, row in enumerate(self.blocks.before):
                free = ~self.ideals[:, b] & self.ideals[:, list(row)].all(axis=1)
                with_it = self.work[free] + self.block_work[b]
                found[free] = np.minimum(found[free], with_it)
        return np.asarray(found.T - 1e-12 * self.work[-1][:, None])

    def row(self, i: int, most: float) -> tuple[IntArray, FloatArray]:
        """The ideals that can follow ideal `i`, and the loads of the stages between, s.

        Returns
        -------
        later : positions of ideals that hold ideal `i` and more.
        loads : (kinds, later); inf where the kind cannot run it or hold it, or beyond `most`.
        """
        allowed = self.work[i + 1 :] - self.work[i] <= most
        if self._bars:
            allowed &= self.barred[i + 1 :] == self.barred[i]
        near = np.flatnonzero(allowed.any(axis=1)) + i + 1
        if self._ways is not None:
            near = near[self._can_follow(i, near)]
        if not self.nested:
            for column in self._words:
                near = near[(column[near] & column[i]) == column[i]]
        if self.additive:
            loads = self.work[near] - self.work[i]
            loads[~allowed[near - i - 1] | (loads > most)] = np.inf
            return near, loads.T
        live = np.flatnonzero(self.open[i])
        read = self.read[np.ix_(near, live)]
        enters = read > self.read[i, live]
        stays = (read < self.readers[live]).astype(np.float64)
        loads = self.work[near] - self.work[i] + enters.astype(np.float64) @ self._arrive[live]
        loads += self._leaving[near] - stays @ self._leave[live]
        hold = self.own[near] - self.own[i] + enters.astype(np.int64) @ self.nbytes[live]
        loads[~allowed[near - i - 1]] = np.inf
        for k, kind in enumerate(self.kinds):
            if kind.capacity is not None:
                loads[hold > kind.capacity, k] = np.inf
        loads[loads > most] = np.inf
        return near, loads.T


def _as_bits(flags: BoolArray) -> UInt64Array:
    """Rows of at most 64 flags as numbers, the first flag the lowest bit."""
    bits = np.left_shift(np.uint64(1), np.arange(flags.shape[1], dtype=np.uint64))
    return np.asarray(np.where(flags, bits, np.uint64(0)).sum(axis=1, dtype=np.uint64))


def _packed(flags: BoolArray) -> list[UInt64Array]:
    """Rows of flags as columns of 64 flags each."""
    count, width = flags.shape
    wide = np.zeros((count, -(-width // 64) * 64), dtype=np.bool_)
    wide[:, :width] = flags
    words = np.packbits(wide, axis=1).view(np.uint64)
    return [np.ascontiguousarray(column) for column in words.T]


def least_hops(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Least seconds that each tensor keeps each device busy when it arrives there, and leaves."""
    count = len(instance.names)
    shape = (len(instance.tensors), count)
    arrive, leave = np.zeros(shape), np.zeros(shape)
    cached: dict[int, tuple[list[float], list[float]]] = {}
    for t, flow in enumerate(instance.tensors):
        if flow.nbytes not in cached:
            devices = range(count)
            cached[flow.nbytes] = (
                [_least(instance, d, flow.nbytes, into=True) for d in devices],
                [_least(instance, d, flow.nbytes, into=False) for d in devices],
            )
        arrive[t], leave[t] = cached[flow.nbytes]
    return arrive, leave


def _stage_hops(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """`least_hops`, and nothing where a device may hold the input or outputs at the other end."""
    arrive, leave = least_hops(instance)
    ends = instance.terminals
    for t, flow in enumerate(instance.tensors):
        if flow.maker in ends:
            arrive[t, list(instance.devices[flow.maker])] = 0.0
        for w in ends.intersection(flow.readers):
            leave[t, list(instance.devices[w])] = 0.0
    return arrive, leave


def place_terminals(instance: Instance, placement: list[int]) -> None:
    """Give every input and output, which is in no stage, the device nearest to what it serves."""
    for v in sorted(instance.terminals):
        others = [(instance.tensors[t].maker, t) for t in instance.inputs[v]]
        others += [(w, t) for t in instance.outputs[v] for w in instance.tensors[t].readers]
        ways = [
            (placement[w], instance.tensors[t].nbytes)
            for w, t in others
            if w not in instance.terminals
        ]
        placement[v] = min(
            instance.devices[v],
            key=lambda d: (sum(instance.copy_seconds(d, k, nbytes) for k, nbytes in ways), d),
        )


def _least(instance: Instance, device: int, nbytes: int, *, into: bool) -> float:
    """The least time that one hop into or out of a device keeps it busy, s."""
    if instance.problem.platform.devices[device].overlap:
        return 0.0  # and no paths are asked for, which takes minutes for hundreds of devices
    found = []
    for other in range(len(instance.names)):
        ends = (other, device) if into else (device, other)
        route = instance.route(*ends, nbytes) if other != device else None
        if route:
            hop = route[-1] if into else route[0]
            busy = device in instance.resources(hop)
            found.append(instance.hop_seconds(hop, nbytes) if busy else 0.0)
    return min(found, default=0.0)


def kinds_of(instance: Instance, arrive: FloatArray, leave: FloatArray) -> tuple[Kind, ...]:
    """Devices of which every stage asks the same."""
    found: dict[tuple[object, ...], list[int]] = {}
    table = np.array(instance.seconds, dtype=np.float64)
    for d, limit in enumerate(instance.capacity):
        if np.isfinite(table[:, d]).any():
            columns = (table[:, d], arrive[:, d], leave[:, d])
            key = (limit, *(column.tobytes() for column in columns))
            found.setdefault(key, []).append(d)
    return tuple(Kind(tuple(devices), instance.capacity[devices[0]]) for devices in found.values())
