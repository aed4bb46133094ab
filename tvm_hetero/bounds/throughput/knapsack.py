"""Bounded knapsack with sizes rounded down: an upper bound of the best filling, and that filling.

    maximise  sum v_i a_i   subject to   sum w_i a_i <= capacity,  0 <= a_i <= n_i, whole

Sizes are counted in `capacity / levels`, rounded down, so every filling that fits still does and
the value is never too small: what bounds need. Copies of an item go in as bundles of 1, 2, 4, ...
(S. Martello and P. Toth, Knapsack Problems, Wiley 1990, 3.3), each one sweep over all levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.views.array_types import BoolArray, FloatArray


@dataclass(frozen=True)
class Knapsack:
    """Sizes and numbers of items, and how much goes in; an item of infinite size never does."""

    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    levels: int

    @classmethod
    def of(
        cls, sizes: Sequence[float], counts: Sequence[int], capacity: float, levels: int
    ) -> Knapsack:
        """Round the sizes (in any unit) down to levels of the capacity."""
        if capacity == math.inf:
            return cls(tuple(0 if s < math.inf else 1 for s in sizes), tuple(counts), 0)
        if capacity <= 0:
            return cls(tuple(int(s > 0) for s in sizes), tuple(counts), 0)
        # Sizes may be sums of floats; what is too large by less than their rounding still fits.
        scale = levels / capacity * (1 - 1e-12)
        whole = (levels + 1 if s == math.inf else s * scale for s in sizes)
        return cls(tuple(min(levels + 1, math.floor(s)) for s in whole), tuple(counts), levels)

    def best(self, values: Sequence[float]) -> tuple[float, tuple[int, ...]]:
        """The largest value, and how many of each item."""
        table = self.table(values)
        return float(table.values[-1]), table.filling(self.levels)

    def table(self, values: Sequence[float]) -> KnapsackTable:
        """The largest values of all capacities up to this one."""
        free = [0] * len(values)
        bundles: list[tuple[int, int, int, BoolArray]] = []
        total = 0.0
        best = np.zeros(self.levels + 1)
        for i, (value, size, count) in enumerate(zip(values, self.sizes, self.counts, strict=True)):
            if value <= 0 or size > self.levels:
                continue
            if size == 0:
                free[i] = count
                total += value * count
                continue
            for number in _bundles(min(count, self.levels // size)):
                moved = best[: -number * size] + number * value
                better = moved > best[number * size :]
                np.maximum(best[number * size :], moved, out=best[number * size :])
                bundles.append((i, number, number * size, better))
        return KnapsackTable(total + best, tuple(free), tuple(bundles))


@dataclass(frozen=True)
class KnapsackTable:
    """What a sweep over all levels has found.

    Attributes
    ----------
    values : the largest by level, 0 to `Knapsack.levels`.
    free : items that take no room.
    bundles : item, number, size, and by level (from that size on) whether the bundle is in.
    """

    values: FloatArray
    free: tuple[int, ...]
    bundles: tuple[tuple[int, int, int, BoolArray], ...]

    def filling(self, level: int) -> tuple[int, ...]:
        """How many of each item are in the dearest filling of so many levels."""
        filling = list(self.free)
        for i, number, size, better in reversed(self.bundles):
            if level >= size and better[level - size]:
                filling[i] += number
                level -= size
        return tuple(filling)


def _bundles(count: int) -> list[int]:
    """1, 2, 4, ... and a rest: every number up to `count` is a sum of some."""
    result = []
    step = 1
    while count > 0:
        result.append(min(step, count))
        count -= result[-1]
        step *= 2
    return result
