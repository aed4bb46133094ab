"""One module between two devices: what is known about it, and how to learn more.

An *entry* is M(i, j): the least time from the end of the module's first part on device i to the
end of its last on j (see `solver`). What is known is a solution and a proven bound. Learning more
is done in levels, each dearer than the one before                            ->
`BoundEntry.improve`:

    0   a list schedule (HEFT), then annealing with few evaluations, whatever is known already
    1   CP-SAT from there with little work: it closes almost every module of up to 30 parts; in
        another call again only with more work
    2.. CP-SAT with ever more work, by turns for the bound (with linear programs) and for the
        value; before it, where the module is large, annealing and neighbourhood search

What a level may spend follows from the budget, never from the clock or from which thread was
first, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.problem.schedule import OPTIMAL_GAP
from tvm_hetero.solvers.core.cpsat_run import LEAST_CALL, CpsatBudget, work_of_call
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.cpsat.large_neighbourhood import improve_by_windows
from tvm_hetero.solvers.lists.partial_schedule import Solution, list_schedule
from tvm_hetero.solvers.milp_split.module_cpsat import search
from tvm_hetero.solvers.milp_split.width_model import helps_by_width, search_widths
from tvm_hetero.solvers.search.anneal_step import STEPS, anneal_solution
from tvm_hetero.views.modularity import Piece

# A module's own gap has to be smaller than that of the whole.
CLOSED = 0.1 * OPTIMAL_GAP
# Deterministic work that levels 1, 2, ... ask for, as a part of that of the whole call.
_SHARES = (0.0, 0.01, 0.05, 0.1, 0.3, 1.0)
# How much of the model is linear at each level, and whether the bound is looked for first.
_SEARCHES = ((0, False), (0, False), (1, True), (0, False), (1, True), (2, True))
LEVELS = len(_SHARES)
# Steps of annealing before anything else is tried, times the square of the parts, and at most:
# CP-SAT closes small modules by itself.
_QUICK, _MOST_QUICK = 600, 5e7
# Times the work that CP-SAT had at level 1 for which it is asked the same again.
_AGAIN = 2.0
# What annealing and windows may take of a level's work.
_ANNEALING, _WINDOWS = 0.1, 0.4
# Parts from which on annealing and neighbourhoods go on where CP-SAT is slow.
_LARGE = 25
# Of the work, what widths and each annealing after them may take.
_BY_WIDTH, _ANNEALING_WIDTHS = 0.5, 0.3
# Pairs of devices of all readings above which, with many teams, no model names devices.
_TOO_MANY = 20_000


@dataclass
class BoundEntry:
    """One M(i, j): the pinned piece, a proven bound, and the best solution so far.

    Attributes
    ----------
    level : the next one.
    tried : deterministic time that CP-SAT had at level 1.
    """

    piece: Piece
    low: float
    best: Solution | None = None
    level: int = 0
    kinds: Sequence[int] = ()
    tried: float = 0.0

    @property
    def value(self) -> float:
        """The best solution's, inf before there is one."""
        return float("inf") if self.best is None else self.best.value

    @property
    def closed(self) -> bool:
        """Whether the value is proven."""
        return self.best is not None and self.best.value - self.low <= CLOSED * self.best.value

    @property
    def open(self) -> bool:
        """Whether learning more could still change something."""
        return not self.closed and self.level < LEVELS

    def wish(self, work: float) -> float:
        """What the next level would like to spend of a call that began with `work`."""
        least = LEAST_CALL if self.level == 1 and len(self.piece) <= _LARGE else 0.0
        return max(least, _SHARES[min(self.level, LEVELS - 1)] * work)

    def improve(self, options: Options, budget: CpsatBudget) -> None:
        """Do what the next level does, within `budget` (which belongs to this entry)."""
        level, piece = self.level, self.piece
        self.level += 1
        if level == 0:
            self._begin(options, budget)
            return
        assert self.best is not None, "level 0 leaves a schedule"
        if self.closed:
            return
        if helps_by_width(piece, self.kinds):
            self._by_width(options, budget)
            if self.closed or count_reads(piece) > _TOO_MANY:
                return
        if level >= 2 and len(piece) > _LARGE:
            steps = _ANNEALING * budget.work * STEPS
            self.take(anneal_solution(piece, self.best, options, budget, steps))
            if not piece.contended:
                self.take(improve_by_windows(piece, self.best, options, budget, _WINDOWS))
        linear, prove = _SEARCHES[level]
        if level == 1 and not budget.exhausted():
            work = work_of_call(budget.work, linear)
            if work < _AGAIN * self.tried:
                return
            self.tried = work
        found, bound = search(
            piece, self.best, options, budget, linear=linear, prove=prove, quick=level == 1
        )
        self.low = max(self.low, min(bound, self.best.value))
        self.take(found)

    def _begin(self, options: Options, budget: CpsatBudget) -> None:
        """Level 0. What is known is kept beside it, and is not what annealing begins from: of two
        starts the levels after it have the better one."""
        start = list_schedule(self.piece)
        self.take(start)
        if self.closed:
            return
        steps = min(_MOST_QUICK, _QUICK * len(self.piece) ** 2)
        self.take(anneal_solution(self.piece, start, options, budget, steps))

    def go_on(self) -> None:
        """Begin another call with what is known: what is cheap is not done again."""
        self.level = min(self.level, 1)

    def _by_width(self, options: Options, budget: CpsatBudget) -> None:
        """Widths alone, for half of the work, then annealing from what they give."""
        assert self.best is not None, "there is a list schedule"
        half = CpsatBudget(_BY_WIDTH * budget.work, budget.deadline)
        budget.work -= half.work
        found, bound = search_widths(self.piece, self.kinds, self.best, options, half)
        budget.work += half.work
        before = self.best
        self.take(found)
        self.low = max(self.low, min(bound, self.value))
        if self.closed:
            return
        # Two starts are better than one: what widths give may be far from what annealing had.
        for one in {id(one): one for one in (before, found) if one is not None}.values():
            steps = _ANNEALING_WIDTHS * budget.work * STEPS
            self.take(anneal_solution(self.piece, one, options, budget, steps))

    def take(self, found: Solution | None) -> None:
        """Keep a solution if it is better."""
        if found is not None and found.value < self.value:
            self.best = found


def count_reads(piece: Piece) -> int:
    """About how many rows a model of the devices has for what is read."""
    return len(piece.names) ** 2 * sum(len(flow.readers) for flow in piece.tensors)
