"""Labels along a chain of modules: is there a way that takes no more of anything than there is?

Notation: a step offers rows, each from a device to a device, that take a vector of amounts; a way
takes one row of every step, ends meeting, and a(way) is the sum. Wanted is a way with

    a(way)  <=  room            in every component                                    (1)

A *label* is (device, amounts taken so far). It is dropped when

- it takes more than the room, or by some prices p >= 0 what it has taken and the least that is
  still to come exceed what the room is worth:  p a + rest(p)  >  p room        -> `_extended`
- another at the same device has taken no more of anything                       -> `_thinned`

(resource constrained shortest paths: I. Dumitrescu and N. Boland, Networks 42, 2003,
doi:10.1002/net.10090). Prices that were made for balanced loads say little of a label that has
loaded one device only, so there are some more: one for each component alone, and the given ones
with one component dearer                                                         -> `_fan`

Of too many labels those in one cell of a grid, the finest that leaves few enough, are merged: into
one that takes the least of each component, so that no way gets lost, and if none is left in the
end, (1) has no solution; or, to find ways, into the cheapest as it is. Amounts are integers:
their sums are exact, and equal whatever their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_hetero.bounds.core.module_choices import find_undominated
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.array_types import AnyArray, FloatArray, IntArray

# Numbers that are looked at in about a second of a slow core.
WORK_A_SECOND = 50_000_000
# What a sum of a label and a row counts for, if its cost lets it be made.
_SUMMED = 60
# Sums of labels and rows that are made at once.
_AT_ONCE = 200_000
# Ways that are read from the last labels.
_WAYS = 24
# By how much a component is made dearer.
_DEARER = (1.05, 1.4)
# From one grid to the next coarser one.
_COARSER = 0.8
# Labels up to which all are compared with all.
_COMPARED = 4_000


@dataclass(frozen=True)
class LabelStep:
    """The rows of a step: devices at the ends (0 where there is none), amounts (n, components)."""

    first: IntArray
    last: IntArray
    taken: FloatArray

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class LabelAnswer:
    """What was found out.

    Attributes
    ----------
    least : the least cost (first price) of the ways left, inf where it is proven that none is.
    lowest : the least amounts of the ways left, each by itself.
    ways : one row of each step; those with the least cost first, or of the first component.
    work : numbers that were looked at.
    """

    least: float
    lowest: FloatArray
    ways: list[list[int]]
    work: int


@dataclass(frozen=True)
class _SplitLabels:
    """Device, amounts, what they cost by the first price; the label before, the row of the step.

    Where labels were merged, the cost is the least of theirs, which says more than the amounts.
    """

    device: IntArray
    taken: FloatArray
    cost: FloatArray
    back: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.device)

    def take(self, rows: IntArray) -> _SplitLabels:
        return _SplitLabels(*(column[rows] for column in self.columns))

    @property
    def columns(self) -> tuple[AnyArray, ...]:
        return (self.device, self.taken, self.cost, self.back, self.row)


class LabelSearch:
    """The steps of a chain with what every price says of the rest of it.

    Parameters
    ----------
    steps : in order; equal ones are one object.
    devices : how many there are.
    price : of each component, at least 0.
    by_first : whether ways are sought that take little of the first component.
    """

    def __init__(
        self,
        steps: Sequence[LabelStep],
        devices: int,
        room: FloatArray,
        price: FloatArray,
        *,
        by_first: bool = False,
    ) -> None:
        self.by_first = by_first
        self.steps, self.room = steps, room
        self.prices = _fan(price)
        self.budget = self.prices @ room * (1 + 1e-12)
        self.until, self.merged, self.summed = math.inf, False, 0
        self.costs = {id(step): step.taken @ self.prices.T for step in steps}
        least = {id(step): _least(step, self.costs[id(step)], devices) for step in steps}
        self.rest = [np.zeros((len(self.prices), devices))]
        for step in reversed(steps):
            self.rest.append((least[id(step)] + self.rest[-1][:, None, :]).min(axis=2))
        self.rest.reverse()
        ahead = np.full((len(self.prices), devices), np.inf)
        ahead[:, 0] = 0.0
        self.useful: list[IntArray] = []
        for m, step in enumerate(steps):
            total = ahead[:, step.first].T + self.costs[id(step)] + self.rest[m + 1][:, step.last].T
            self.useful.append(np.flatnonzero((total <= self.budget).all(axis=1)))
            ahead = (ahead[:, :, None] + least[id(step)]).min(axis=1)

    def run(self, width: int, most: int) -> LabelAnswer:
        """Look for ways with at most `width` labels at one cut and device, and `most` work."""
        first = self._along(width, most, merge=True)
        if first.least == math.inf or first.work > most or not self.merged:
            return first
        second = self._along(width, most - first.work, merge=False)
        return replace(first, ways=second.ways, work=first.work + second.work)

    def _along(self, width: int, most: int, *, merge: bool) -> LabelAnswer:
        self.merged = False
        none = np.zeros(1, dtype=np.int64)
        labels = _SplitLabels(none, np.zeros((1, len(self.room))), np.zeros(1), none, none)
        self.side = 4.0 * width
        past: list[_SplitLabels] = []
        work = 0
        for m, step in enumerate(self.steps):
            work += 2_000 + len(labels) * len(self.useful[m])
            if work > most or now() > self.until:
                return LabelAnswer(0.0, np.zeros(len(self.room)), [], most + 1)
            labels = self._extended(m, step, labels)
            if now() > self.until:
                return LabelAnswer(0.0, np.zeros(len(self.room)), [], most + 1)
            if not len(labels):
                return LabelAnswer(math.inf, self.room, [], work)
            work += _SUMMED * self.summed
            labels, compared = self._thinned(labels, width, merge=merge)
            work += compared
            past.append(labels)
        key = labels.taken[:, 0] if self.by_first else labels.cost
        ways = [_rows(past, int(at)) for at in np.argsort(key, kind="stable")[:_WAYS]]
        return LabelAnswer(float(labels.cost.min()), labels.taken.min(axis=0), ways, work)

    def _extended(self, m: int, step: LabelStep, labels: _SplitLabels) -> _SplitLabels:
        found: list[_SplitLabels] = []
        self.summed = 0
        useful, rest, costs = self.useful[m], self.rest[m + 1].T, self.costs[id(step)]
        for i in np.unique(labels.device).tolist():
            own = np.flatnonzero(labels.device == i)
            rows = useful[step.first[useful] == i]
            size = max(1, _AT_ONCE // max(1, len(rows)))
            for begin in range(0, len(own), size):
                if now() > self.until:
                    break
                part = own[begin : begin + size]
                to_come = costs[rows, 0] + rest[step.last[rows], 0]
                a, b = np.nonzero(labels.cost[part][:, None] + to_come <= self.budget[0])
                a, b = part[a], rows[b]
                self.summed += len(a)
                taken = labels.taken[a] + step.taken[b]
                good = (taken <= self.room).all(axis=1)
                a, b, taken = a[good], b[good], taken[good]
                cost, last = labels.cost[a] + costs[b, 0], step.last[b]
                good = (taken @ self.prices.T + rest[last] <= self.budget).all(axis=1)
                new = _SplitLabels(last, taken, cost, a, b)
                found.append(new.take(np.flatnonzero(good)))
        return _joined(found) if found else labels.take(np.zeros(0, dtype=np.int64))

    def _thinned(
        self, labels: _SplitLabels, width: int, *, merge: bool
    ) -> tuple[_SplitLabels, int]:
        """Without those that are nowhere better than another; merged where they are too many."""
        kept, compared = [], 0
        for j in np.unique(labels.device).tolist():
            own = labels.take(np.flatnonzero(labels.device == j))
            if len(own) > _COMPARED:
                own = own.take(_first_of_equals(own))
            own = self._merged(own, 2 * width + _COMPARED, merge=merge)
            before = len(own)
            own = own.take(find_undominated(own.cost, own.taken))
            compared += before * len(own) * len(self.room) // 24
            kept.append(self._merged(own, width, merge=merge))
        return _joined(kept), compared

    def _merged(self, labels: _SplitLabels, most: int, *, merge: bool) -> _SplitLabels:
        """At most so many: one for all in a cell, of the finest grid for which that is true.

        It is the cheapest of them, if `merge` with the least of everything.
        """
        if len(labels) <= most:
            return labels
        self.merged = True
        part = labels.taken / np.maximum(self.room, 1.0)
        side = self.side / _COARSER
        while True:
            key = np.zeros(len(labels))
            for column in part.T:
                key = key * math.ceil(side + 1) + np.floor(column * side)
            cells = len(np.unique(key))
            if cells <= most:
                break
            side *= _COARSER
        self.side = side
        order = np.lexsort((labels.cost, key))
        labels, key = labels.take(order), key[order]
        begins = np.flatnonzero(np.append([True], np.diff(key) > 0))
        best = labels.take(begins)
        if not merge:
            return best
        taken = np.minimum.reduceat(labels.taken, begins, axis=0)
        cost = np.minimum.reduceat(labels.cost, begins, axis=0)
        return _SplitLabels(best.device, taken, cost, best.back, best.row)


def _fan(price: FloatArray) -> FloatArray:
    """The price, each component alone, and the price with one component dearer."""
    rows = [price, *np.eye(len(price))]
    for factor in _DEARER:
        for i in np.flatnonzero(price > 0).tolist():
            row = price.copy()
            row[i] *= factor
            rows.append(row)
    return np.array(rows)


def _least(step: LabelStep, costs: FloatArray, devices: int) -> FloatArray:
    """(prices, first, last): the least cost of a step by its ends."""
    found = np.full((devices * devices, costs.shape[1]), np.inf)
    np.minimum.at(found, step.first * devices + step.last, costs)
    return found.T.reshape(-1, devices, devices)


def _first_of_equals(labels: _SplitLabels) -> IntArray:
    """Of labels with equal amounts the cheapest."""
    order = np.lexsort((labels.cost, *labels.taken.T))
    same = (np.diff(labels.taken[order], axis=0) == 0).all(axis=1)
    return np.sort(order[np.append([True], ~same)])


def _joined(found: Sequence[_SplitLabels]) -> _SplitLabels:
    columns = zip(*(one.columns for one in found), strict=True)
    return _SplitLabels(*(np.concatenate(column) for column in columns))


def _rows(past: Sequence[_SplitLabels], at: int) -> list[int]:
    rows = []
    for labels in reversed(past):
        rows.append(int(labels.row[at]))
        at = int(labels.back[at])
    return rows[::-1]
