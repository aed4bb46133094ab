"""The 0/1 knapsack with real numbers: gains and weights, what fits a budget.

    maximise   sum of gain[i] x[i]      so that   sum of weight[i] x[i] <= budget,   x[i] in {0, 1}

Branch and bound, depth first, items by falling gain for weight. The bound of a node is Dantzig's
(doi:10.1287/opre.5.2.266): what is left of the budget is filled in that order, the last item in
part. It is the linear relaxation, so no choice below the node gains more. After `_NODES` nodes the
search ends with the best choice so far, and the bound of the root stands; for some hundred items
that is rare, and then the two are close, since the relaxation is off by one item at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_NODES = 200_000


@dataclass(frozen=True)
class Filling:
    """What was chosen.

    Attributes
    ----------
    chosen : positions of the items, rising.
    gain : of all of them.
    bound : no choice gains more; `gain` itself where that is proven to be the most.
    """

    chosen: tuple[int, ...]
    gain: float
    bound: float


def fill_knapsack(gains: Sequence[float], weights: Sequence[float], budget: float) -> Filling:
    """Choose the items that gain the most within a budget.

    Parameters
    ----------
    gains, weights
        Of each item: above 0, and not below it. One that is infinite fits an infinite budget alone.
    budget
        What all chosen weights may sum up to.
    """
    fitting = [i for i in range(len(gains)) if weights[i] <= budget]
    order = sorted(fitting, key=lambda i: (-_density(gains[i], weights[i]), i))
    search = _BranchAndBound([gains[i] for i in order], [weights[i] for i in order], budget)
    proven = search.run()
    chosen = tuple(sorted(order[place] for place in search.best))
    gain = math.fsum(gains[i] for i in chosen)
    return Filling(chosen, gain, gain if proven else max(gain, search.bound(0, 0.0, 0.0)))


def _density(gain: float, weight: float) -> float:
    return gain / weight if weight > 0 else math.inf


class _BranchAndBound:
    """Branch and bound over items that stand in their order."""

    def __init__(self, gains: Sequence[float], weights: Sequence[float], budget: float) -> None:
        self.gains, self.weights, self.budget = gains, weights, budget
        self.best: tuple[int, ...] = ()
        self._gain = 0.0

    def run(self) -> bool:
        """Find the best choice; whether it is proven to be that."""
        # Item, weight and gain so far, and what was taken: a chain, as nodes share beginnings.
        open_nodes: list[tuple[int, float, float, tuple[int, ...]]] = [(0, 0.0, 0.0, ())]
        for _ in range(_NODES):
            if not open_nodes:
                return True
            at, weight, gain, taken = open_nodes.pop()
            if gain > self._gain:
                self.best, self._gain = taken, gain
            if at == len(self.gains) or self.bound(at, weight, gain) <= self._gain:
                continue
            open_nodes.append((at + 1, weight, gain, taken))
            if weight + self.weights[at] <= self.budget:
                more = (at + 1, weight + self.weights[at], gain + self.gains[at], (*taken, at))
                open_nodes.append(more)
        return not open_nodes

    def bound(self, at: int, weight: float, gain: float) -> float:
        """What a node's choices gain at most."""
        for place in range(at, len(self.gains)):
            if weight + self.weights[place] > self.budget:
                share = (self.budget - weight) / self.weights[place]
                return gain + share * self.gains[place]
            weight += self.weights[place]
            gain += self.gains[place]
        return gain
