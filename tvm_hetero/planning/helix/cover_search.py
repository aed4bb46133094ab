"""Simulated annealing of layouts whose links are wide: every layer held by nodes that pass F.

With partial inference and links that never bind, a layout's throughput is

    min over layers of  sum of T(i, k) over the nodes that hold the layer.

(Write a layout as a network over the boundaries 0 ... L between layers: node i is an arc from s to
e of capacity T(i, k), and that tokens may enter at any boundary inside is an arc of no limit from
each boundary to the one before it. Cuts of finite capacity are then {0 ... l}, one for each layer.)

So for a wanted throughput F the energy is what layers lack,

    E = sum over layers of max(0, F - sum of T(i, k) over the nodes that hold it),

and a layout with E = 0 passes F. Moves give one node another interval: shifted by a layer, longer
or shorter at either end, anywhere, or over the layer that lacks most; with such numbers of layers
only as are of use for F (`price_bound.useful_lengths`). Near the bound these are few, so that the
boldest targets may be the easiest; all of `_SHARES` are tried in turn, each from a random layout.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tvm_hetero.planning.helix.price_bound import useful_lengths
from tvm_hetero.planning.helix.problem import LayerFlowProblem, LayerInterval

# The temperature falls from this share of the target to that one.
_HOT, _COLD = 0.3, 0.001
# Moves of the first run, and how much longer runs are after each turn.
_FIRST_RUN = 50_000
_LONGER = 1.5
# Targets, as shares of the way from the best value to the bound.
_SHARES = (1.0, 0.5, 0.25, 0.1, 0.02)
_LOOK_EVERY = 512
# How near to nothing rounding leaves an energy, as a share of the target.
_ROUNDING = 1e-9

Intervals = list[LayerInterval]


def least_cover(problem: LayerFlowProblem, layout: Sequence[LayerInterval | None]) -> float:
    """What the nodes that hold a layer pass together, for the layer where that is least."""
    return min(_cover(problem, layout))


def _cover(problem: LayerFlowProblem, layout: Sequence[LayerInterval | None]) -> list[float]:
    cover = [0.0] * problem.layers
    for node, held in zip(problem.nodes, layout, strict=True):
        if held is not None:
            for layer in range(held.first, held.end):
                cover[layer] += node.rate(held)
    return cover


@dataclass
class MoveBudget:
    """Moves that are left, and whether the clock or somebody else says to stop."""

    moves: int
    stop: Callable[[], bool]

    def spend(self, moves: int) -> bool:
        """Take so many; whether there were any and nobody said to stop."""
        self.moves -= moves
        return self.moves >= 0 and not self.stop()


def search_covers(
    problem: LayerFlowProblem, bound: float, gap: float, seed: int, budget: MoveBudget
) -> tuple[float, Intervals]:
    """The best value (by `least_cover`) and its intervals.

    Ends when the value is within a share `gap` of `bound`, or the budget is spent.
    """
    rng = random.Random(seed)
    best = _spread(problem)
    value = least_cover(problem, best)
    run, moves = 0, float(_FIRST_RUN)
    while value < bound * (1 - gap) and budget.moves > 0 and not budget.stop():
        share = _SHARES[run % len(_SHARES)]
        target = min(bound * (1 - _ROUNDING), value + share * (bound - value))
        lengths = useful_lengths(problem, target)
        if not all(lengths):
            budget.spend(_LOOK_EVERY)
        else:
            covers = Covers(problem, target, draw_layout(problem, lengths, rng), lengths)
            found = covers.anneal(rng, int(moves), budget)
            reached = least_cover(problem, found)
            if reached > value:
                value, best = reached, found
        run += 1
        if run % len(_SHARES) == 0:
            moves *= _LONGER
    return value, best


def _spread(problem: LayerFlowProblem) -> Intervals:
    """Nodes with as many layers as fit, one behind the other, again from 0 at the end."""
    found = []
    first = 0
    for node in problem.nodes:
        count = min(len(node.rates), problem.layers - first)
        found.append(LayerInterval(first, count))
        first = (first + count) % problem.layers
    return found


def draw_layout(
    problem: LayerFlowProblem, lengths: Sequence[Sequence[int]], rng: random.Random
) -> Intervals:
    """Any interval of one of its lengths for each node."""
    return [_random_interval(each, problem.layers, rng) for each in lengths]


def _random_interval(lengths: Sequence[int], layers: int, rng: random.Random) -> LayerInterval:
    length = rng.choice(lengths)
    return LayerInterval(rng.randint(0, layers - length), length)


class Covers:
    """A layout under annealing: intervals, what covers each layer, and the energy.

    `lengths` are the numbers of layers that each node may get.
    """

    def __init__(
        self,
        problem: LayerFlowProblem,
        target: float,
        start: Intervals,
        lengths: Sequence[Sequence[int]],
    ) -> None:
        self.lengths = lengths
        self.nodes = problem.nodes
        self.layers = problem.layers
        self.target = target
        self.held = list(start)
        self.cover = _cover(problem, start)
        self.energy = sum(max(0.0, target - cover) for cover in self.cover)

    def anneal(self, rng: random.Random, moves: int, budget: MoveBudget) -> Intervals:
        """The intervals with the least energy that so many moves meet."""
        best, least = list(self.held), self.energy
        enough = self.target * _ROUNDING
        temperature = _HOT * self.target
        for done in range(moves):
            if done % _LOOK_EVERY == 0:
                if least <= enough or not budget.spend(_LOOK_EVERY):
                    break
                temperature = self.target * _HOT * (_COLD / _HOT) ** (done / moves)
            at = rng.randrange(len(self.held))
            interval = self.draw(at, rng)
            if interval is None:
                continue
            change = self.change(at, interval)
            if change <= 0 or rng.random() < math.exp(-change / temperature):
                self.move(at, interval, change)
                if self.energy < least - enough:
                    best, least = list(self.held), self.energy
        return best

    def most(self, at: int) -> int:
        """How many layers fit into a node."""
        return len(self.nodes[at].rates)

    def draw(self, at: int, rng: random.Random) -> LayerInterval | None:
        """Another interval for a node; None where it would not fit."""
        first, length = self.held[at]
        lengths = self.lengths[at]
        move = rng.randrange(4)
        if move == 0:
            first += rng.choice((-1, 1))
        elif move == 1:
            other = bisect_left(lengths, length) + rng.choice((-1, 1))
            if not 0 <= other < len(lengths):
                return None
            first -= (lengths[other] - length) * rng.randrange(2)
            length = lengths[other]
        elif move == 2:
            return _random_interval(lengths, self.layers, rng)
        else:
            length = rng.choice(lengths)
            weakest = min(range(self.layers), key=self.cover.__getitem__)
            first = weakest - rng.randrange(length)
        fits = 0 <= first <= self.layers - length
        return LayerInterval(first, length) if fits else None

    def change(self, at: int, after: LayerInterval) -> float:
        """By how much the energy grows if a node gets another interval."""
        before, rates = self.held[at], self.nodes[at].rates
        lost, gained = rates[before.length - 1], rates[after.length - 1]
        cover, target = self.cover, self.target
        change = 0.0
        for layer in _either(before, after):
            now = cover[layer]
            then = now
            if before.first <= layer < before.first + before.length:
                then -= lost
            if after.first <= layer < after.first + after.length:
                then += gained
            if now < target:
                change -= target - now
            if then < target:
                change += target - then
        return change

    def move(self, at: int, after: LayerInterval, change: float) -> None:
        """Give a node another interval, by which the energy grows so much."""
        before, rates = self.held[at], self.nodes[at].rates
        for layer in range(before.first, before.first + before.length):
            self.cover[layer] -= rates[before.length - 1]
        for layer in range(after.first, after.first + after.length):
            self.cover[layer] += rates[after.length - 1]
        self.held[at] = after
        self.energy += change


def _either(one: LayerInterval, other: LayerInterval) -> Iterator[int]:
    """Layers that are in one of two intervals, each once (and maybe some between them)."""
    if one.end <= other.first or other.end <= one.first:
        yield from range(one.first, one.end)
        yield from range(other.first, other.end)
    else:
        yield from range(min(one.first, other.first), max(one.end, other.end))
