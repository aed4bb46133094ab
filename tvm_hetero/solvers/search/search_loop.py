"""What random walk, hill climbing and the genetic algorithm share: start, budget, best so far.

Work is counted in looks at candidates. How many a search may take follows from the time limit and
the size of the problem, so that a run can be repeated; the clock is only a net.
"""

from __future__ import annotations

import random

from tvm_hetero.errors import HeteroError, InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists import best_single, greedy, heft
from tvm_hetero.solvers.search.encoding import EncodedSchedule, EncodingSpace
from tvm_hetero.solvers.search.scorers import Score, scorer
from tvm_hetero.views.instance import instance_of

# Seconds that a look takes: at least, and for every part, tensor and reader of the problem. About
# twice what was measured on one core of a busy machine.
_LOOK = 60e-6
_LOOK_AT_TIMES = 0.25e-6
_LOOK_AT_LOADS = 2e-6


class Search:
    """A search in progress.

    Attributes
    ----------
    space, rng : where to look, and the only source of chance.
    looks : candidates that may still be looked at; below 0 when the clock cut in.
    best, best_score : the best so far; None before the first look.
    """

    def __init__(self, problem: Problem, options: Options, name: str) -> None:
        self._deadline = options.until(options.clock())
        self.problem, self.options, self.name = problem, options, name
        self.instance = instance_of(problem)
        self.space = EncodingSpace(self.instance)
        self.rng = random.Random(options.seed)
        self._scorer = scorer(self.instance)
        self.looks = self._affordable(options.time_limit)
        self.best: EncodedSchedule | None = None
        self.best_score: Score | None = None

    def _affordable(self, seconds: float) -> int:
        loads = self.problem.objective.kind == "throughput"
        edges = sum(1 + len(flow.readers) for flow in self.instance.tensors)
        size = len(self.instance) + edges
        return max(2, int(seconds / (_LOOK + size * (_LOOK_AT_LOADS if loads else _LOOK_AT_TIMES))))

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self.looks <= 0

    def score(self, candidate: EncodedSchedule) -> Score:
        """Look at a candidate."""
        self.looks -= 1
        found = self._scorer.score(candidate)
        if self.best_score is None or found < self.best_score:
            self.best, self.best_score = candidate, found
        if self.options.clock() > self._deadline:
            self.looks = -1
        return found

    def draw(self) -> EncodedSchedule:
        """A random candidate."""
        placement = self.space.draw_placement(self.rng)
        return EncodedSchedule(placement, self.space.draw_sequence(self.rng))

    def start(self) -> tuple[EncodedSchedule, Score]:
        """The best of what is given, HEFT, the best single device and greedy; else a random one."""
        found = []
        for schedule in self._starts():
            candidate = self.space.of_schedule(schedule)
            if candidate is not None:
                found.append((self.score(candidate), candidate))
        if not found:
            candidate = self.draw()
            found.append((self.score(candidate), candidate))
        score, candidate = min(found, key=lambda pair: pair[0])
        return candidate, score

    def _starts(self) -> list[Schedule]:
        if self.options.start is not None:
            return [self.options.start]
        found = []
        for solve in (heft.solve, best_single.solve, greedy.solve):
            try:
                found.append(solve(self.problem, self.options))
            except HeteroError:
                continue
        return found

    def answer(self) -> Schedule:
        """The best schedule that was found.

        Raises
        ------
        InfeasibleError
            If none keeps all limits.
        """
        if self.best is None or self.best_score is None or self.best_score[0] > 0:
            raise InfeasibleError(
                f"{self.name} found no schedule that keeps memory, latency limit and links; "
                "raise the time limit"
            )
        return self._scorer.write(self.best, self.name, self.options.seed)
