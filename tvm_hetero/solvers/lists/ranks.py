"""Priorities of list schedulers, from mean times over devices.

Notation of the HEFT paper (doi:10.1109/71.993206): w_i is the mean time of task i over the
devices that can run it, c_ij the mean time of the transfer from i to j over the pairs of
different devices, and

    rank_u(i) = w_i + max over successors j of (c_ij + rank_u(j))          -> `upward_ranks`
    rank_d(i) = max over predecessors j of (rank_d(j) + w_j + c_ji)        -> `downward_ranks`

the mean length of the longest way from i (with it) to an exit, and to i (without it) from an
entry. Ranks may be 0 or equal, so orders by rank fall back on the topological order (`rank_order`)
or hold back what is not ready (`ready_order`).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence

from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import find_symmetry

Pair = tuple[int, int]
# Pairs of devices from which on times are worked out for all together.
_MANY = 1000


class MeanCopies:
    """c_ij: mean time to bring a tensor to a reader, over the pairs of different devices."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...], int], float] = {}
        self._pairs: dict[tuple[Sequence[int], Sequence[int]], dict[Pair, int]] = {}
        self._types = find_symmetry(instance.problem).types()
        self._node = [device.node for device in instance.problem.platform.devices]

    def seconds(self, tensor: int, reader: int) -> float:
        """The mean, s; 0 if there is no such pair."""
        instance = self.instance
        flow = instance.tensors[tensor]
        key = (instance.devices[flow.maker], instance.devices[reader], flow.nbytes)
        if key not in self._known:
            self._known[key] = self._mean(*key)
        return self._known[key]

    def _mean(self, makers: Sequence[int], readers: Sequence[int], nbytes: int) -> float:
        times: list[float] = []
        alike = self._alike(makers, readers)
        # Where nothing is alike there are many: 36,672 on 64 servers.
        every = self.instance.copies(nbytes).tolist() if len(alike) > _MANY else None
        for (j, k), pairs in alike.items():
            seconds = every[j][k] if every else self.instance.copy_seconds(j, k, nbytes)
            if seconds < math.inf:
                times += [seconds] * pairs
        return math.fsum(times) / len(times) if times else 0.0

    def _alike(self, makers: Sequence[int], readers: Sequence[int]) -> dict[Pair, int]:
        """Pairs of different devices: one of those that a symmetry makes of it, how many.

        Devices of two types, both in one node or in two, have equal paths between them.
        """
        key = makers, readers
        if key not in self._pairs:
            types, node = self._types, self._node
            first: dict[tuple[int, int, bool], Pair] = {}
            count: Counter[Pair] = Counter()
            for j in makers:
                for k in readers:
                    if j != k:
                        kind = types[j], types[k], node[j] == node[k]
                        count[first.setdefault(kind, (j, k))] += 1
            self._pairs[key] = dict(count)
        return self._pairs[key]


def mean_seconds(instance: Instance, v: int) -> float:
    """w_v, s."""
    times = [instance.seconds[v][d] for d in instance.devices[v]]
    return math.fsum(times) / len(times)


def upward_ranks(instance: Instance, copies: MeanCopies | None = None) -> list[float]:
    """rank_u of every part, s."""
    copies = copies or MeanCopies(instance)
    ranks = [0.0] * len(instance)
    for v in reversed(instance.order):
        longest = 0.0
        for t in instance.outputs[v]:
            for reader in instance.tensors[t].readers:
                longest = max(longest, copies.seconds(t, reader) + ranks[reader])
        ranks[v] = mean_seconds(instance, v) + longest
    return ranks


def downward_ranks(instance: Instance, copies: MeanCopies | None = None) -> list[float]:
    """rank_d of every part, s."""
    copies = copies or MeanCopies(instance)
    ranks = [0.0] * len(instance)
    for v in instance.order:
        for t in instance.inputs[v]:
            maker = instance.tensors[t].maker
            there = ranks[maker] + mean_seconds(instance, maker) + copies.seconds(t, v)
            ranks[v] = max(ranks[v], there)
    return ranks


def rank_order(instance: Instance) -> list[int]:
    """Parts by falling rank_u; equal ranks in topological order, so that makers come first."""
    ranks = upward_ranks(instance)
    return sorted(instance.order, key=lambda v: -ranks[v])


def ready_order(instance: Instance, priority: Sequence[float]) -> list[int]:
    """Of the parts whose makers have been taken, always the one of highest priority.

    Ties go to the part that comes first in the topological order.
    """
    position = {v: i for i, v in enumerate(instance.order)}
    makers = [dict.fromkeys(instance.tensors[t].maker for t in row) for row in instance.inputs]
    waiting = [len(row) for row in makers]
    readers: list[list[int]] = [[] for _ in makers]
    for v, row in enumerate(makers):
        for maker in row:
            readers[maker].append(v)
    heap = [(-priority[v], position[v], v) for v in instance.order if waiting[v] == 0]
    order = []
    while heap:
        v = heapq.heappop(heap)[-1]
        order.append(v)
        for reader in readers[v]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(heap, (-priority[reader], position[reader], reader))
    return order
