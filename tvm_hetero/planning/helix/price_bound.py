"""An upper bound on the throughput of every layout, from prices of nodes.

Let every node of kind t have a price u(t) >= 0. A node that holds k layers spreads its price over
them, u / k on each; so the nodes that hold a layer cost, in the mean over the L layers, at most

    c = (sum over nodes of u) / L,

and some layer is held by nodes that cost at most c together. All tokens pass this layer, on nodes
that hold it, whatever the links are and whether or not inference is partial. Hence the throughput
is at most

    max  sum over nodes of T(t, k)   where   sum over them of u(t) / k <= c,

a knapsack (`_richest`). Every choice of prices gives a bound. Good prices are found by bisection on
the throughput F: it is out of reach if there are prices with which whatever passes F tokens costs
at least 1 while c < 1. The least c is a linear program over sets of (t, k) that pass F, which are
generated as they are needed: the cheapest of them is a knapsack, too (`_cheapest`).

With F -> 0 it says that all nodes together have to hold L layers.

The same prices say which numbers of layers are of use where F is to be reached (`useful_lengths`).
All layers together cost L c, each at least 1. If whatever passes F and has node t with k layers in
it costs at least 1 + d, then its k layers cost k d more than they must, and k d <= L (c - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.planning.helix.problem import LayerFlowProblem

# Steps of the throughput in the knapsack that generates sets. Rates are rounded up to them, which
# makes prices too careful by that much at most; the bound itself is computed from exact rates.
_STEPS = 1024
# The bisection ends at this share of the throughput.
_NEAR = 1e-3
# Sets that one linear program takes, and sets that a knapsack looks at before it gives in.
_MOST_SETS = 400
_MOST_NODES = 200_000
# Nodes of different kinds with different numbers of layers, above which all lengths are of use.
_MOST_ITEMS = 1_000
_ROUNDING = 1e-9


@dataclass(frozen=True)
class _Item:
    """A node of a kind with k layers."""

    kind: int
    layers: int
    rate: float


def price_bound(problem: LayerFlowProblem, stop: Callable[[], bool] = lambda: False) -> float:
    """Tokens a second that no layout surpasses; 0 if the layers do not fit.

    When `stop` says so, the bound is the one that is known by then.
    """
    kinds = problem.kinds()
    counts = np.array([len(members) for members in kinds.values()], dtype=float)
    items = _items(problem)
    if sum(len(node.rates) for node in problem.nodes) < problem.layers:
        return 0.0
    low = 0.0
    high = _every_layer_alike(problem)
    while high - low > _NEAR * high and not stop():
        middle = (low + high) / 2
        prices = _prices(middle, items, counts, stop)
        mean = float(counts @ prices) / problem.layers
        if mean < 1 - _ROUNDING:
            # What passes more costs more than the mean: the knapsack says where that begins.
            high = max(low, min(middle, _richest(items, prices, mean, middle)))
        else:
            low = middle
    return high


def _items(problem: LayerFlowProblem) -> list[_Item]:
    return [
        _Item(kind, k, rate)
        for kind, rates in enumerate(problem.kinds())
        for k, rate in enumerate(rates, start=1)
    ]


def useful_lengths(problem: LayerFlowProblem, flow: float) -> list[list[int]]:
    """For each node the numbers of layers of which some layout that passes `flow` has one.

    None at all where no layout does. Where a node could as well hold more layers, fewer are not
    told.
    """
    kinds = problem.kinds()
    counts = np.array([len(members) for members in kinds.values()], dtype=float)
    useful = _undominated(_items(problem), flow)
    if len(useful) > _MOST_ITEMS:
        return [list(range(1, len(node.rates) + 1)) for node in problem.nodes]
    prices = _prices(flow, useful, counts)
    spare = float(counts @ prices) - problem.layers
    best, _ = _cheapest_covers(useful, prices, flow)
    lengths: list[list[int]] = [[] for _ in kinds]
    for item, steps in zip(useful, _steps(useful, flow), strict=True):
        cost = prices[item.kind] / item.layers + best[_STEPS - steps]
        if (cost - 1) * item.layers <= spare + _ROUNDING * problem.layers:
            lengths[item.kind].append(item.layers)
    of_kind = dict(zip(kinds, lengths, strict=True))
    return [of_kind[node.rates] for node in problem.nodes]


def _every_layer_alike(problem: LayerFlowProblem) -> float:
    """The bound with each node at the number of layers at which it does the most work."""
    work = (max(k * rate for k, rate in enumerate(node.rates, 1)) for node in problem.nodes)
    return math.fsum(work) / problem.layers


def _prices(
    flow: float,
    items: Sequence[_Item],
    counts: NDArray[np.float64],
    stop: Callable[[], bool] = lambda: False,
) -> NDArray[np.float64]:
    """Prices with which every set that passes `flow` costs at least 1, of the least sum.

    They are such prices, if not of the least sum, when `stop` ends it.
    """
    from scipy.optimize import linprog

    useful = _undominated(items, flow)
    sets: list[NDArray[np.float64]] = []
    prices = np.zeros(len(counts))
    while True:
        cost, chosen = _cheapest(useful, prices, flow)
        if cost >= 1 - 1e-7 or len(sets) == _MOST_SETS or (stop() and cost > 0):
            break
        row = np.zeros(len(counts))
        for item in chosen:
            row[item.kind] += 1 / item.layers
        sets.append(row)
        found = linprog(counts, A_ub=-np.array(sets), b_ub=-np.ones(len(sets)), method="highs")
        prices = np.maximum(found.x, 0.0)
    # Whatever passes `flow` costs at least `cost` now, however far from the least sum it is.
    return prices / cost if cost > 0 else prices + math.inf


def _undominated(items: Sequence[_Item], flow: float) -> list[_Item]:
    """Items without those of which the same kind passes as much with more layers."""
    found: list[_Item] = []
    # Items of a kind stand together, by rising numbers of layers.
    kind, most = -1, 0.0
    for item in reversed(items):
        if item.kind != kind:
            kind, most = item.kind, 0.0
        if min(item.rate, flow) > most:
            found.append(item)
            most = min(item.rate, flow)
    return found[::-1]


def _steps(items: Sequence[_Item], flow: float) -> NDArray[np.int64]:
    """What items pass, in steps of which `flow` has `_STEPS`, rounded up."""
    rates = np.array([item.rate for item in items])
    return np.minimum(_STEPS, np.ceil(rates * (_STEPS / flow))).astype(np.int64)


def _cheapest_covers(
    items: Sequence[_Item], prices: NDArray[np.float64], flow: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For each number of steps the least that items cost which pass it, and one of the items."""
    steps = _steps(items, flow)
    costs = np.array([prices[item.kind] / item.layers for item in items])
    best = np.zeros(_STEPS + 1)
    taken = np.zeros(_STEPS + 1, dtype=np.int64)
    for want in range(1, _STEPS + 1):
        sums = best[np.maximum(0, want - steps)] + costs
        taken[want] = sums.argmin()
        best[want] = sums[taken[want]]
    return best, taken


def _cheapest(
    items: Sequence[_Item], prices: NDArray[np.float64], flow: float
) -> tuple[float, list[_Item]]:
    """The cheapest items that pass `flow`: cost and items."""
    best, taken = _cheapest_covers(items, prices, flow)
    steps = _steps(items, flow)
    chosen = []
    want = _STEPS
    while want > 0:
        chosen.append(items[taken[want]])
        want -= int(steps[taken[want]])
    return float(best[_STEPS]), chosen


def _richest(
    items: Sequence[_Item], prices: NDArray[np.float64], limit: float, known: float
) -> float:
    """What items that cost at most `limit` pass at most; at worst `known`, which is a bound.

    Depth first, by falling rate a cost, each item as often as it fits, with the fractional
    knapsack as the bound.
    """
    limit += _ROUNDING
    costs = [(float(prices[item.kind]) / item.layers, item.rate) for item in items]
    if any(cost == 0 for cost, _ in costs):
        return known
    costs.sort(key=lambda pair: (-pair[1] / pair[0], pair))
    best = 0.0
    looked = 0
    stack = [(0, limit, 0.0)]
    while stack:
        looked += 1
        if looked > _MOST_NODES:
            return known
        at, room, passed = stack.pop()
        best = max(best, passed)
        if best >= known:
            return known
        if at == len(costs) or passed + room * costs[at][1] / costs[at][0] <= best:
            continue
        cost, rate = costs[at]
        stack += [(at + 1, room - n * cost, passed + n * rate) for n in range(int(room / cost) + 1)]
    return best * (1 + _ROUNDING)
