"""Modules on devices that are alike, against complete search; and notes that change no answer.

    python -m tests.fuzz.alike_devices [--count N] [--seconds S] [--first SEED] [--steps N]

`milp_split` looks at the ends of large modules by classes of devices, bounds all entries of a table
at once and squeezes whole modules. On small ones, which `tests/brute_force.py` closes, it does none
of that: so here small modules are large (`small_is_large`). It must hold that

- no bound of `milp-split`, of `auto` or of a table is above the optimum, whatever was done with the
  tables before, in any order; what is called optimal is; answers are valid;
- a schedule carried by symmetries is kept by tables as one of its value;
- whoever is asked twice answers the same; so does who is handed notes (`Options.notes`) of other
  problems and of other objectives; notes of the very problem make no answer worse.

Problems that complete search cannot close in its steps are counted apart: of these bounds are held
against the best value.
"""

from __future__ import annotations

import math
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from tests.brute_force import Exhausted, limited, optimal_schedule
from tests.fuzz.alike_problems import alike_problem
from tests.fuzz.alike_tables import faults_of_tables
from tests.fuzz.tally import compare_seeds, harness_parser
from tvm_hetero.check import verified
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverWarning
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.milp_split import module_table, tighten, width_model
from tvm_hetero.solvers.registry import knows_teams

# Work is counted, so that a busy machine answers as an idle one does.
OPTIONS = Options(time_limit=0.4, deadline=300.0)
_SOLVERS = ("milp-split", "auto")
STEPS = 10_000
_EQUAL = 1e-6
CLOSED, OPEN, INFEASIBLE = "closed", "open", "infeasible"
_OTHER_OBJECTIVES = (Objective("throughput", 2), Objective("latency", 2))
_ANOTHER = 5000  # from a seed to that of a problem between two calls

# A schedule, or the error's words.
_Answer: TypeAlias = Schedule | str


@contextmanager
def small_is_large() -> Iterator[None]:
    """Modules of two parts are bounded together and squeezed, and three teams are many."""
    changed = ((module_table, "_TOGETHER", 2), (tighten, "_LARGE", 2),
               (tighten, "_PROGRAMS", math.inf), (width_model, "MANY", 3))  # fmt: skip
    before = [(where, name, getattr(where, name)) for where, name, _ in changed]
    try:
        for where, name, value in changed:
            setattr(where, name, value)
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)


def compare(seed: int, steps: float = STEPS) -> tuple[str, list[str]]:
    """How complete search judges the problem of a seed, and what is wrong with what others say."""
    problem = alike_problem(seed)
    solvers = [name for name in _SOLVERS if knows_teams(name, problem)]
    answers = {name: _answer(problem, name, OPTIONS) for name in solvers}
    known = min((a.value for a in answers.values() if isinstance(a, Schedule)), default=math.inf)
    verdict, best = CLOSED, known
    try:
        with limited(steps):
            better = optimal_schedule(problem, known * (1 - _EQUAL))
        best = known if better is None else better.value
    except Exhausted:
        verdict = OPEN
    if best == math.inf:
        return (INFEASIBLE if verdict == CLOSED else OPEN), []
    found = [text for name, answer in answers.items() for text in _wrong(name, answer, best)]
    found += faults_of_tables(problem, best, OPTIONS, random.Random(seed))
    return verdict, found + [text for name in solvers for text in _faults_of_notes(seed, name)]


def _answer(problem: Problem, solver: str, options: Options) -> _Answer:
    """A valid schedule, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SolverWarning)
            return verified(problem, solve(problem, solver, options))
    except InfeasibleError as error:
        return f"infeasible, {'proven' if error.proven else 'not proven'}"
    except (HeteroError, SolverWarning) as error:
        return str(error)


def _wrong(name: str, answer: _Answer, best: float) -> list[str]:
    """What is wrong with an answer, where `best` is the optimum, or a value that is reached."""
    if isinstance(answer, str):
        return [f"{name}: {answer}; {best} is reached"]
    found = []
    if answer.lower_bound > best * (1 + _EQUAL):
        found.append(f"{name} bounds by {answer.lower_bound}, {best} is reached")
    if answer.status == "optimal" and answer.value > best * (1 + _EQUAL):
        found.append(f"{name} calls {answer.value} optimal, {best} is reached")
    return found


def _faults_of_notes(seed: int, solver: str) -> list[str]:
    """What notes change that they may not."""
    problem, notes = alike_problem(seed), dict[object, object]()
    noted = replace(OPTIONS, notes=notes)
    first = _answer(problem, solver, OPTIONS)
    told = [("asked again", _answer(alike_problem(seed), solver, OPTIONS))]
    _answer(alike_problem(seed + _ANOTHER), solver, noted)
    told.append(("after another problem", _answer(problem, solver, noted)))
    for objective in _OTHER_OBJECTIVES:
        _answer(replace(problem, objective=objective), solver, noted)
    told.append(("after other objectives", _answer(alike_problem(seed), solver, noted)))
    found = [
        f"{solver} {when}: {_said(answer)}, at first {_said(first)}"
        for when, answer in told
        if _said(answer) != _said(first)
    ]
    return found + _worse(solver, first, _answer(problem, solver, noted))


def _worse(solver: str, first: _Answer, second: _Answer) -> list[str]:
    """What is worse in an answer of who knows what came of the first."""
    if isinstance(first, str) or isinstance(second, str):
        same = first == second
        return [] if same else [f"{solver} then {_said(second)}, at first {_said(first)}"]
    found = []
    if second.value > first.value * (1 + _EQUAL):
        found.append(f"{solver} with its own notes answers {second.value}, before {first.value}")
    if second.lower_bound < first.lower_bound * (1 - _EQUAL):
        found.append(
            f"{solver} with its own notes bounds by {second.lower_bound}, "
            f"before by {first.lower_bound}"
        )
    return found


def _said(answer: _Answer) -> str | tuple[object, ...]:
    """What has to be the same in answers that are the same."""
    if isinstance(answer, str):
        return answer
    own = answer.executions, answer.copies
    return (*own, answer.value, answer.lower_bound, answer.status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__, first=None)
    parser.add_argument("--steps", type=float, default=STEPS)
    asked = parser.parse_args(arguments)
    with small_is_large():
        return compare_seeds(__file__, asked, lambda seed: compare(seed, asked.steps))


if __name__ == "__main__":
    sys.exit(main())
