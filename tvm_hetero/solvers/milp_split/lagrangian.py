"""Throughput by modules: prices of loads, and labels that prove how small the largest can be.

Notation: a chain takes one column of every module, their ends meeting
(`bounds.throughput.module_columns`), loads resource r for load(r) and holds bytes(d) on device d.
Wanted is the least T of all chains with

    load(r)  <=  T           for every resource r                                     (1)
    bytes(d) <=  memory(d)   for every device d that can be full

*Prices.* For w(r) >= 0 of sum 1 and x(d) >= 0 every such chain has

    T  >=  min over chains of  sum of w(r) load(r) + x(d) bytes(d)  -  sum of x(d) memory(d)

(the bound of G. Dantzig and P. Wolfe, Operations Research 8, 1960, doi:10.1287/opre.8.1.101).
All modules of a kind are priced at once, for all ends; the best prices are found by cutting
planes, each the chain that the last prices favour                           -> `best_weights`

*Labels.* This bound lets chains be mixed: a third of the one that stays on one device, a third of
that on another. What a mixture does not pay are the copies from device to device. So with a
target t chains are gone through from the first module to the last by labels (device of the cut,
load of every resource), and dropped where a load exceeds t, or where w says that the mean load
will. If none is left, no plan is below t; labels that are too many are merged into one that has
the least of each load, so that the proof stays one. Without merging the last labels are plans
that keep (1) with T = t                                                            -> `probe`

Labels and narrowing are those of `bounds.memory.prices_and_labels`: with w load as the time, loads
as bytes, t as the memory. The gaps that are left: `python -m benchmarks.schedule --suite
throughput`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.module_choices import Choices
from tvm_hetero.bounds.core.time_is_up import Late, never
from tvm_hetero.bounds.memory.prices import Box, Walk
from tvm_hetero.bounds.throughput.module_columns import ColumnChain
from tvm_hetero.solvers.milp_split.labels import LabelSearch, LabelStep
from tvm_hetero.views.array_types import FloatArray

# A load is a sum of some thousand floats, in whichever order; their rounding is less than this.
ROUNDING = 1 - 1e-11
# A target in units: loads are rounded down to whole ones, whose sums are exact, so that two orders
# of the same columns give one label. Of 1,000 modules that loses 1e-9.
_UNITS = 1e12
# Steps of the cutting planes, and how near to their value a bound is good enough.
_PLANES, _CLOSE = 60, 1e-5
_MOST_PRICE = 64.0


@dataclass(frozen=True)
class Multipliers:
    """Prices of loads (sum 1) and of bytes (s per byte), their bound (s), and the work."""

    loads: FloatArray
    bytes: FloatArray
    bound: float
    work: int


@dataclass(frozen=True)
class Probe:
    """What was found out about plans below a target.

    Attributes
    ----------
    bound : of all plans (s): the target, where it is proven that there is none.
    plans : that keep (1), or nearly: labels round loads down.
    work : see `labels`.
    """

    bound: float
    plans: list[list[int]]
    work: int


def best_weights(chain: ColumnChain, rounds: int = _PLANES, late: Late = never) -> Multipliers:
    """The prices of the best Dantzig-Wolfe bound, by cutting planes, until it is `late`.

    The bound is inf if some module has no column.
    """
    from scipy.optimize import linprog

    if not all(len(table) for table in chain.tables):
        return Multipliers(np.zeros(0), np.zeros(0), float("inf"), 0)
    count, limited = chain.tables[0].load.shape[1], len(chain.capacity)
    unit = np.append(np.ones(count), 1.0 / np.maximum(chain.capacity, 1.0))
    room = np.append(np.zeros(count), np.ones(limited))
    tables = {
        id(t): Choices(
            len(chain.instance.names),
            t.code,
            np.zeros(len(t)),
            np.column_stack([t.load, t.held]) * unit,
            np.zeros((len(t), count + limited)),
            t.places,
        )
        for t in chain.distinct
    }
    rows_of_all = sum(len(table) for table in tables.values())
    none = np.zeros(count + limited)
    box = Box([tables[id(t)] for t in chain.tables], none, none, room, none)
    scale = sum(float(t.load.max(initial=0.0)) for t in chain.tables) or 1.0
    prices = np.append(np.full(count, 1.0 / count), np.zeros(limited))
    best, best_at, planes, work = -np.inf, prices, [], 0
    for _ in range(rounds):
        walk = Walk(box, prices)
        work += 15_000 + rows_of_all // 10
        if walk.bound > best:
            best, best_at = walk.bound, prices
        if not np.isfinite(walk.bound) or late():
            break
        rows = walk.rows()
        taken = np.sum([t.held[r] for t, r in zip(box.tables, rows, strict=True)], axis=0)
        planes.append((taken - room * 1.0) / np.append(np.full(count, scale), np.ones(limited)))
        result = linprog(
            np.append(np.zeros(count + limited), -1.0),
            A_ub=np.column_stack([-np.array(planes), np.ones(len(planes))]),
            b_ub=np.zeros(len(planes)),
            A_eq=[[1.0] * count + [0.0] * (limited + 1)],
            b_eq=[1.0],
            bounds=[(0.0, 1.0)] * count + [(0.0, _MOST_PRICE)] * limited + [(None, None)],
            method="highs",
        )
        if result.status != 0 or -result.fun * scale <= best + _CLOSE * abs(best):
            break
        own = np.maximum(0.0, result.x[:-1])
        prices = np.append(own[:count] / own[:count].sum(), own[count:] * scale)
    bound = max(0.0, best) * ROUNDING
    return Multipliers(best_at[:count], best_at[count:] * unit[count:], bound, work)


def probe(
    chain: ColumnChain,
    weights: Multipliers,
    target: float,
    width: int,
    most: int,
    until: float = math.inf,
) -> Probe:
    """What is known of plans whose largest load is at most `target` (s).

    Parameters
    ----------
    width : labels at one cut and device.
    most : work that may be spent.
    until : when the clock ends it all (of `now`).
    """
    unit, count = _UNITS / target, len(chain.instance.names)
    steps = {
        id(t): LabelStep(
            t.code // count,
            t.code % count,
            np.column_stack([np.floor(t.load * unit), t.held]),
        )
        for t in chain.distinct
    }
    room = np.append(np.full(len(weights.loads), _UNITS), chain.capacity)
    price = np.append(weights.loads, weights.bytes * unit)
    search = LabelSearch([steps[id(t)] for t in chain.tables], count, room, price)
    search.until = until
    answer = search.run(width, most)
    plans = [chain.placement(way) for way in answer.ways]
    worth = answer.least - float(weights.bytes @ chain.capacity) * unit
    return Probe(max(0.0, min(worth / unit, target) * ROUNDING), plans, answer.work)
