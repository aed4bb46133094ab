"""Local search for a plan whose mean or worst value over samples of the costs is small.

The state is a `EncodedSchedule` (device of every part, sequence), a move puts one group on another
device or one item elsewhere in the sequence. Its value is the mean, or the mean of the largest
tenth, of what it is worth in all training samples, decoded one by one (`scorers`: in C++ but for
throughput). The one largest would be a poor guide, since it is much by chance: a plan
fitted to it may be worse than the plain plan on fresh samples (which `python -m benchmarks.robust`
values plans by). The mean of the tail
is the conditional value at risk (R. T. Rockafellar, S. Uryasev, Journal of Risk 2(3), 2000,
doi:10.21314/JOR.2000.038).

Late acceptance (E. K. Burke, Y. Bykov, EJOR 258(1), 2017, doi:10.1016/j.ejor.2016.07.012): a move
is taken if it is no worse than the present state, or than the state `_HISTORY` moves ago. Most
moves are refused, and most of these are refused early:

    worst   the samples that are worst for the present state come first; if the mean of as many as
            a tail has is too large, so is that of the tail
    mean    after `_PROBE` samples, if those alone make the mean too large with all others as they
            are for the present state (a guess: it may refuse what would have been taken)

What is taken must be valid for the problem itself (memory, latency limit, links, stages). The
search ends after a number of decodes, so it can be repeated; the deadline is a net.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.native.start import start_of
from tvm_hetero.solvers.search.encoding import EncodedSchedule, EncodingSpace
from tvm_hetero.solvers.search.scorers import scorer
from tvm_hetero.solvers.timing.decomposed_schedule import division_of
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance

Goal = Literal["mean", "worst"]
GOALS: tuple[Goal, ...] = ("mean", "worst")

# Of all values, the share whose mean stands for the worst.
TAIL = 0.1
_HISTORY = 300
_PROBE = 4
# Between two looks at the clock.
_MOVES = 256


@dataclass(frozen=True)
class RobustEffort:
    """Decodes that may be made, the moment (`now`) at which to stop, and the seed."""

    decodes: int
    deadline: float
    seed: int


def total(goal: Goal, values: Sequence[float]) -> float:
    """What a goal makes of the values in all samples: their mean, or that of the largest."""
    chosen = sorted(values)[-_tail(len(values)) :] if goal == "worst" else values
    return math.fsum(chosen) / len(chosen)


def _tail(count: int) -> int:
    return max(1, int(TAIL * count))


def decodes_in(problem: Problem, parts: int, seconds: float) -> int:
    """How many decodes surely fit into so many seconds: about a third of what ours can do."""
    each = (150 + 2 * parts) if problem.objective.kind == "throughput" else (10 + 0.2 * parts)
    return int(seconds * 1e6 / each)


def improve(
    problem: Problem,
    start: Schedule,
    training: Sequence[Problem],
    goal: Goal,
    effort: RobustEffort,
) -> Schedule:
    """A schedule of `problem` with a smaller mean or worst value over `training` than `start`.

    Parameters
    ----------
    start : a valid schedule of `problem`; its division of the batch is kept. It is given back
        where nothing better is found.
    training : the problem with other costs.
    """
    search = _RobustSearch(problem, start, training, goal)
    first = search.candidate(start)
    values = search.values(first)
    if not search.valid(first) or not all(value < math.inf for value in values):
        return start
    found = search.run(first, values, effort)
    if found is first:
        return start
    return search.judge.write(found, start.solver, effort.seed)


class _RobustSearch:
    """The scorers of all samples, and how many decodes they have made."""

    def __init__(
        self, problem: Problem, start: Schedule, training: Sequence[Problem], goal: Goal
    ) -> None:
        division = division_of(start)
        self.instance = Instance(problem, division)
        self.space = EncodingSpace(self.instance)
        self.judge = scorer(self.instance)
        self.scorers = [scorer(Instance(sample, division)) for sample in training]
        self.goal = goal
        self.decodes = 0

    def candidate(self, schedule: Schedule) -> EncodedSchedule:
        """Placement and sequence of a schedule."""
        placement, sequence = start_of(self.instance, schedule)
        items = tuple(item for item in sequence if item < self.space.items)
        return EncodedSchedule(tuple(placement), items)

    def valid(self, candidate: EncodedSchedule) -> bool:
        """Whether it is a schedule of the problem itself."""
        self.decodes += 1
        return self.judge.score(candidate)[0] <= 0

    def value(self, candidate: EncodedSchedule, number: int) -> float:
        """The value in one sample, whatever its limits."""
        self.decodes += 1
        return self.scorers[number].score(candidate)[1]

    def values(self, candidate: EncodedSchedule) -> list[float]:
        """The value in every sample."""
        return [self.value(candidate, number) for number in range(len(self.scorers))]

    def run(
        self, first: EncodedSchedule, values: list[float], effort: RobustEffort
    ) -> EncodedSchedule:
        """The best candidate that late acceptance meets."""
        rng = random.Random(effort.seed)
        state, best = first, first
        present = lowest = total(self.goal, values)
        history = [present] * _HISTORY
        compare = self.comparison(values)
        move = 0
        while self.decodes < effort.decodes:
            if move % _MOVES == 0 and now() > effort.deadline:
                break
            other = self.space.neighbour(state, rng)
            threshold = max(present, history[move % _HISTORY])
            # A move that changes nothing counts too: there may be no others.
            self.decodes += other == state
            found = None if other == state else compare(other, threshold)
            if found is not None and self.valid(other):
                state, present = other, total(self.goal, found)
                compare = self.comparison(found)
                if present < lowest:
                    best, lowest = state, present
            history[move % _HISTORY] = present
            move += 1
        return best

    def comparison(
        self, present: Sequence[float]
    ) -> Callable[[EncodedSchedule, float], list[float] | None]:
        """Tells the values of a candidate, or None if their total is above a threshold."""
        count = len(present)
        probe, scale = min(_PROBE, count), count
        order = list(range(count))
        if self.goal == "worst":
            probe = scale = _tail(count)
            order.sort(key=lambda s: (-present[s], s))
        # What the samples that are not probed add for the present state.
        rest = math.fsum(present[s] for s in order[probe:]) if self.goal == "mean" else 0.0

        def compare(candidate: EncodedSchedule, threshold: float) -> list[float] | None:
            found = [0.0] * count
            for s in order[:probe]:
                found[s] = self.value(candidate, s)
            if math.fsum(found) + rest > threshold * scale:
                return None
            for s in order[probe:]:
                found[s] = self.value(candidate, s)
            return found if total(self.goal, found) <= threshold else None

        return compare
