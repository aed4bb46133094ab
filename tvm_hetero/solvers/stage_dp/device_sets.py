"""Bottleneck stages where devices can be in use in very many ways: sets of ways as bit sets.

The table of `stage_dp` has a number for each ideal and each way u = (u1, u2, ...) to use devices.
On eight kinds of 28 devices there are 32,400 ways. Here the question is only whether a value T
can be reached, and of each ideal all ways that reach it are one long integer:

    R(0) = {0},   R(I) = union over kinds k, I' < I with load_k(I - I') <= T of
                         {u + e_k : u in R(I'), uk < nk}                     ->
                         `_DeviceSetSearch.reach`

Way u is bit number sum uk stride_k, so {u + e_k} is a shift and the union a bitwise or: 4 kB at
once. The optimum is one of the loads. T grows from a guess until R(V) is not empty; the loads up
to it are then halved, with those that were too small left out.                       -> `least`

A question takes pairs (I', I) with small loads times words of a set; some fifteen are asked.

Where copies keep nothing busy and memory is ample (`IdealFamily.additive`), stages may as well be
as large as T allows: let J' hold J, both with load_k(J' - I) <= T; then a chain over J becomes one
over J' if every later ideal is joined with J', and its later stages only shrink. So I is followed
by largest ideals alone, those that no block can be added to. And as T lies between the value that
shares of devices prove and the best one known, only pairs that are largest for some such T are
looked at, and only ideals that such pairs lead to. RandWire's 104 tasks have 11,842 ideals; on
three devices a question leads to a tenth of them. Seconds that such cases take: `randwire-ws ...
stages` of `python -m benchmarks.schedule --suite throughput`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.native import stages
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray
from tvm_hetero.views.ideals import IdealFamily
from tvm_hetero.views.task_classes import shares_of

# Bits (ideals x ways) that sets may have: 256 MB. Pairs of ideals x kinds that may be kept: 400 MB.
_MOST_BITS = 2_000_000_000
_MOST_PAIRS = 50_000_000
# Loads that are less apart, in parts of all that there is to do, are one.
SAME = 1e-11
# By which factor T grows, and its least first value in parts of all that there is to do.
_GROWTH = 1.2
_LEAST = 1e-5

Stages = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class _DeviceSetStages:
    """Stages by the ideal that they follow, then by kind.

    begin : (ideals,), where the stages behind each ideal start.
    beyond : loads with one more block; inf where larger stages are not always better.
    """

    begin: IntArray
    kind: IntArray
    later: IntArray
    loads: FloatArray
    beyond: FloatArray


class _DeviceSetSearch:
    """The ways to use devices, and the stages that have been looked at."""

    def __init__(self, family: IdealFamily) -> None:
        self.family = family
        sizes = [len(kind.devices) + 1 for kind in family.kinds]
        ways = math.prod(sizes)
        if ways * len(family) > _MOST_BITS:
            raise SolverError(
                f"stages: {len(family)} ideals and {ways} ways to use the devices are more than "
                f"{_MOST_BITS} states"
            )
        self.strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        number = np.arange(ways)
        counts = [number // stride % size for size, stride in zip(sizes, self.strides, strict=True)]
        self.used = np.sum(counts, axis=0)
        self.free = [_bits(count + 1 < size) for count, size in zip(counts, sizes, strict=True)]
        self.beyond = family.beyond() if family.additive else None

    def look(self, low: float, most: float, deadline: float) -> None:
        """All stages with loads of at most `most` that may be of use for some T above `low`."""
        begin, rows = [0], []
        met = np.arange(len(self.family)) == 0
        for i in range(len(self.family) - 1):
            if not met[i]:
                begin.append(begin[-1])
                continue
            if now() > deadline:
                raise SolverError("stages: no time is left to look at all stages")
            later, loads = self.family.row(i, most)
            beyond = np.full(loads.shape, np.inf)
            if self.beyond is not None:
                beyond = self.beyond[:, later] - self.family.work[i][:, None]
            kind, place = np.nonzero((loads <= most) & (beyond > low))
            met[later[place]] = True
            rows.append((kind, later[place], loads[kind, place], beyond[kind, place]))
            begin.append(begin[-1] + len(kind))
            if begin[-1] > _MOST_PAIRS:
                raise SolverError(f"stages: more than {_MOST_PAIRS} stages to choose from")
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        self.stages = _DeviceSetStages(np.array([*begin, begin[-1]]), *columns)
        self.native = self._native() if stages.available() else None

    def _native(self) -> stages.NativeStages:
        s = self.stages
        words = -(-len(self.used) // 64)
        free = [np.frombuffer(way.to_bytes(8 * words, "little"), np.uint64) for way in self.free]
        columns = (s.begin, s.kind, s.later, s.loads, s.beyond)
        return stages.NativeStages(np.array(free), self.strides, *columns)

    def reach(self, most: float, deadline: float) -> list[int]:
        """R of all ideals."""
        if self.native is not None:
            found = self.native.reach(most, deadline - now())
            return [int.from_bytes(row.tobytes(), "little") for row in found]
        return self._reach(most, deadline)

    def _reach(self, most: float, deadline: float) -> list[int]:
        """R of all ideals, without the library."""
        found = [0] * len(self.family)
        found[0] = 1
        s = self.stages
        for i, (first, last) in enumerate(itertools.pairwise(s.begin.tolist())):
            if not found[i]:
                continue
            if now() > deadline:
                raise SolverError("stages: no time is left to join stages")
            useful = (s.loads[first:last] <= most) & (s.beyond[first:last] > most)
            grown = [
                (found[i] & free) << stride
                for free, stride in zip(self.free, self.strides, strict=True)
            ]
            kinds, later = s.kind[first:last][useful], s.later[first:last][useful]
            for k, j in zip(kinds.tolist(), later.tolist(), strict=True):
                found[j] |= grown[k]
        return found

    def chain(self, found: list[int], most: float) -> Stages:
        """One chain of stages, of those with the fewest devices; the first in order of ideals."""
        s, last = self.stages, len(found) - 1
        ways = _numbers(found[last])
        way = int(ways[np.argmin(self.used[ways])])
        chain: list[tuple[int, int, int]] = []
        while last > 0:
            ends = np.flatnonzero((s.later == last) & (s.loads <= most))
            before = np.searchsorted(s.begin, ends, side="right") - 1
            i, k = next(
                (i, k)
                for i, k in zip(before.tolist(), s.kind[ends].tolist(), strict=True)
                if way >= self.strides[k] and found[i] & self.free[k] & (1 << way - self.strides[k])
            )
            chain.append((k, i, last))
            way, last = way - self.strides[k], i
        return tuple(reversed(chain))


def _bits(flags: BoolArray) -> int:
    """The integer whose bits are `flags`, the first the lowest."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _numbers(bits: int) -> IntArray:
    """The numbers of the bits that are set."""
    text = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(text, bitorder="little"))


def least(family: IdealFamily, most: float, deadline: float = math.inf) -> tuple[float, Stages]:
    """The least value of at most `most` (s) and stages that have it; inf and none without.

    Parameters
    ----------
    deadline : of `now`.

    Raises
    ------
    SolverError
        If there are too many states or stages, or the time is up.
    """
    if len(family) == 1:  # nothing but inputs and outputs
        return 0.0, ()
    search = _DeviceSetSearch(family)
    whole = family.work[-1]
    total = float(whole.max() + family.arrive.sum() + family.leave.sum())
    top = min(most, total * (1 + 1e-9))
    low = _proven(family)
    guess = max(_guess(family, total), low)
    high = top if top <= guess * _GROWTH**2 else guess
    while True:
        search.look(low, high, deadline)
        found = search.reach(high, deadline)
        if found[-1]:
            break
        if high >= top:
            return math.inf, ()
        low, high = high, min(high * _GROWTH, top)
    loads = _distinct(search.stages.loads, total)
    loads = loads[(loads > low) & (loads <= high)]
    first, last = 0, len(loads) - 1
    while first < last:
        middle = (first + last) // 2
        tried = search.reach(float(loads[middle]), deadline)
        if tried[-1]:
            last, found = middle, tried
        else:
            first = middle + 1
    value = float(loads[last])
    return value, search.chain(found, value)


def _distinct(loads: FloatArray, total: float) -> FloatArray:
    """Loads in order, and of those that only rounding sets apart the largest."""
    rising = np.unique(loads)
    step = np.floor(rising / (total * SAME or 1.0))
    kept: FloatArray = rising[np.append(step[1:] > step[:-1], True)]
    return kept


def _proven(family: IdealFamily) -> float:
    """A value that no chain of stages is below, s: shares of devices, less what rounding may do."""
    if not family.additive:
        return -math.inf
    shares = shares_of(family.instance, rates(family.instance)).value
    return shares * (1 - 1e-9) if shares > 0 else -math.inf


def _guess(family: IdealFamily, total: float) -> float:
    """The value if all kinds could run everything and all shares were possible, s."""
    rates = [
        len(kind.devices) / work
        for kind, work in zip(family.kinds, family.work[-1].tolist(), strict=True)
        if work > 0
    ]
    return max(1 / sum(rates) if rates else 0.0, total * _LEAST)
