"""Latency under memory limits, by modules: prices of memory, and labels of what is taken.

A module's placements p (`module_choices`) have a time t(p), bytes w(p, d) that are always on each
device d with a limit C(d), and a(p, d) that some part needs there while it runs. A schedule of one
element takes one placement of each module, their ends meeting, so its makespan is at least

    minimise  sum over modules of t(p)                                                (1)
    subject to  sum of w(p, d) + max of a(p, d)  <=  C(d)    for every d

*Boxes.* The max of a(., d) lies between l(d) and h(d); the box with the least bound is halved
                                                                     -> `MemoryBoundSearch.run`

*Prices.* For prices x(d) >= 0 of a byte a box has the bound         -> `best_prices`

    min over chains of sum of (t(p) + x w(p))  -  sum over d of x(d) (C(d) - l(d))

*Labels.* (device, time, bytes taken), module by module, dropped where prices or another label say
that they cannot lead below a known value U                          -> `labels.py`

(1) knows no waiting for memory, and no copies' memory.

Derivation, references: docs/method/memory-prices.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from tvm_hetero.bounds.core.module_choices import Choices, choices_of, key_of, size_of
from tvm_hetero.bounds.core.time_is_up import Late, never
from tvm_hetero.bounds.memory.labels import ways_below
from tvm_hetero.bounds.memory.prices import Box, Way, best_prices, narrow_box
from tvm_hetero.problem.objective import ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import modules_of

_ROUNDING = 1 - 1e-11
# Placements of one module, and of all distinct ones, that are gone through.
_MOST, _MOST_TOGETHER = 200_000, 600_000
# Devices with a limit for which boxes and labels make sense.
_MOST_LIMITED = 4
# Labels at one cut and device, when a box is labelled for the first, second, ... time.
_WIDTHS = (300, 1_000, 3_000)
# Boxes that are looked at.
_BOXES = 100
# Work (sums of numbers) that takes about a second of a slow core.
WORK_A_SECOND = 4_000_000
# A box is not halved any more when it leaves this part of every memory open.
_THIN = 2e-3
# Ways within memory that are kept for whoever looks for schedules.
_KEPT = 12


@dataclass(frozen=True)
class MemoryChain:
    """The modules of an instance with their placements, and the limited devices.

    Attributes
    ----------
    parts : of each module, numbers of the instance in the order of its `Choices.places`.
    tables : of each module; equal modules share one.
    capacity : of the devices whose memory binds, bytes.
    """

    instance: Instance
    parts: list[tuple[int, ...]]
    tables: list[Choices]
    capacity: FloatArray

    def placement(self, way: Way) -> list[int]:
        """The device of every part."""
        placement = [0] * len(self.instance)
        for parts, places in zip(self.parts, way.places, strict=True):
            for v, d in zip(parts, places, strict=True):
                placement[v] = d
        return placement


def has_memory_chain(instance: Instance) -> bool:
    """Whether the modules are small enough for `memory_chain`, as far as is seen at once."""
    limited = sum(instance.memory_binds)
    if instance.problem.batch > 1 or not 0 < limited <= _MOST_LIMITED:
        return False
    return max(size_of(instance, module) for module in modules_of(instance)) <= _MOST


def memory_chain(instance: Instance, upper: float) -> MemoryChain | None:
    """The chain for makespans up to `upper` (s); None where (1) is too large or has no say."""
    limited = [d for d, binds in enumerate(instance.memory_binds) if binds]
    if instance.problem.batch > 1 or not 0 < len(limited) <= _MOST_LIMITED:
        return None
    modules = modules_of(instance)
    if not upper < math.inf or max(size_of(instance, module) for module in modules) > _MOST:
        return None
    blink = 4 * (RELATIVE_TOLERANCE * upper + ABSOLUTE_TOLERANCE)
    known: dict[object, Choices] = {}
    pieces, tables, total = [], [], 0
    for module in modules:
        piece, key = key_of(instance, module)
        if key not in known:
            known[key] = choices_of(instance, module, piece, limited, blink)
            total += len(known[key])
        if total > _MOST_TOGETHER:
            return None
        pieces.append(piece.parts)
        tables.append(known[key])
    capacity = np.array([float(instance.capacity[d] or 0) for d in limited])
    return MemoryChain(instance, pieces, tables, capacity)


class MemoryBoundSearch:
    """Halves boxes, the one with the least bound first, then makes labels (see the head).

    Attributes
    ----------
    bound : of every makespan, s; `upper` where none is below.
    work : what is left of it; the search stops soon after it is used up, or at the deadline
        (of `now`), which is only a net, or where it is `late`.
    ways : chains that keep all memory, as far as (1) knows; the quickest first.
    """

    def __init__(
        self,
        chain: MemoryChain,
        upper: float,
        work: int,
        deadline: float = math.inf,
        late: Late = never,
    ) -> None:
        self.chain, self.upper = chain, upper
        self.work, self.deadline, self.late = work, deadline, late
        self.bound = 0.0
        self.ways: list[Way] = []
        most = np.max([table.busy.max(axis=0, initial=0.0) for table in chain.tables], axis=0)
        levels = np.concatenate([table.busy for table in set_of(chain.tables)])
        self.levels = [np.unique(np.append(column, 0.0)) for column in levels.T]
        self._heap: list[tuple[float, int, Box]] = []
        self._number = itertools.count()
        self._count = 0
        none = np.zeros_like(most)
        self._push(Box(chain.tables, none, most, chain.capacity, none), 0.0)

    def run(self) -> float:
        """The bound: the least of all boxes', or `upper`."""
        while self._heap and now() < self.deadline and not self.late():
            bound, _, box = heappop(self._heap)
            if bound >= self.upper:
                break
            cut = self._cut(box) if self._count < _BOXES and self.work > 0 else None
            if cut is not None:
                for child in cut:
                    self._push(child, bound)
            elif box.labelled < len(_WIDTHS) and self.work > 0:
                self._label(box, bound)
            else:
                self._put(bound, box)
                break
        self.bound = min([self.upper, *(bound for bound, _, _ in self._heap[:1])]) * _ROUNDING
        return self.bound

    @property
    def closed(self) -> bool:
        """Whether it is proven that nothing is below `upper`."""
        return not self._heap or self._heap[0][0] >= self.upper

    def _push(self, box: Box, least: float) -> None:
        """Bound a box; keep it if schedules below `upper` may be in it."""
        self._count += 1
        box = box.cleared()
        if not box.possible:
            return
        found = best_prices(box, self.upper)
        self.work -= found.work
        self._keep(found.ways)
        if found.bound < self.upper:
            self._put(max(least, found.bound), narrow_box(box, found.prices, self.upper))

    def _put(self, bound: float, box: Box) -> None:
        heappush(self._heap, (bound, next(self._number), box))

    def _keep(self, ways: list[Way]) -> None:
        capacity = self.chain.capacity
        known = {way.places for way in self.ways}
        for way in ways:
            if (way.taken <= capacity).all() and way.places not in known:
                known.add(way.places)
                self.ways.append(way)
        self.ways.sort(key=lambda way: (way.seconds, way.places))
        del self.ways[_KEPT:]

    def _cut(self, box: Box) -> tuple[Box, Box] | None:
        """Two halves by what is taken while parts run on the device where that is least known."""
        open_part = (box.high - box.low) / np.maximum(self.chain.capacity, 1.0)
        d = int(open_part.argmax())
        if open_part[d] < _THIN:
            return None
        levels = self.levels[d]
        inside = levels[(levels >= box.low[d]) & (levels <= box.high[d])]
        if len(inside) < 2:
            return None
        middle = int(np.searchsorted(inside, (box.low[d] + box.high[d]) / 2, "right")) - 1
        middle = min(max(middle, 0), len(inside) - 2)
        below, above = box.high.copy(), box.low.copy()
        below[d], above[d] = inside[middle], inside[middle + 1]
        return (
            Box(box.tables, box.low, below, box.capacity, box.prices),
            Box(box.tables, above, box.high, box.capacity, box.prices),
        )

    def _label(self, box: Box, bound: float) -> None:
        """Bound a box by labels, and put it back."""
        width = _WIDTHS[box.labelled]
        value, ways, spent = ways_below(box, box.prices, self.upper, self.work, width)
        self.work -= spent
        self._keep(ways)
        box.labelled += 1
        self._put(max(bound, value), box)


def set_of(tables: list[Choices]) -> list[Choices]:
    """Each table once."""
    return list({id(table): table for table in tables}.values())


def memory_bound(
    instance: Instance, upper: float, work: int = WORK_A_SECOND, late: Late = never
) -> float:
    """A bound of the latency (s): `upper` if there is nothing below it; 0 without a say.

    Parameters
    ----------
    upper : the value of some schedule, s.
    work : how much may be spent, see `WORK_A_SECOND`.
    late : whether there is no time for more; what is proven by then is the bound.
    """
    chain = memory_chain(instance, upper)
    return 0.0 if chain is None else MemoryBoundSearch(chain, upper, work, late=late).run()
