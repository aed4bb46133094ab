"""Simulated annealing of layouts whose links bind: the flow itself, and what layers lack.

Most moves leave the flow as it is or cut it to nothing, so the energy has two terms: how far the
flow is from a target F, and what layers lack of F in the mean (`cover_search`), which says where a
layout could become better before it is. The second is cheap to follow; where it grows by more than
the temperature forgives, no flow is computed. Flows are scipy's, of whole thousandths of a token.

Moves are those of `cover_search`, and exchanges of what two nodes hold: which of several nodes
that are alike but for their links holds what. Runs begin in turn with a layout of which the covers
alone reach the target, and with the best one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.planning.helix.cover_search import Covers, Intervals, MoveBudget, search_covers
from tvm_hetero.planning.helix.price_bound import useful_lengths
from tvm_hetero.planning.helix.problem import LayerFlowProblem, LayerInterval

# Of a run: the temperature at first, as a share of the target, and what a token that layers lack in
# the mean counts beside one of the flow. Which is better differs from problem to problem.
_TEMPERS = ((0.03, 5.0), (0.01, 1.0))
# By how much the temperature falls.
_COOLING = 0.02
# An energy that grows by so many temperatures is refused unseen.
_HOPELESS = 12.0
# Flows of the first run; each run is longer by this factor than the one before.
FLOWS_A_RUN = 60_000
_LONGER = 1.2
# Moves for the covers that a run begins with, and how near to its target they should come. A run
# from covers that lack something ended 5 % lower.
_COVER_MOVES = 500_000
_NEAR = 2e-4
# The target of a run lies this share of the way from the best value to the bound.
_SHARES = (0.65, 0.1, 0.3, 0.05, 1.0)
_SCALE = 1000
# What scipy's integers hold.
_MOST = 2**31 // 8

_Moves = list[tuple[int, LayerInterval]]


class FlowEvaluator:
    """The flow of layouts of one problem, quickly."""

    def __init__(self, problem: LayerFlowProblem) -> None:
        nodes = len(problem.nodes)
        self.problem = problem
        self.links = np.zeros((nodes, nodes), dtype=np.int64)
        for ends, capacity in problem.links.items():
            self.links[ends] = min(capacity * _SCALE, _MOST)
        self.entries = np.array([min(c * _SCALE, _MOST) for c in problem.entries], dtype=np.int64)
        self.exits = np.array([min(c * _SCALE, _MOST) for c in problem.exits], dtype=np.int64)

    def flow(self, held: Sequence[LayerInterval]) -> float:
        """Tokens a second, at most a thousandth for each node and link below what it is."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import maximum_flow

        first = np.array([each.first for each in held])
        end = first + np.array([each.length for each in held])
        capacities = np.zeros((2 + 2 * len(held), 2 + 2 * len(held)), dtype=np.int32)
        capacities[3::2, 2::2] = np.where(self._takes_over(first, end), self.links, 0)
        own = np.arange(2, 2 + 2 * len(held), 2)
        capacities[own, own + 1] = [
            min(node.rate(each) * _SCALE, _MOST)
            for node, each in zip(self.problem.nodes, held, strict=True)
        ]
        capacities[0, 2::2] = np.where(first == 0, self.entries, 0)
        capacities[3::2, 1] = np.where(end == self.problem.layers, self.exits, 0)
        return float(maximum_flow(csr_matrix(capacities), 0, 1).flow_value) / _SCALE

    def _takes_over(self, first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the node of a column may take over from the node of a row."""
        before, after = end[:, None], end[None, :]
        if not self.problem.partial:
            return np.equal(first[None, :], before)
        return np.logical_and(first[None, :] <= before, before < after)


def search_links(
    problem: LayerFlowProblem,
    bound: float,
    start: Intervals,
    gap: float,
    seed: int,
    budget: MoveBudget,
) -> tuple[float, Intervals]:
    """The best value and its intervals; the budget counts flows.

    Ends when the value is within a share `gap` of `bound`, or the budget is spent.
    """
    rng = random.Random(seed)
    evaluator = FlowEvaluator(problem)
    value, best = evaluator.flow(start), list(start)
    run, flows = 0, float(FLOWS_A_RUN)
    while value < bound * (1 - gap) and budget.moves > 0 and not budget.stop():
        target = value + _SHARES[run % len(_SHARES)] * (bound - value)
        from_best = run % 2 == 1
        covers = _covers(problem, target, value, best if from_best else None, rng, budget)
        found, reached = _anneal(evaluator, covers, _TEMPERS[run // 2 % 2], rng, int(flows), budget)
        if reached > value:
            value, best = reached, found
        run, flows = run + 1, flows * _LONGER
    return value, best


def _covers(
    problem: LayerFlowProblem,
    target: float,
    value: float,
    start: Intervals | None,
    rng: random.Random,
    budget: MoveBudget,
) -> Covers:
    """What a run begins with: a layout that is known, or one whose covers reach the target.

    Whatever passes more than `value` has lengths that are of use for it.
    """
    lengths = useful_lengths(problem, value) if value > 0 else []
    if not lengths or not all(lengths):
        lengths = [list(range(1, len(node.rates) + 1)) for node in problem.nodes]
    if start is not None:
        return Covers(problem, target, start, lengths)
    moves = MoveBudget(_COVER_MOVES, budget.stop)
    _, found = search_covers(problem, target * (1 + _NEAR), _NEAR, rng.randrange(2**31), moves)
    return Covers(problem, target, found, lengths)


def _anneal(
    evaluator: FlowEvaluator,
    covers: Covers,
    temper: tuple[float, float],
    rng: random.Random,
    flows: int,
    budget: MoveBudget,
) -> tuple[Intervals, float]:
    """The best layout on the way of one run, and its value."""
    hot, weight = temper
    target = covers.target
    value = evaluator.flow(covers.held)
    best, most = list(covers.held), value
    done = 0
    # A move that is refused unseen costs a tenth of a flow.
    while done < 10 * flows:
        temperature = target * hot * _COOLING ** (done / (10 * flows))
        done += 1
        moves = _draw(covers, rng)
        if not moves:
            continue
        lacks = covers.energy
        undo = [(node, covers.held[node]) for node, _ in moves]
        _make(covers, moves)
        change = weight * (covers.energy - lacks) / evaluator.problem.layers
        if change > _HOPELESS * temperature:
            _make(covers, undo)
            continue
        done += 9
        if not budget.spend(1):
            break
        flow = evaluator.flow(covers.held)
        change += min(value, target) - min(flow, target)
        if flow > most or change <= 0 or rng.random() < math.exp(-change / temperature):
            value = flow
        else:
            _make(covers, undo)
        if flow > most:
            best, most = list(covers.held), flow
    return best, most


def _draw(covers: Covers, rng: random.Random) -> _Moves:
    """An exchange, or another interval for one node; empty where that would not fit."""
    one = rng.randrange(len(covers.held))
    if rng.random() < 0.5:
        interval = covers.draw(one, rng)
        return [(one, interval)] if interval is not None else []
    other = rng.randrange(len(covers.held))
    mine, its = covers.held[one], covers.held[other]
    if mine == its or its.length > covers.most(one) or mine.length > covers.most(other):
        return []
    return [(one, its), (other, mine)]


def _make(covers: Covers, moves: _Moves) -> None:
    for node, interval in moves:
        covers.move(node, interval, covers.change(node, interval))
