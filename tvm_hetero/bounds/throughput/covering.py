"""A lower bound of the busiest device from what one device can hold, by prices of the groups.

Shares (`share_program`) run a little of every group everywhere, and then nothing is copied and
nothing is too large. Here groups are whole, and each device pays for its own copies. Notation:
kinds c of m(c) equal devices; load(S, c) of a set S of groups (`group_cuts`); prices q(g) >= 0,
whole, of sum P. In a plan of value T every group is somewhere, on devices with loads up to T, so

    P <= sum over c of m(c) worth(c, T),     worth(c, T) = max of q(S) over S with load(S, c) <= T

and any prices prove the least T for which that holds                            -> `_least_period`
(`priced_sets` says worth(c, T) for all T at once, exactly). On six equal devices one of them holds
a sixth of the work, in whole groups, with its copies, where shares may be parts of a group
(`python -m benchmarks.msr --only throughput` prints bounds and values).

Better prices come from a set covering program over the sets found so far (P. Gilmore and R. Gomory,
Operations Research 9, 1961, doi:10.1287/opre.9.6.849), for a period T that is to be refuted:

    minimise  sum over g of v(g) u(g)        what is left uncovered, at its first price
    subject to  sum of the sets with g + u(g) >= 1 for every g,   at most m(c) sets of each kind

whose multipliers are the next prices, by halves: the mean of them and of the best so far leads
there sooner (P. Wentges, International Transactions in Operational Research 4, 1997,
doi:10.1016/S0969-6016(97)00001-4), and the multipliers alone where it finds no new set. T lies
between the bound and the known value; what no set refutes any more is too large, what is refuted
is the bound, and the next T lies above. Work is counted in entries of tables, so that a run can be
repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_hetero.bounds.throughput.group_cuts import GroupCuts, group_cuts
from tvm_hetero.bounds.throughput.group_steps import Step, steps_of
from tvm_hetero.bounds.throughput.priced_sets import (
    PricedSets,
    cheapest_sets,
    fractional_reach,
    states_of,
)
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray
from tvm_hetero.views.instance import Instance

_ROUNDING = 1 - 1e-11
# Prices: the sum, the least that is worth while; and entries of all tables of one kind, 2 bytes
# each.
_PRICES, _FEWEST, _MOST_ENTRIES = 6_000, 400, 25_000_000
# Entries of tables in a second, about.
ENTRIES_A_SECOND = 60_000_000
# Groups above which nothing is said, in all and for each second: the program of sets has a row for
# each, which counts as so many entries.
_MOST_GROUPS, _GROUPS_A_SECOND, _ROW = 3_000, 3_000, 3_000
# Rounds without a better bound after which it ends.
_PATIENCE = 40
# Where between bound and value T is looked for, and how near both have to be for an end.
_HIGHER, _CLOSE = 0.5, 1e-4
# A set that gains less than this part of the whole price adds nothing.
_GAIN = 1e-7


@dataclass(frozen=True)
class _PricedKind:
    """A kind of devices: how many there are, the order of the groups and their rates."""

    count: int
    steps: Sequence[Step]
    states: int
    rate: FloatArray


@dataclass
class _Sets:
    """Sets that were found: for each its kind, groups and load."""

    kinds: list[int] = field(default_factory=list)
    members: list[BoolArray] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def add(self, c: int, table: PricedSets, period: float) -> bool:
        """The set that is worth most within a period; whether it is new."""
        worth = table.worth(period)
        row = np.zeros(len(table.prices), dtype=np.bool_)
        row[table.read(worth)] = True
        known = zip(self.kinds, self.members, strict=True)
        if any(kind == c and bool((own == row).all()) for kind, own in known):
            return False
        self.kinds.append(c)
        self.members.append(row)
        self.loads.append(float(table.load[worth]))
        return True


def covering_bound(
    instance: Instance,
    value: float,
    weights: FloatArray,
    seconds: float,
    deadline: float = math.inf,
) -> float:
    """The bound at the head of this file, s; 0 where it has nothing to say.

    Parameters
    ----------
    value : of a plan that is known, s.
    weights : of the devices, for the first prices (those of `share_program` do well).
    seconds : that the work it may do stands for.
    deadline : of `now`: no table is begun after it.
    """
    if not 0 < value < math.inf or instance.problem.batch > 1:
        return 0.0
    if len(instance.groups) > min(_MOST_GROUPS, _GROUPS_A_SECOND * seconds):
        return 0.0
    cuts = group_cuts(instance)
    machines = [
        _PricedKind(len(kind.devices), steps, states_of(steps), cuts.rate[:, c])
        for c, kind in enumerate(cuts.kinds)
        for steps in [steps_of(cuts, c)]
    ]
    work = seconds * ENTRIES_A_SECOND
    first = _first_prices(cuts, weights)
    if first.sum() <= 0:
        first = _first_prices(cuts, np.ones_like(weights))
    if first.sum() <= 0:
        return 0.0
    return _PriceSearch(machines, first, value, deadline).run(work) * _ROUNDING


def _first_prices(cuts: GroupCuts, weights: FloatArray) -> FloatArray:
    """Each group's work where it costs least by the weights of loads."""
    own = np.array([float(weights[kind.devices[0]]) for kind in cuts.kinds])
    able = np.isfinite(cuts.rate)
    prices: FloatArray = np.where(able, np.where(able, cuts.rate, 0.0) * own, np.inf).min(axis=1)
    return prices


class _PriceSearch:
    """Better and better prices, as long as there is work left.

    Attributes
    ----------
    best : what is proven, s.
    ceiling : a T that no prices refute, or a value, s.
    period : the T that is to be refuted, s.
    centre : the prices that proved the best.
    between : whether the mean of them and the multipliers is tried, or the multipliers alone.
    idle : rounds since something was learned.
    """

    def __init__(
        self, machines: Sequence[_PricedKind], first: FloatArray, value: float, deadline: float
    ) -> None:
        self.machines, self.first, self.value, self.deadline = machines, first, value, deadline
        self.sets, self.best, self.ceiling, self.period = _Sets(), 0.0, value, value
        self.prices, self.centre, self.between = first, first, False
        self.idle = 0

    def run(self, work: float) -> float:
        """The bound, by about so many entries of tables, s."""
        most = min(_MOST_ENTRIES, work / (2 * len(self.machines)))
        while self.idle < _PATIENCE:
            tried = _mean(self.centre, self.prices) if self.between else self.prices
            whole = _whole_prices(self.machines, tried, self.value, most)
            if whole is None:
                break
            work -= _entries(self.machines, whole, self.value) + _ROW * len(self.first)
            if self.best > 0 and (work < 0 or now() > self.deadline):
                break
            if self._learns(tried, whole) and not self._finds_prices():
                break
        return self.best

    def _learns(self, tried: FloatArray, whole: IntArray) -> bool:
        """Bound and sets by some prices; False where the multipliers alone come next."""
        tables = [_table(machine, whole, self.value) for machine in self.machines]
        proven = _least_period(self.machines, tables, int(whole.sum()), self.value)
        self.idle += 1
        if proven > self.best:
            self.best, self.centre, self.idle = proven, tried, 0
        if self.best >= self.period or self.period == self.value:
            self.period = self._next_period()
        found = [self.sets.add(c, table, self.period) for c, table in enumerate(tables)]
        if not any(found) and proven < self.period:
            if self.between:
                self.between = False
                return False
            # No whole prices refute this period.
            self.ceiling, self.idle = self.period, 0
        self.between = True
        return True

    def _finds_prices(self) -> bool:
        """Whether sets leave a period to be refuted; then the multipliers are the next prices."""
        while self.ceiling - self.best > _CLOSE * self.value:
            self.period = min(self.period, self._next_period())
            left, self.prices = _cover(self.machines, self.sets, self.first, self.period)
            if left > _GAIN:
                return True
            # Sets that are known cover everything: too long to be refuted.
            self.ceiling, self.idle = self.period, 0
        return False

    def _next_period(self) -> float:
        return self.best + _HIGHER * (self.ceiling - self.best)


def _mean(a: FloatArray, b: FloatArray) -> FloatArray:
    """Prices between two, of which only the ratios count."""
    mean: FloatArray = a / float(a.sum()) + b / float(b.sum())
    return mean


def _whole_prices(
    machines: Sequence[_PricedKind], prices: FloatArray, value: float, most: float
) -> IntArray | None:
    """Prices in whole numbers, as fine as the tables allow; None where they would be too coarse."""
    total = float(prices.sum())
    fine = _PRICES
    for machine in machines:
        share = min(1.0, fractional_reach(machine.rate, prices, value) / total)
        fine = min(fine, int(most / machine.states / max(share, 1e-3)))
    if fine < _FEWEST:
        return None
    return np.rint(prices * (fine / total)).astype(np.int64)


def _most(machine: _PricedKind, whole: IntArray, value: float) -> int:
    """The largest price of a table."""
    reach = fractional_reach(machine.rate, whole.astype(np.float64), value)
    return min(int(whole.sum()), int(reach) + 1)


def _entries(machines: Sequence[_PricedKind], whole: IntArray, value: float) -> float:
    return float(sum(machine.states * (_most(machine, whole, value) + 1) for machine in machines))


def _table(machine: _PricedKind, whole: IntArray, value: float) -> PricedSets:
    most = _most(machine, whole, value)
    return cheapest_sets(machine.steps, machine.rate, whole, most, value)


def _least_period(
    machines: Sequence[_PricedKind], tables: Sequence[PricedSets], total: int, value: float
) -> float:
    """The least T at which the devices could hold everything; `value` if none below it will do."""
    every = np.concatenate([table.load for table in tables])
    periods = np.unique(every[every < value])

    def holds(period: float) -> bool:
        worth = sum(
            m.count * table.worth(period) for m, table in zip(machines, tables, strict=True)
        )
        return worth >= total

    low, high = 0, len(periods)
    while low < high:
        middle = (low + high) // 2
        if holds(float(periods[middle])):
            high = middle
        else:
            low = middle + 1
    return float(periods[low]) if low < len(periods) else value


def _cover(
    machines: Sequence[_PricedKind], sets: _Sets, first: FloatArray, period: float
) -> tuple[float, FloatArray]:
    """What is left uncovered (a part of all), and the multipliers of the groups."""
    from scipy.optimize import linprog
    from scipy.sparse import bmat, csr_array, eye_array

    usable = [i for i, load in enumerate(sets.loads) if load <= period]
    count, kinds = len(first), len(machines)
    weight = first / first.sum() + 1e-9
    covers = np.array([sets.members[i] for i in usable], dtype=np.float64).reshape(-1, count)
    of_kind = np.array([sets.kinds[i] for i in usable], dtype=np.int64)
    used = (of_kind[None, :] == np.arange(kinds)[:, None]).astype(np.float64)
    rows = bmat([[csr_array(-covers.T), -eye_array(count)], [csr_array(used), None]], format="csr")
    right = np.concatenate([-np.ones(count), [float(m.count) for m in machines]])
    cost = np.concatenate([np.zeros(len(usable)), weight])
    result = linprog(cost, A_ub=rows, b_ub=right, method="highs")
    if result.status != 0:
        return 0.0, first
    multipliers: FloatArray = np.maximum(0.0, -result.ineqlin.marginals)
    return float(result.fun), multipliers[:count]
