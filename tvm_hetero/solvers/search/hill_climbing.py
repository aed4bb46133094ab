"""Hill climbing: to the first neighbour that is better, until none is; then again from nearby.

The neighbourhood is that of FASTEST (Y.-K. Kwok, I. Ahmad, IEEE TPDS 10(2), 1999,
doi:10.1109/71.752781), which moves one task to another device, widened by moves in the order:

- every group of tasks that share a device to every other device that can run it;
- every task (or copy, where copies can be in the way) to another place in the topological order.

The first climb begins at the best of HEFT, greedy and the best single device (or at the start that
is given), each following one at the best top so far with some groups and items moved at random:
iterated local search (H. R. Lourenço, O. C. Martin, T. Stützle, Handbook of Metaheuristics, 2003,
doi:10.1007/0-306-48056-5_11). The search ends with its budget, or when many climbs in a row end no
higher.
"""

from __future__ import annotations

from itertools import cycle

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.search.encoding import EncodedSchedule
from tvm_hetero.solvers.search.scorers import Score
from tvm_hetero.solvers.search.search_loop import Search

# (group, device), or (place in the sequence, None).
Move = tuple[int, int | None]

# Climbs in a row that may end no higher than the best.
_VAIN_CLIMBS = 40
# Random steps between two climbs: at least, and as a part of groups and items.
_STEPS, _STEP_SHARE = 3, 0.03
# A climb must gain more than rounding noise, or sums that drift would let it go on for ever.
_GAIN = 1e-12


def solve(problem: Problem, options: Options) -> Schedule:
    """The highest top of iterated climbs.

    Raises
    ------
    InfeasibleError
        If no candidate keeps all limits.
    SolverError
        If the C++ library is needed and missing.
    """
    search = Search(problem, options, "hill-climbing")
    top, height = climb(search, *search.start())
    vain = 0
    while not search.over and vain < _VAIN_CLIMBS:
        foot = _shaken(search, top)
        other, reached = climb(search, foot, search.score(foot))
        vain = 0 if _better(reached, height) else vain + 1
        if reached <= height:
            top, height = other, reached
    return search.answer()


def climb(search: Search, here: EncodedSchedule, height: Score) -> tuple[EncodedSchedule, Score]:
    """From a candidate upwards until no neighbour is better, or the budget is spent.

    All moves are tried in turn, in a random order. One that changes nothing in the score is made
    too: it may open a way up.
    """
    moves = _moves(search)
    search.rng.shuffle(moves)
    in_vain = 0
    for move in cycle(moves):
        if in_vain == len(moves) or search.over:
            break
        in_vain += 1
        other = _made(search, here, move)
        if other is None:
            continue
        reached = search.score(other)
        if _better(reached, height):
            in_vain = 0
        if reached <= height:
            here, height = other, reached
    return here, height


def _moves(search: Search) -> list[Move]:
    """Every group with every device, and every place in the sequence."""
    space = search.space
    places: list[Move] = [(g, device) for g in space.movable for device in space.choices(g)]
    return places + [(place, None) for place in range(space.items)]


def _made(search: Search, here: EncodedSchedule, move: Move) -> EncodedSchedule | None:
    """The candidate after a move; None if it changes nothing."""
    space = search.space
    what, device = move
    if device is not None:
        if here.placement[space.instance.groups[what][0]] == device:
            return None
        return EncodedSchedule(space.moved(here.placement, what, device), here.sequence)
    sequence = space.shifted(here.sequence, what, search.rng)
    return None if sequence is None else EncodedSchedule(here.placement, sequence)


def _shaken(search: Search, candidate: EncodedSchedule) -> EncodedSchedule:
    """A candidate some random steps away."""
    space = search.space
    size = len(space.movable) + space.items
    for _ in range(search.rng.randint(1, _STEPS + int(_STEP_SHARE * size))):
        candidate = space.neighbour(candidate, search.rng)
    return candidate


def _better(a: Score, b: Score) -> bool:
    """Whether a score is smaller where it really differs."""
    for x, y in zip(a, b, strict=True):
        if x < y - _GAIN * abs(y):
            return True
        if y < x - _GAIN * abs(x):
            return False
    return False
