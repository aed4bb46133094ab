"""Random problems with teams: bounds, and every solver that knows teams, against brute force."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import pytest

from tests.brute_force import Exhausted, limited, optimal_schedule
from tests.fuzz.team_problems import team_problem
from tvm_hetero.bounds import bound_ladder
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import SolverWarning
from tvm_hetero.problem import Kind, Problem
from tvm_hetero.solvers import Options, names, solve
from tvm_hetero.solvers.registry import knows_teams

# Work is counted, so that a busy machine answers as an idle one does.
_SHORT = Options(time_limit=0.3, deadline=60.0)
_PROVING = ("auto", "cpsat", "exhaustive", "milp-split")
_STEPS = 20_000
_EQUAL = 1e-9


def _optimum(problem: Problem) -> float | None:
    """The least value; None where brute force takes too long, nothing is feasible, or no core is
    shared.
    """
    if not problem.platform.cliques:
        return None
    try:
        with limited(_STEPS):
            best = optimal_schedule(problem)
    except Exhausted:
        return None
    if best is None:
        return None
    assert check_schedule(problem, best) == []
    return best.value


def _faults(problem: Problem, best: float) -> list[str]:
    """What bounds and solvers say that is not so."""
    found = [
        f"{rung.name} {rung.value} above {best}"
        for rung in bound_ladder(problem)
        if rung.value > best * (1 + _EQUAL)
    ]
    for name in (name for name in names() if knows_teams(name, problem)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", SolverWarning)
            answer = solve(problem, name, _SHORT)
        if not answer.lower_bound <= best * (1 + _EQUAL):
            found.append(f"{name} bounds by {answer.lower_bound}, optimal is {best}")
        if not answer.value >= best * (1 - _EQUAL):
            found.append(f"{name} answers {answer.value}, optimal is {best}")
        exact = name in _PROVING and problem.batch == 1
        timed = problem.objective.kind in ("latency", "throughput")
        if exact and timed and answer.value > best * (1 + 1e-6):
            found.append(f"{name} answers {answer.value} and not {best}")
    return found


@pytest.mark.parametrize(
    ("kinds", "batch", "seeds"),
    [
        (("latency",), 1, range(24)),
        (("throughput",), 1, range(100, 112)),
        (("energy", "cost"), 1, range(200, 215)),
        (("latency", "throughput"), 2, range(300, 308)),
    ],
)
def test_no_bound_is_above_the_optimum_and_no_solver_beats_it(
    kinds: tuple[Kind, ...], batch: int, seeds: range
) -> None:
    problems = {seed: team_problem(seed, kinds, batch) for seed in seeds}
    best = {seed: _optimum(problem) for seed, problem in problems.items()}
    known = {seed: value for seed, value in best.items() if value is not None}
    assert len(known) >= 0.6 * len(seeds)
    found = {seed: _faults(problems[seed], value) for seed, value in known.items()}
    assert {seed: texts for seed, texts in found.items() if texts} == {}


def test_the_problems_have_every_kind_of_team() -> None:
    made = [
        team_problem(seed, ("latency", "throughput", "energy", "cost"), 2) for seed in range(99)
    ]
    counts = Counter(
        (problem.objective.kind, problem.batch > 1) for problem in made if problem.platform.cliques
    )
    assert len(counts) == 8
    assert any(not d.overlap for p in made for d in p.platform.devices)
    assert any("gpu" in p.platform.names for p in made)
    sizes = {len(clique) for p in made for clique in p.platform.cliques}
    assert {2, 3} <= sizes and not any(math.isinf(size) for size in sizes)
