"""Boxes of placements, and the best prices of memory for one.

The method is in `bounds.memory.prices_and_labels`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.module_choices import Choices
from tvm_hetero.views.array_types import BoolArray, FloatArray

# Steps of the cutting planes, and how near to their value a bound is good enough: in parts of
# itself, and of what lacks to the value known.
_PLANES = 30
_CLOSE, _CLOSER = 1e-5, 0.02


@dataclass(frozen=True, eq=False)
class Way:
    """One placement of every module, their ends meeting.

    Attributes
    ----------
    seconds : the sum of their times.
    taken : bytes on each limited device: what stays, and the most that some part needs besides.
    places : of every module, devices in canonical order.
    """

    seconds: float
    taken: FloatArray
    places: tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class Box:
    """Some placements of every module. Bytes, one for each limited device.

    `prices` (s per byte) are those of the box that it is a part of: where to begin.
    """

    tables: list[Choices]
    low: FloatArray
    high: FloatArray
    capacity: FloatArray
    prices: FloatArray
    labelled: int = 0

    @property
    def room(self) -> FloatArray:
        """What is left for bytes that stay."""
        room: FloatArray = self.capacity - self.low
        return room

    @property
    def possible(self) -> bool:
        """Whether every module has a placement left."""
        return bool((self.room >= 0).all()) and all(len(table) for table in self.tables)

    def cleared(self) -> Box:
        """Without placements that need more than `high` or hold more than there is room for."""
        known: dict[int, Choices] = {}
        for table in self.tables:
            if id(table) not in known:
                fits: BoolArray = np.asarray((table.busy <= self.high).all(axis=1))
                fits &= (table.held <= self.room).all(axis=1)
                known[id(table)] = table if fits.all() else table.take(fits)
        tables = [known[id(table)] for table in self.tables]
        return Box(tables, self.low, self.high, self.capacity, self.prices)

    def way(self, rows: Sequence[int]) -> Way:
        """The way that takes one row of every table."""
        chosen = list(zip(self.tables, rows, strict=True))
        held = np.sum([table.held[row] for table, row in chosen], axis=0)
        busy = np.max([table.busy[row] for table, row in chosen], axis=0)
        places = tuple(tuple(table.places[row].tolist()) for table, row in chosen)
        seconds = math.fsum(float(table.seconds[row]) for table, row in chosen)
        return Way(seconds, held + busy, places)


@dataclass(frozen=True)
class Priced:
    """The best prices (s per byte), their bound (s), ways that came by, and the work."""

    prices: FloatArray
    bound: float
    ways: list[Way]
    work: int


class Walk:
    """The least chain of a box for given prices, and what every chain costs at least.

    Attributes
    ----------
    costs : of every row of every table, s.
    ahead, behind : the least cost from the beginning to before module m, by device of its first;
        and from after module m to the end, by device of its last.
    """

    def __init__(self, box: Box, prices: FloatArray) -> None:
        self.box = box
        self.devices = box.tables[0].devices
        known: dict[int, tuple[FloatArray, FloatArray]] = {}
        for table in box.tables:
            if id(table) not in known:
                cost = table.seconds + table.held @ prices
                known[id(table)] = cost, self._least(table, cost)
        self.costs = [known[id(table)][0] for table in box.tables]
        self.least = [known[id(table)][1] for table in box.tables]
        self.offset = float(prices @ box.room)
        start = np.full(self.devices, math.inf)
        start[0] = 0.0
        self.ahead = [start]
        for least in self.least:
            self.ahead.append((self.ahead[-1][:, None] + least).min(axis=0))
        self.behind = [np.zeros(self.devices)]
        for least in reversed(self.least):
            self.behind.append((least + self.behind[-1]).min(axis=1))
        self.behind.reverse()

    def _least(self, table: Choices, cost: FloatArray) -> FloatArray:
        k = self.devices
        least = np.full((k, k), math.inf)
        codes, begins = np.unique(table.code, return_index=True)
        first, last = codes // table.devices, codes % table.devices
        least[first, last] = np.minimum.reduceat(cost, begins)
        return least

    @property
    def bound(self) -> float:
        """The bound that these prices give, s."""
        return float(self.ahead[-1].min()) - self.offset

    def rows(self) -> list[int]:
        """One row of every table: the least chain."""
        j = int(self.ahead[-1].argmin())
        found: list[int] = []
        for m in reversed(range(len(self.least))):
            i = int((self.ahead[m] + self.least[m][:, j]).argmin())
            table = self.box.tables[m]
            code = i * table.devices + j
            begin, end = np.searchsorted(table.code, [code, code + 1])
            found.append(int(begin + self.costs[m][begin:end].argmin()))
            j = i
        return found[::-1]

    def through(self, m: int) -> FloatArray:
        """The bound of the chains through every row of table m, s."""
        table = self.box.tables[m]
        first, last = table.code // table.devices, table.code % table.devices
        total: FloatArray = self.ahead[m][first] + self.costs[m] + self.behind[m + 1][last]
        return total - self.offset


def best_prices(box: Box, upper: float) -> Priced:
    """Kelley's cutting planes; ends early when the bound has reached `upper`."""
    from scipy.optimize import linprog

    limited = len(box.room)
    unit = np.maximum(box.room, 1.0)
    # Prices are sought in units of `upper` for all of a device's room.
    most = 64.0
    prices = box.prices
    best, best_at = -math.inf, prices
    planes: list[FloatArray] = []
    heights: list[float] = []
    ways: list[Way] = []
    rows_of_all = sum(len(table) for table in {id(t): t for t in box.tables}.values())
    work = 0
    for _ in range(_PLANES):
        walk = Walk(box, prices)
        work += 15_000 + rows_of_all // 10
        if walk.bound > best:
            best, best_at = walk.bound, prices
        if best >= upper or math.isinf(walk.bound):
            break
        rows = walk.rows()
        ways.append(box.way(rows))
        held = np.sum([t.held[r] for t, r in zip(box.tables, rows, strict=True)], axis=0)
        seconds = ways[-1].seconds
        planes.append((held - box.room) / unit)
        heights.append(seconds / upper)
        result = linprog(
            np.append(np.zeros(limited), -1.0),
            A_ub=np.column_stack([-np.array(planes), np.ones(len(planes))]),
            b_ub=np.array(heights),
            bounds=[(0.0, most)] * limited + [(None, 2.0)],
            method="highs",
        )
        enough = best + max(_CLOSE * abs(best), _CLOSER * (upper - best))
        if result.status != 0 or -result.fun * upper <= enough:
            break
        prices = np.maximum(0.0, result.x[:-1]) * upper / unit
    return Priced(best_at, best, ways, work)


def narrow_box(box: Box, prices: FloatArray, upper: float) -> Box:
    """Without placements through which every chain costs `upper` or more."""
    walk = Walk(box, prices)
    tables = []
    for m, table in enumerate(box.tables):
        useful = walk.through(m) < upper
        tables.append(table if useful.all() else table.take(useful))
    return Box(tables, box.low, box.high, box.capacity, prices)
