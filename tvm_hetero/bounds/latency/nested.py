"""Nested programs: heads and tails that know how long a task's ancestors keep the devices.

Heads and tails by paths (`critical_path`) know nothing of loads: where many tasks precede v, their
work alone may take longer than every path to v. The program of `precedence` knows loads, and is
better the more its heads know. So, for the tasks of a module in topological order, and every device
d,

    head(v, d) = the bound of the program of v, held on d, and all its ancestors,
                 with the heads that were found for these

and tails likewise, backwards, from v and all that follows it. The program of the whole module,
with all of them, is the bound: a program in a program in a program        -> `Nested.bound`

A module is looked at with all that is before and after it, for makespans up to a known or assumed
value H: the bound is one of the whole graph, or H         -> `modules.ModuleChain.around`, `nest`
What has head + tail >= H is not on d at all, and below H only so many whole tasks fit on a device
(`count_cuts`, in every program with the windows of the whole). So the nearer H is, the more is
known: where a value is known, H lies between the bound so far and what a module's share of the gap
would leave of it                                                                  -> `_limit`
Tasks that have few ancestors keep their heads by paths; where there is work for a part of the
programs only, every second, third .. task has one.

This is the recursion of heads in J. Carlier and E. Pinson's adjustments (Management Science 35,
1989, doi:10.1287/mnsc.35.2.164), with a linear program in place of one machine's preemptive bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tvm_hetero.bounds.latency.count_cuts import counts_of
from tvm_hetero.bounds.latency.modules import ModuleChain
from tvm_hetero.bounds.latency.precedence import PrecedenceModel, work_of
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.views.array_types import FloatArray, IntArray

# H in parts of the bound so far, where no value is known. The nearer, the fewer devices remain.
_BEYOND = 1.12
# What of its share of the gap a module is to close at once, and the gap that is tried in one piece.
_PART, _NEAR = 0.75, 1 - 1e-3
# Tasks of a module, and ancestors of a task, from which on programs know more than paths.
_LARGE, _MANY = 16, 4
# Programs of a module's size that must fit into the work: with fewer, those of its entries alone
# (`modules`) are better (measured at 64,000 and 160,000 for 34 tasks).
_PROGRAMS = 16
# How far beyond H a program's times may go (see `precedence`).
_ROOM = 4.0
# What a program takes besides its numbers, in numbers.
_SMALL = 1_000


def nest(chain: ModuleChain, work: int, upper: float = math.inf) -> float:
    """Raise the chain's tables by nested programs of its large modules; the bound, s.

    Parameters
    ----------
    work : numbers of the programs that may be solved.
    upper : a known value; nothing above it is looked for, s.
    """
    large = large_modules(chain, work)
    for place, m in enumerate(large):
        left = len(large) - place
        work -= _raise(chain, m, work // left, upper, left)
    return chain.value()


def _raise(chain: ModuleChain, m: int, work: int, upper: float, left: int) -> int:
    """Raise the entries of module m, and further where the bound is H; the work it took."""
    used = 0
    while used < work:
        limit = _limit(chain.value(), upper, left)
        nested = Nested(chain.around(m), limit, work - used)
        bound = nested.bound()
        chain.lift(m, np.maximum(bound, nested.entries()))
        used += nested.used
        if bound < limit or limit >= upper:
            break
    return used


def _limit(bound: float, upper: float, left: int) -> float:
    """H for the first of so many modules, s."""
    if upper * _NEAR <= bound:
        return upper
    return min(bound * _BEYOND, bound + (upper - bound) * _PART / left)


def large_modules(chain: ModuleChain, work: int) -> list[int]:
    """Modules that have nested programs, one of each kind, if `work` is enough for some."""
    count = chain.cuts.count
    large = [m for m in range(count) if chain.parts(m) >= _LARGE]
    return chain.unlike([m for m in large if chain.price(m) * _PROGRAMS <= work])


@dataclass
class Nested:
    """A part for makespans up to `limit` (s), whose heads and tails are raised."""

    part: Subgraph
    limit: float
    work: int
    used: int = 0

    def __post_init__(self) -> None:
        figures, part = self.part.figures, self.part
        place = {int(v): i for i, v in enumerate(part.tasks)}
        self._src = np.array([place[int(v)] for v in figures.src[part.edges]], dtype=np.int64)
        self._dst = np.array([place[int(v)] for v in figures.dst[part.edges]], dtype=np.int64)
        self._copies = figures.copies(part.edges)
        n, k = part.least.shape
        # Forwards and backwards, programs of half the size of the whole on average.
        total = n * k * work_of(figures, n, len(part.edges))
        self._step = max(1, math.ceil(total / 2 / max(1, self.work)))
        before = np.eye(n, dtype=bool)  # row w: w and all before it; edges are sorted by reader
        for u, w in zip(self._src.tolist(), self._dst.tolist(), strict=True):
            before[w] |= before[u]
        self._before = before

    def bound(self) -> float:
        """A bound of the makespan, at most `limit`, s."""
        n = len(self.part.tasks)
        for backwards in (False, True):
            members = self._before.T if backwards else self._before
            for v in reversed(range(n)) if backwards else range(n):
                self._follow(v, backwards)
                if members[v].sum() > _MANY and v % self._step == 0:
                    for d in np.flatnonzero(np.isfinite(self.part.least[v])).tolist():
                        self._raise(v, d, members[v], backwards)
                if not np.isfinite(self.part.least[v]).any():
                    return self.limit
        return self._solve(self.part)

    def entries(self) -> FloatArray:
        """(devices, devices): the same by the devices of the first and the last task, s."""
        k = self.part.least.shape[1]
        found = np.full((k, k), self.limit)
        for i in range(k):
            for j in range(k):
                pinned = self._pinned(i, j)
                if np.isfinite(pinned.least).any(axis=1).all():
                    found[i, j] = self._solve(pinned)
        return found

    def _pinned(self, i: int, j: int) -> Subgraph:
        part = self.part
        least, rate = part.least.copy(), part.rate.copy()
        for row, d in ((0, i), (-1, j)):
            elsewhere = np.arange(least.shape[1]) != d
            least[row, elsewhere], rate[row, elsewhere] = math.inf, math.inf
        own = Subgraph.of(part.figures, part.tasks, part.edges, least, rate)
        head, tail = np.maximum(own.head, part.head), np.maximum(own.tail, part.tail)
        return replace(own, head=head, tail=tail)

    def _follow(self, v: int, backwards: bool) -> None:
        """The path to (from) v by the heads (tails) that were raised since."""
        part = self.part
        head, tail = part.head.copy(), part.tail.copy()
        if backwards:
            own = np.flatnonzero(self._src == v)
            run = tail[self._dst[own]] + part.least[self._dst[own]]
            paths = (self._copies[own] + run[:, None, :]).min(axis=2)
            tail[v] = np.maximum(tail[v], paths.max(axis=0, initial=0.0))
        else:
            own = np.flatnonzero(self._dst == v)
            paths = (head[self._src[own]][:, :, None] + self._copies[own]).min(axis=1)
            head[v] = np.maximum(head[v], paths.max(axis=0, initial=0.0) + part.least[v])
        self.part = replace(part, head=head, tail=tail)

    def _raise(self, v: int, d: int, members: IntArray, backwards: bool) -> None:
        """The program of v on d and its members: what comes before it, or after."""
        part = self.part
        found = self._solve(self._sub(v, d, members, backwards), np.flatnonzero(members))
        head, tail, least = part.head.copy(), part.tail.copy(), part.least.copy()
        if backwards:
            tail[v, d] = max(tail[v, d], found - least[v, d])
        else:
            head[v, d] = max(head[v, d], found)
        rate = part.rate
        if head[v, d] + tail[v, d] >= self.limit:
            rate = rate.copy()
            head[v, d] = least[v, d] = rate[v, d] = math.inf
        self.part = replace(part, head=head, tail=tail, least=least, rate=rate)

    def _sub(self, v: int, d: int, members: IntArray, backwards: bool) -> Subgraph:
        """The members as a part of their own, v on d, with the heads (tails) found so far."""
        part = self.part
        own = np.flatnonzero(members)
        edges = part.edges[members[self._src] & members[self._dst]]
        least, rate = part.least[own].copy(), part.rate[own].copy()
        at = int(np.searchsorted(own, v))
        elsewhere = np.arange(least.shape[1]) != d
        least[at, elsewhere], rate[at, elsewhere] = math.inf, math.inf
        sub = Subgraph.of(part.figures, part.tasks[own], edges, least, rate)
        if backwards:
            return replace(sub, tail=np.maximum(sub.tail, part.tail[own]))
        return replace(sub, head=np.maximum(sub.head, part.head[own]))

    def _solve(self, part: Subgraph, own: IntArray | None = None) -> float:
        """The bound of the program of a part with the tasks `own`; `limit` if it is not below, s.

        Whatever the part, its tasks start and end where the whole has room for them below H.
        """
        self.used += _SMALL
        path = float((part.head + part.tail).min(axis=1).max())
        if path >= self.limit:
            return self.limit
        tail = part.tail if own is None else np.maximum(part.tail, self.part.tail[own])
        head = part.head if own is None else np.maximum(part.head, self.part.head[own])
        counts = counts_of(_before(head, part.least), part.least, tail, self.limit)
        model = PrecedenceModel(part, self.limit, self.limit / 8, room=_ROOM, counts=counts).build()
        self.used += model.program.size
        return max(path, model.bound())


def _before(head: FloatArray, least: FloatArray) -> FloatArray:
    """The earliest starts; inf where a task cannot be."""
    found: FloatArray = np.where(np.isfinite(head) & np.isfinite(least), head, math.inf)
    return found - np.where(np.isfinite(least), least, 0.0)
