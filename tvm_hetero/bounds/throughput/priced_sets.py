"""For every price the least load of a device that holds groups of so much: a knapsack with cuts.

Prices are whole numbers, so that loads are exact: no size is rounded. With the order and states of
`group_steps`, and L(s, p) the least load of the groups so far that are worth p or more and end in
state s, a group g of price q is left out or taken

    L'(s', p) = min over the states s and x in {0, 1} that lead to s' of
                L(s, max(0, p - q x)) + x rate(g) + what its tensors cost in s and x

(the knapsack by profits, S. Martello and P. Toth, Knapsack Problems, Wiley 1990, 2.3, over
states). Loads above a limit are left out. What led to each entry is kept, so that the sets can be
read back                                                                     -> `PricedSets.read`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.group_steps import Step
from tvm_hetero.views.array_types import AnyArray, BoolArray, FloatArray, IntArray

# Loads that exceed the limit by rounding alone are within.
_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class PricedSets:
    """The least loads, and how to read the sets.

    Attributes
    ----------
    load : (prices + 1,), s: the least load of a set worth so much or more; inf above the limit.
    """

    load: FloatArray
    steps: Sequence[Step]
    prices: IntArray
    origins: Sequence[AnyArray]

    def worth(self, limit: float) -> int:
        """The most that a device can hold within a load."""
        return int(np.searchsorted(self.load, limit, side="right")) - 1

    def read(self, price: int) -> list[int]:
        """The groups of the set with the least load that is worth so much."""
        found, state = [], 0
        for step, origin in zip(reversed(self.steps), reversed(self.origins), strict=True):
            state, taken = divmod(int(origin[state, price]), 2)
            if taken:
                found.append(step.group)
                price = max(0, price - int(self.prices[step.group]))
        return found


def states_of(steps: Sequence[Step]) -> int:
    """Entries for each price in the tables of all steps, at most."""
    total = bits = 0
    for step in steps:
        bits = len(step.keeps) + step.opens + sum(read.kept for read in step.reads)
        total += 2**bits
    return total


def cheapest_sets(
    steps: Sequence[Step], rate: FloatArray, prices: IntArray, most: int, limit: float
) -> PricedSets:
    """The least loads for all prices up to `most`.

    Parameters
    ----------
    rate : s of each group; inf where the device cannot run it.
    limit : s, above which loads are of no interest.
    """
    masks = np.zeros(1, dtype=np.int64)
    table = np.full((1, most + 1), np.inf)
    table[0, 0] = 0.0
    origins = []
    for step in steps:
        masks, table, origin = _advance(step, masks, table, rate, prices, limit * _SLACK)
        origins.append(origin)
    if len(masks) == 0:
        return PricedSets(np.full(most + 1, np.inf), steps, prices, [])
    return PricedSets(table[0], steps, prices, origins)


def _advance(
    step: Step,
    masks: IntArray,
    table: FloatArray,
    rate: FloatArray,
    prices: IntArray,
    limit: float,
) -> tuple[IntArray, FloatArray, AnyArray]:
    """States and table after one more group, and where each entry came from: 2 state + x."""
    g = step.group
    choices = (False, True) if rate[g] < np.inf else (False,)
    found = [_move(step, masks, taken) for taken in choices]
    after = np.concatenate([own for own, _ in found])
    new, row = np.unique(after, return_inverse=True)
    result = np.full((len(new), table.shape[1]), np.inf)
    origin = np.zeros(result.shape, dtype=np.int16)
    for taken, (_, costs) in zip(choices, found, strict=True):
        for i in range(len(masks)):
            s = int(row[i + taken * len(masks)])
            loads = table[i] + (costs[i] + (rate[g] if taken else 0.0))
            if taken:
                loads = _shifted(loads, int(prices[g]))
            better = loads < result[s]
            np.copyto(result[s], loads, where=better)
            origin[s][better] = 2 * i + taken
    result[result > limit] = np.inf
    kept = result[:, 0] < np.inf
    return new[kept], result[kept], origin[kept]


def _shifted(loads: FloatArray, price: int) -> FloatArray:
    """The loads where the price is added: worth p afterwards, worth p - price before."""
    if price == 0:
        return loads
    result = np.full(len(loads), loads[0])
    if price < len(loads):
        result[price:] = loads[: len(loads) - price]
    return result


def _move(step: Step, masks: IntArray, taken: bool) -> tuple[IntArray, FloatArray]:
    """The states after a group that is taken or not, and what its tensors cost."""
    costs = np.zeros(len(masks))
    paid_after: list[BoolArray] = []
    for read in step.reads:
        made = (masks >> read.maker) & 1 == 1
        paid = np.zeros(len(masks), dtype=np.bool_)
        if read.paid >= 0:
            paid = (masks >> read.paid) & 1 == 1
        cut = made != taken
        costs += np.where(cut & ~paid, read.arrive if taken else read.leave, 0.0)
        if read.kept:
            paid_after.append(paid | cut)
    after = np.zeros(len(masks), dtype=np.int64)
    slot = 0
    for old in step.keeps:
        after |= ((masks >> old) & 1) << slot
        slot += 1
    if step.opens:
        after |= int(taken) << slot
        slot += 1
    for bits in paid_after:
        after |= bits.astype(np.int64) << slot
        slot += 1
    return after, costs


def fractional_reach(rate: FloatArray, prices: FloatArray, limit: float) -> float:
    """The most price that a device could hold within a load, copies left out and groups cut."""
    able = np.isfinite(rate) & (prices > 0)
    own, price = rate[able], prices[able]
    free = own <= 0
    total = float(price[free].sum())
    own, price = own[~free], price[~free]
    best = np.argsort(-price / own, kind="stable")
    load = np.cumsum(own[best])
    whole = int(np.searchsorted(load, limit, side="right"))
    total += float(price[best][:whole].sum())
    if whole < len(best):
        before = load[whole - 1] if whole else 0.0
        total += float(price[best][whole] / own[best][whole]) * (limit - before)
    return total if math.isfinite(total) else float(prices.sum())
