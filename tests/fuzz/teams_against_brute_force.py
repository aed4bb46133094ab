"""Bounds, and every solver that knows teams, against complete search: random problems with teams.

    python -m tests.fuzz.teams_against_brute_force [--seconds S] [--first SEED] [--steps N]
        [--limited]

No bound may lie above the optimum and no solver below it; an answer that is called optimal must
be; where nothing is feasible, `auto` says so. Problems that `tests/brute_force.py` cannot close in
its steps are counted apart, those in which no core is shared are passed over.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from tests.brute_force import Exhausted, limited, optimal_schedule
from tests.fuzz.tally import compare_seeds, harness_parser
from tests.fuzz.team_problems import team_problem
from tvm_hetero.bounds import bound_ladder
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError, SolverWarning
from tvm_hetero.problem import KINDS, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, names, solve
from tvm_hetero.solvers.registry import knows_teams

# Work is counted, so that a busy machine answers as an idle one does.
_SHORT = Options(time_limit=0.3, deadline=60.0)
_PROVING = ("auto", "cpsat", "exhaustive", "milp-split")
_EQUAL, _OPTIMAL = 1e-9, 1e-6
STEPS = 10_000
# Of so many problems one is given to all solvers, the others to those that prove.
EVERY = 8
MOST_ELEMENTS = 3
CLOSED, OPEN, INFEASIBLE, APART = "closed", "open", "infeasible", "no core is shared"


def solvers_for(seed: int) -> Sequence[str]:
    """Who is asked for the problem of a seed."""
    return names() if seed % EVERY == 0 else _PROVING


def compare(
    problem: Problem, solvers: Sequence[str], steps: float = STEPS
) -> tuple[str, list[str]]:
    """How brute force judges a problem (`CLOSED`, `OPEN`, ...), and what others say wrongly."""
    if not problem.platform.cliques:
        return APART, []
    try:
        with limited(steps):
            best = optimal_schedule(problem)
    except Exhausted:
        return OPEN, []
    if best is None:
        return INFEASIBLE, _denied(problem, solvers)
    wrong = faults(problem, best.value, solvers)
    return CLOSED, [*map(str, check_schedule(problem, best)), *wrong]


def _denied(problem: Problem, solvers: Sequence[str]) -> list[str]:
    """What is wrong with the answers to a problem that has no schedule."""
    found = []
    for name in (name for name in solvers if knows_teams(name, problem)):
        try:
            answer = solve(problem, name, _SHORT)
            found.append(f"{name} answers {answer.value}; nothing is feasible")
        except HeteroError as error:
            if not isinstance(error, InfeasibleError) and not _may_fail(problem, name, error):
                found.append(f"{name} on what is infeasible: {error}")
    return found


def faults(problem: Problem, best: float, solvers: Sequence[str]) -> list[str]:
    """What bounds and solvers say that is not so, where `best` is the optimum."""
    found = [
        f"bound {rung.name} {rung.value} above {best}"
        for rung in bound_ladder(problem)
        if rung.value > best * (1 + _EQUAL)
    ]
    for name in (name for name in solvers if knows_teams(name, problem)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", SolverWarning)
            try:
                answer = solve(problem, name, _SHORT)
            except (HeteroError, SolverWarning) as error:
                if not _may_fail(problem, name, error):
                    found.append(f"{name} gives no answer: {error}")
                continue
        found += _wrong(problem, name, answer, best)
    return found


def _may_fail(problem: Problem, name: str, error: Exception) -> bool:
    """Whether a solver has found nothing and says no more than that: a heuristic under a limit, or
    since no device runs everything; CP-SAT where memory binds, in so short a time. And `elements`,
    which keeps each element whole, where a color allows one device for all of them.
    """
    if name == "elements" and "must share one device" in str(error):
        return True
    tight = any(device.memory is not None for device in problem.platform.devices)
    late = problem.objective.latency_limit is not None
    heuristic = name not in _PROVING
    hard = (tight and (heuristic or name == "cpsat")) or (late and heuristic) or name == "single"
    return hard and (type(error) is SolverError or "found nothing" in str(error))


def _wrong(problem: Problem, name: str, answer: Schedule, best: float) -> list[str]:
    found = [f"{name}: {text}" for text in check_schedule(problem, answer)]
    if not answer.lower_bound <= best * (1 + _EQUAL):
        found.append(f"{name} bounds by {answer.lower_bound}, optimal is {best}")
    if not answer.value >= best * (1 - _EQUAL):
        found.append(f"{name} answers {answer.value}, optimal is {best}")
    timed = problem.objective.kind in ("latency", "throughput")
    exact = name in _PROVING and problem.batch == 1 and timed
    if (exact or answer.status == "optimal") and answer.value > best * (1 + _OPTIMAL):
        found.append(f"{name} answers {answer.value} ({answer.status}), optimal is {best}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__, first=None)
    parser.add_argument("--steps", type=float, default=STEPS)
    parser.add_argument("--limited", action="store_true", help="nodes whose memory has a limit")
    args = parser.parse_args(arguments)

    def compared(seed: int) -> tuple[str, list[str]]:
        problem = team_problem(seed, KINDS, 1 + seed % MOST_ELEMENTS, limited=args.limited)
        verdict, found = compare(problem, solvers_for(seed), args.steps)
        return verdict, [f"{problem.objective.kind}, {problem.batch}: {text}" for text in found]

    return compare_seeds(__file__, args, compared)


if __name__ == "__main__":
    sys.exit(main())
