"""Labels along the modules of a box: device, time, bytes taken.

The method is in `bounds.memory.prices_and_labels`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.module_choices import Choices, find_undominated
from tvm_hetero.bounds.memory.prices import Box, Walk, Way
from tvm_hetero.views.array_types import AnyArray, FloatArray, IntArray

# Sums of labels and placements that are made at once.
_AT_ONCE = 200_000
# Ways that are read from the last labels.
_WAYS = 24


@dataclass(frozen=True)
class MemoryLabels:
    """At one cut: device, time and bytes of each; the label before, the row of the module."""

    device: IntArray
    seconds: FloatArray
    held: FloatArray
    back: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.device)

    def take(self, rows: IntArray) -> MemoryLabels:
        """Some of them, in order."""
        return MemoryLabels(*(column[rows] for column in _columns(self)))


def ways_below(
    box: Box, prices: FloatArray, upper: float, most: int, width: int
) -> tuple[float, list[Way], int]:
    """A bound of the chains of a box within its room, some of them, and the work that it took.

    The bound is `upper` (s) if none is below, and 0 if more than `most` work would be needed.
    Of more than `width` labels at one cut and device near ones are merged.
    Ways come from labels of which the quickest stands for those near it, as it is.
    """
    walk = Walk(_best_rows(box), prices)
    bound, _, work = _along(walk, prices, upper, most, width)
    if not 0 < bound < upper:
        return bound, [], work
    _, ways, more = _along(walk, prices, upper, most - work, width, merge=False)
    return bound, ways, work + more


def _along(
    walk: Walk, prices: FloatArray, upper: float, most: int, width: int, *, merge: bool = True
) -> tuple[float, list[Way], int]:
    """From the first module to the last."""
    box, none = walk.box, np.zeros(1, dtype=np.int64)
    labels = MemoryLabels(none, np.zeros(1), np.zeros((1, len(box.room))), none, none)
    past: list[MemoryLabels] = []
    work = 0
    for m, table in enumerate(box.tables):
        work += 10_000 + len(labels) * len(table) // walk.devices
        if work > most:
            return 0.0, [], work
        labels = _extended(walk, m, labels, prices, upper)
        labels = _thinned(labels, box.room, width, merge=merge)
        past.append(labels)
        if not len(labels):
            return upper, [], work
    bound = min(upper, float(labels.seconds.min()))
    order = np.argsort(labels.seconds, kind="stable")[:_WAYS]
    return bound, [box.way(_rows(past, int(at))) for at in order], work


def _best_rows(box: Box) -> Box:
    """Of placements with the same ends only those that are nowhere worse than another."""
    known: dict[int, Choices] = {}
    for table in box.tables:
        if id(table) in known:
            continue
        kept = []
        for code in np.unique(table.code).tolist():
            own = np.flatnonzero(table.code == code)
            kept.append(own[find_undominated(table.seconds[own], table.held[own])])
        known[id(table)] = table.take(np.concatenate(kept))
    tables = [known[id(table)] for table in box.tables]
    return Box(tables, box.low, box.high, box.capacity, box.prices)


def _rows(past: list[MemoryLabels], at: int) -> list[int]:
    rows = []
    for labels in reversed(past):
        rows.append(int(labels.row[at]))
        at = int(labels.back[at])
    return rows[::-1]


def _extended(
    walk: Walk, m: int, labels: MemoryLabels, prices: FloatArray, upper: float
) -> MemoryLabels:
    """The labels after module m."""
    table, room = walk.box.tables[m], walk.box.room
    first, last = table.code // table.devices, table.code % table.devices
    found: list[MemoryLabels] = []
    for i in np.unique(labels.device).tolist():
        own = np.flatnonzero(labels.device == i)
        rows = np.flatnonzero(first == i)
        step = max(1, _AT_ONCE // max(1, len(rows)))
        for begin in range(0, len(own), step):
            part = own[begin : begin + step]
            seconds = labels.seconds[part][:, None] + table.seconds[rows]
            held = labels.held[part][:, None, :] + table.held[rows]
            rest = walk.behind[m + 1][last[rows]]
            total = seconds + (held - room) @ prices + rest
            useful = (total < upper) & (held <= room).all(axis=2)
            a, b = np.nonzero(useful)
            new = MemoryLabels(last[rows][b], seconds[a, b], held[a, b], part[a], rows[b])
            found.append(new)
    both = [np.concatenate(columns) for columns in zip(*map(_columns, found), strict=True)]
    return MemoryLabels(*both)


def _columns(labels: MemoryLabels) -> tuple[AnyArray, ...]:
    return (labels.device, labels.seconds, labels.held, labels.back, labels.row)


def _thinned(labels: MemoryLabels, room: FloatArray, width: int, *, merge: bool) -> MemoryLabels:
    """Without those that are nowhere better than another; merged where they are too many."""
    if not len(labels):
        return labels
    kept = []
    for j in np.unique(labels.device).tolist():
        own = labels.take(np.flatnonzero(labels.device == j))
        levels = 4 * width
        own = _pareto(own) if len(own) <= 2 * width else own
        while len(own) > width and levels > 1:
            own = _merged(own, room, levels, merge=merge)
            own = _pareto(own) if len(own) <= 2 * width else own
            levels //= 2
        kept.append(own)
    columns = [np.concatenate(columns) for columns in zip(*map(_columns, kept), strict=True)]
    return MemoryLabels(*columns)


def _pareto(labels: MemoryLabels) -> MemoryLabels:
    """Those that no other beats or equals in time and all bytes."""
    return labels.take(find_undominated(labels.seconds, labels.held))


def _merged(labels: MemoryLabels, room: FloatArray, levels: int, *, merge: bool) -> MemoryLabels:
    """One label for all in a cell of the bytes: the quickest, if `merge` with the least bytes."""
    side = max(1, round(levels ** (1 / len(room))))
    cell = np.floor(labels.held / np.maximum(room, 1.0) * side).astype(np.int64)
    key = np.zeros(len(labels), dtype=np.int64)
    for column in cell.T:
        key = key * (side + 2) + column
    order = np.lexsort((labels.seconds, key))
    labels, key = labels.take(order), key[order]
    begins: IntArray = np.flatnonzero(np.append([True], np.diff(key) > 0))
    best = labels.take(begins)
    held = np.minimum.reduceat(labels.held, begins, axis=0) if merge else best.held
    return MemoryLabels(best.device, best.seconds, held, best.back, best.row)
