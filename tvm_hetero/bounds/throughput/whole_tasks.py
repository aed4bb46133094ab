"""Whole tasks on kinds of devices: a bound where each device has room for few of them.

Copies and memory left out, class i has n(i) groups of tasks that take w(i, k) seconds on kind k,
and kind k has m(k) devices (`views.task_classes`). Where the busiest device takes T, each one holds
a *filling*, a row a of whole numbers with

    0 <= a(i) <= n(i),    sum over i of w(i, k) a(i) <= T

and all of them together hold every group. So whatever the prices v(i) >= 0 of groups, no plan takes
T if

    sum over i of n(i) v(i)  >  sum over k of m(k) F(k, v, T)                                  (1)

with F(k, v, T) the dearest filling of a device of kind k (P. Gilmore, R. Gomory, Operations
Research 9, 1961, doi:10.1287/opre.9.6.849). The program whose groups can be divided says (1) with F
as if the last group of a filling could be cut; what (1) knows besides is that it cannot. That is
nothing where a device holds hundreds of groups, and some per cent where it holds five.

One sweep over the levels of a knapsack has F for all T at once (`knapsack.py`), so prices rule out
all T up to the last for which (1) holds                                             -> `_ruled_out`
The first prices are those of that program's devices, v(i) = min over k of p(k) w(i, k); then come
the duals of the program that covers the groups with the fillings so far             -> `_cover`
New fillings are those of the least T that is not ruled out. They are fillings of larger T, too, so
nothing begins anew when T rises, as it would by halving                             -> `_climb`

`patterns` says the same with memory, by halving; this is for problems where no memory binds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.knapsack import Knapsack, KnapsackTable
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.task_classes import ClassShares

# Levels of the knapsacks, where each group of a filling may be too small by one: of all rounds, and
# of one more with the prices that ruled out most.
_LEVELS, _FINE = 5_000, 50_000
# Rounds, where work lasts longer; and what is lost by rounding, as a part of all prices.
_ROUNDS, _EASE = 200, 1e-9
# Work of a round for each entry of the covering program, in entries of a knapsack's sweep.
_PROGRAM = 200
# Work for each second, about.
WORK_A_SECOND = 500_000_000

Filling = tuple[int, ...]


def whole_task_bound(
    instance: Instance,
    shares: ClassShares,
    most: float,
    work: float,
    is_late: Callable[[], bool] = lambda: False,
) -> float:
    """A lower bound of the busiest device's load that is at most `most`, s; 0 if too much work.

    Parameters
    ----------
    shares : of the instance, which is undivided and of one element; 0 is said of others.
    most : a value that is known.
    work : entries of knapsacks that may be gone through, `WORK_A_SECOND` of them a second.
    """
    whole = instance.problem.batch == 1 and len(instance) == len(instance.parts_of)
    if not whole or not 0 < shares.value < most < np.inf:
        return 0.0
    tasks = _WholeTasks.of(shares, most, _LEVELS)
    if tasks.round_work() > work:
        return 0.0
    prices = _climb(tasks, shares.value, work, is_late)
    fine = _WholeTasks.of(shares, most, _FINE)
    return min(most, _ruled_out(fine, fine.tables(prices), prices) * fine.level * (1 - _EASE))


@dataclass(frozen=True)
class _WholeTasks:
    """Classes that take time, n(i); kinds, m(k), with a knapsack each; first prices; a level, s."""

    counts: FloatArray
    devices: FloatArray
    sacks: tuple[Knapsack, ...]
    first: FloatArray
    level: float

    @classmethod
    def of(cls, shares: ClassShares, most: float, levels: int) -> _WholeTasks:
        # A class that takes nothing somewhere is no one's burden.
        kept = np.flatnonzero(shares.work.min(axis=1) > 0)
        counts = np.bincount(shares.class_of, minlength=len(shares.work))[kept]
        work = shares.work[kept]
        sacks = tuple(
            Knapsack.of(column.tolist(), counts.tolist(), most, levels) for column in work.T
        )
        finite = np.isfinite(work)
        priced = np.where(finite, shares.prices * np.where(finite, work, 0.0), np.inf)
        devices = np.array([len(kind) for kind in shares.kinds], dtype=np.float64)
        return cls(counts.astype(float), devices, sacks, priced.min(axis=1), most / levels)

    def round_work(self) -> float:
        """Entries of a sweep of all kinds."""
        bundles = float(np.ceil(np.log2(self.counts + 1)).sum())
        return bundles * sum(sack.levels for sack in self.sacks)

    def tables(self, prices: FloatArray) -> list[KnapsackTable]:
        """F of every kind, for all T."""
        return [sack.table(prices.tolist()) for sack in self.sacks]


def _climb(tasks: _WholeTasks, low: float, work: float, is_late: Callable[[], bool]) -> FloatArray:
    """Rounds of prices and fillings; the prices that ruled out most."""
    prices = best = tasks.first
    lowest = int(low / tasks.level)
    fillings: dict[tuple[int, Filling], None] = {}
    for _ in range(_ROUNDS):
        tables = tasks.tables(prices)
        reached = _ruled_out(tasks, tables, prices)
        raised = reached > lowest
        if raised:
            lowest, best = reached, prices
        found = {(k, table.filling(lowest)): None for k, table in enumerate(tables)}
        work -= tasks.round_work() + _PROGRAM * len(tasks.counts) * len(fillings)
        known = found.keys() <= fillings.keys()
        if (known and not raised) or work < 0 or is_late():
            break
        fillings |= found
        uncovered, prices = _cover(tasks, list(fillings))
        if uncovered <= _EASE * float(tasks.counts.sum()):
            break
    return best


def _ruled_out(tasks: _WholeTasks, tables: list[KnapsackTable], prices: FloatArray) -> int:
    """The least level at which (1) does not hold; loads below it are ruled out."""
    filled = tasks.devices @ np.array([table.values for table in tables])
    holds = np.flatnonzero(float(prices @ tasks.counts) * (1 - _EASE) > filled)
    return min(int(holds[-1]) + 1, len(filled) - 1) if len(holds) else 0


def _cover(tasks: _WholeTasks, fillings: list[tuple[int, Filling]]) -> tuple[float, FloatArray]:
    """How many groups (by their first prices) fillings leave uncovered, and the groups' prices."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    classes, kinds, columns = len(tasks.counts), len(tasks.devices), len(fillings)
    kind = np.array([k for k, _ in fillings])
    each = np.array([a for _, a in fillings], dtype=np.float64)
    i, j = np.nonzero(each.T)
    own = np.arange(classes)
    rows = np.concatenate([i, own, classes + kind])
    places = np.concatenate([j, columns + own, np.arange(columns)])
    values = np.concatenate([-each.T[i, j], -np.ones(classes), np.ones(columns)])
    unit = tasks.first / max(float(tasks.first.max()), 1e-300)
    unit = np.maximum(unit, 1e-3)
    result = linprog(
        np.concatenate([np.zeros(columns), unit]),
        A_ub=csr_array((values, (rows, places)), shape=(classes + kinds, columns + classes)),
        b_ub=np.concatenate([-tasks.counts, tasks.devices]),
        bounds=(0, None),
        method="highs",
    )
    if result.status != 0:
        return 0.0, tasks.first
    prices: FloatArray = np.maximum(0.0, -result.ineqlin.marginals[:classes])
    return float(result.fun), prices
