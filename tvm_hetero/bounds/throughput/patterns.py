"""Bounds for many alike devices with little memory: what one of them holds, and how many there are.

A device holds a *pattern*, a whole number of tasks of each kind; n_p devices hold pattern p
(P. Gilmore and R. Gomory, Operations Research 9, 1961, doi:10.1287/opre.9.6.849). Notation: kinds
k with N_k items of weight w_k (an item is a task, or all tasks of a color); device types t with
D_t devices of memory C_t, at most R_t in a node; a_pk items of kind k in pattern p.

Latency, one element; M used nodes, b the least of a unit flow, s and S the least copies between
devices and between nodes                                                        -> `_latency`

    minimise  sum_p (sum_k c_kt a_pk + b s) n_p  +  b (S - s) M  -  S
    subject to  sum_p a_pk n_p >= N_k,   sum over p of t: n_p <= D_t,
                sum over p of t: n_p <= R_t M,   M >= 1

Throughput, one element: T is refuted if the items do not fit into D_t patterns of each type within
memory C_t and load T                                            -> `_throughput`, `_refuted`

Patterns are priced by `knapsack.py`, `packing_patterns.py`; any multipliers prove a bound.

Derivation: docs/method/patterns.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tvm_hetero.bounds.throughput.knapsack import Knapsack
from tvm_hetero.bounds.throughput.packing_patterns import MaximalPatterns
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.item_types import (
    PatternInstance,
    least_copies,
    pattern_instance_of,
    unit_flow,
)

_ROUNDING = 1 - 1e-12
_LEVELS = 20_000
_ROUNDS = 60
_MOST_KINDS = 200
# Throughput: the bound is closed in on to this part of itself.
_CLOSE = 2e-4
_DOUBLINGS = 40

Pattern = tuple[int, tuple[int, ...]]


def pattern_bound(instance: Instance, late: Callable[[], bool] = lambda: False) -> float:
    """The bound of latency or throughput (s); 0 where it has nothing to say.

    It speaks for one element, and where some limit of memory binds. What has been
    refuted, or priced, by when it is `late` is the bound.
    """
    problem = instance.problem
    if problem.batch > 1 or not any(instance.memory_binds):
        return 0.0
    if problem.objective.kind == "latency":
        flow = unit_flow(instance)
        shop = pattern_instance_of(instance, flow)
        return _latency(instance, shop, min(flow), late) if len(shop.counts) <= _MOST_KINDS else 0.0
    if problem.objective.kind == "throughput":
        shop = pattern_instance_of(instance, [1.0] * len(instance))
        return _throughput(instance, shop, late) if len(shop.counts) <= _MOST_KINDS else 0.0
    return 0.0


def _latency(
    instance: Instance, shop: PatternInstance, least_flow: float, late: Callable[[], bool]
) -> float:
    nbytes = min((flow.nbytes for flow in instance.tensors), default=0)
    near, far = least_copies(instance, nbytes)
    step, jump = least_flow * near, least_flow * (far - near)
    sacks = [
        Knapsack.of(_sizes(shop, t), shop.counts, shop.memory[t], _LEVELS)
        for t in range(len(shop.devices))
    ]
    counts = np.array(shop.counts, dtype=float)
    master = _Master(shop, step, jump)
    best = 0.0
    for _ in range(_ROUNDS):
        prices, nodes = master.solve()
        bound = float(prices @ counts) - far
        found = False
        for t, sack in enumerate(sacks):
            cost = np.array(shop.costs[t])
            values = np.where(cost < math.inf, prices - np.where(cost < math.inf, cost, 0.0), 0.0)
            value, pattern = sack.best(values.tolist())
            reduced = step + float(nodes[t]) / shop.dense[t] - value * (1 + 1e-12)
            bound += shop.devices[t] * min(0.0, reduced)
            if reduced < -1e-9 * max(1e-12, value):
                found = master.add(t, pattern) or found
        bound += max(0.0, jump - float(nodes.sum()))
        best = max(best, bound)
        if not found or master.value - far <= best * (1 + 1e-5) or late():
            break
    return best * _ROUNDING


def _sizes(shop: PatternInstance, t: int) -> list[float]:
    """Bytes of every kind on a type; inf where it cannot run."""
    pairs = zip(shop.weights, shop.costs[t], strict=True)
    return [float(w) if cost < math.inf else math.inf for w, cost in pairs]


class _Master:
    """The program of `_latency` over the patterns so far."""

    def __init__(self, shop: PatternInstance, step: float, jump: float) -> None:
        self.shop, self.step, self.jump = shop, step, jump
        self.patterns: list[Pattern] = []
        self.value = math.inf
        dear = [max(c for c in column if c < math.inf) for column in zip(*shop.costs, strict=True)]
        # What no pattern covers yet costs more than anything.
        self.penalty = 10 * (sum(dear) + step + jump) + 1e-9
        for t in range(len(shop.devices)):
            for k, cost in enumerate(shop.costs[t]):
                if cost < math.inf and shop.weights[k] <= shop.memory[t]:
                    self.add(t, tuple(int(i == k) for i in range(len(shop.counts))))

    def add(self, t: int, pattern: tuple[int, ...]) -> bool:
        """Add a pattern; whether it is new."""
        if (t, pattern) in self.patterns:
            return False
        self.patterns.append((t, pattern))
        return True

    def solve(self) -> tuple[FloatArray, FloatArray]:
        """Multipliers of the kinds, and of the rows of nodes, all at least 0."""
        shop = self.shop
        kinds, types, columns = len(shop.counts), len(shop.devices), len(self.patterns)
        costs = [
            self.step + math.fsum(a * c for a, c in zip(pattern, shop.costs[t], strict=True) if a)
            for t, pattern in self.patterns
        ]
        objective = np.array([*costs, *[self.penalty] * kinds, self.jump])
        rows = np.zeros((kinds + 2 * types, columns + kinds + 1))
        for j, (t, pattern) in enumerate(self.patterns):
            rows[:kinds, j] = [-a for a in pattern]
            rows[kinds + t, j] = 1.0
            rows[kinds + types + t, j] = 1.0 / shop.dense[t]
        rows[:kinds, columns : columns + kinds] = -np.eye(kinds)
        rows[kinds + types :, -1] = -1.0
        right = np.array([*(-n for n in shop.counts), *shop.devices, *[0.0] * types])
        low = np.zeros(len(objective))
        low[-1] = 1.0
        self.value, marginals = _minimise(objective, rows, right, low)
        prices, nodes = marginals[:kinds], marginals[kinds + types :]
        # The sum of the nodes' multipliers must not exceed what a node costs.
        total = float(nodes.sum())
        return prices, nodes * (self.jump / total) if total > self.jump else nodes


def _minimise(
    objective: FloatArray, rows: FloatArray, right: FloatArray, low: FloatArray
) -> tuple[float, FloatArray]:
    """The value of min objective'x, rows x <= right, x >= low, and multipliers >= 0 of the rows."""
    from scipy.optimize import linprog

    bounds = np.column_stack([low, np.full(len(low), np.inf)])
    result = linprog(objective, A_ub=rows, b_ub=right, bounds=bounds, method="highs")
    if result.status != 0:
        return math.inf, np.zeros(len(right))
    multipliers: FloatArray = np.maximum(0.0, -result.ineqlin.marginals)
    return float(result.fun), multipliers


def _throughput(instance: Instance, shop: PatternInstance, late: Callable[[], bool]) -> float:
    """Close in on the largest load that can be refuted."""
    hop = _least_hop(instance)
    low, high = 0.0, _first_guess(shop)
    if high <= 0:
        return 0.0
    finest = high * _CLOSE
    for _ in range(_DOUBLINGS):
        if not _refuted(shop, high, hop, late):
            break
        low, high = high, 2 * high
    while high - low > max(finest, _CLOSE * high) and not late():
        middle = (low + high) / 2
        if _refuted(shop, middle, hop, late):
            low = middle
        else:
            high = middle
    # On one device alone, if all fits there, nothing needs a hop.
    total = sum(w * n for w, n in zip(shop.weights, shop.counts, strict=True))
    alone = [
        math.fsum(c * n for c, n in zip(shop.costs[t], shop.counts, strict=True))
        for t in range(len(shop.devices))
        if hop > 0 and total <= shop.memory[t]
    ]
    return min([low, *alone]) * _ROUNDING


def _least_hop(instance: Instance) -> float:
    """A hop that every used device has part in, if there are several; 0 if there need be none."""
    linked = {v for flow in instance.tensors for v in flow.readers}
    sources = [v for v in range(len(instance)) if v not in linked]
    if len(sources) != 1:
        return 0.0
    nbytes = min((flow.nbytes for flow in instance.tensors), default=0)
    return least_copies(instance, nbytes)[0]


def _first_guess(shop: PatternInstance) -> float:
    """All work at its least, spread over all devices, s."""
    least = [min(column) for column in zip(*shop.costs, strict=True)]
    total = math.fsum(c * n for c, n in zip(least, shop.counts, strict=True))
    return float(max(total / sum(shop.devices), *least))


def _refuted(shop: PatternInstance, load: float, hop: float, late: Callable[[], bool]) -> bool:
    """Whether no placement keeps all loads within `load` (proven)."""
    held = []
    for t in range(len(shop.devices)):
        room = load - hop if shop.alone[t] else load
        limits = shop.memory[t], room
        held.append(MaximalPatterns.of((_sizes(shop, t), shop.costs[t]), shop.counts, limits))
    counts = np.array(shop.counts, dtype=float)
    # A multiplier of a kind is at most what it takes at the least.
    unit = np.array([max(min(c), 1e-3 * load) for c in zip(*shop.costs, strict=True)])
    patterns: list[Pattern] = []
    for _ in range(_ROUNDS):
        if late():
            return False
        uncovered, prices = _cover(shop, patterns, unit)
        if uncovered <= 1e-9 * float(unit @ counts):
            return False
        worth, found = float(prices @ counts), False
        for t in range(len(shop.devices)):
            value, pattern = held[t].best(prices.tolist())
            worth -= shop.devices[t] * value * (1 + 1e-12)
            if (t, pattern) not in patterns:
                patterns.append((t, pattern))
                found = True
        if worth > 1e-9 * float(prices @ counts):
            return True
        if not found:
            return False
    return False


def _cover(
    shop: PatternInstance, patterns: Sequence[Pattern], unit: FloatArray
) -> tuple[float, FloatArray]:
    """What the patterns leave uncovered, at `unit` an item, and multipliers of the kinds."""
    if not patterns:
        return math.inf, unit
    kinds, types, columns = len(shop.counts), len(shop.devices), len(patterns)
    rows = np.zeros((kinds + types, columns + kinds))
    for j, (t, pattern) in enumerate(patterns):
        rows[:kinds, j] = [-a for a in pattern]
        rows[kinds + t, j] = 1.0
    rows[:kinds, columns:] = -np.eye(kinds)
    right = np.array([*(-n for n in shop.counts), *shop.devices], dtype=float)
    objective = np.concatenate([np.zeros(columns), unit])
    value, marginals = _minimise(objective, rows, right, np.zeros(len(objective)))
    return value, marginals[:kinds]
