"""Solvers that are asked in turn for a step of a decoder, until one is near enough to its bound."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tvm_hetero.errors import SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.verified_call import warn

# Seconds that a solver is given as long as there is no plan: those that count devices do their
# counted work in fewer.
LEAST = 3.0


def solve_in_turn(
    problem: Problem, options: Options, deadline: float, *, quickly: bool = False
) -> Schedule:
    """The best schedule of the solvers that are asked in turn; `quickly`: until there is one.

    Each is told what is left until the deadline; the first ones are given `LEAST` s all the same.
    """
    best = options.start
    shared = problem.batch > 1 and problem.objective.kind == "throughput"
    for name in ("count-dp", *(["shares"] if shared else []), "auto"):
        left = deadline - options.clock()
        enough = left <= 0 or (quickly and name == "auto")
        if best is not None and (enough or options.within_gap(best.value, best.lower_bound)):
            break
        asked = replace(options, start=best, deadline=max(left, LEAST) if best is None else left)
        if name == "auto":
            best = solve(problem, name, asked)
            continue
        options.say(f"asking {name}")
        with suppress(SolverError):
            # The best single device will do here: `auto` goes on from it, or it is said below.
            best = solve(problem, name, replace(asked, quiet=True))
    assert best is not None, "auto finds a schedule, or says why not"
    if not quickly and best.solver.endswith(")"):  # a stand-in, and `auto` was not asked
        warn(
            f"the time was up before {best.solver.split()[0]} found a plan; the answer is that "
            f"of {best.solver}: raise the time limit"
        )
    return best
