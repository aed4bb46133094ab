"""Random walk: from candidate to neighbouring candidate, whatever it is worth; the best is kept.

The baseline that shows what a search gains by looking where it goes (K. Pearson: The problem of
the random walk, Nature 72, 1905, doi:10.1038/072294b0). Every walk begins at a random placement
and order and takes some hundred steps: one group of tasks to another device, or one task (or
copy) to another place in the order. Then the next walk begins elsewhere.
"""

from __future__ import annotations

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.search.search_loop import Search

# A baseline needs no minutes: more steps than this find little more.
_MOST_STEPS = 5_000
_STEPS_A_WALK = 500


def solve(problem: Problem, options: Options) -> Schedule:
    """The best candidate of some random walks.

    Raises
    ------
    InfeasibleError
        If none of the candidates keeps all limits.
    SolverError
        If the C++ library is needed and missing.
    """
    search = Search(problem, options, "random-walk")
    search.looks = min(search.looks, _MOST_STEPS)
    while not search.over:
        here = search.draw()
        search.score(here)
        for _ in range(min(_STEPS_A_WALK, search.looks)):
            here = search.space.neighbour(here, search.rng)
            search.score(here)
    return search.answer()
