"""`auto` against complete search: random small problems, each proven by both.

    python -m tests.fuzz.against_brute_force [--seconds S] [--first SEED] [--steps N]

What `auto` answers must be the optimum, called optimal; where it says that there is no schedule,
there is none. `tests/brute_force.py`, which shares no code with any solver, looks for something
better; problems that it cannot close in its steps are counted apart.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Sequence

from tests.brute_force import Exhausted, limited, optimal_schedule
from tests.fuzz.small_problems import small_problem
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverWarning
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import Options, solve

# Options of `auto`: its work is counted, so that a busy machine answers as an idle one does.
OPTIONS = Options(time_limit=5.0, deadline=300.0)
# A value that is better by no more than this part of it is equal: what `optimal` means.
_EQUAL = 1 - 1e-6
CLOSED, OPEN = "closed", "open"


def compare(problem: Problem, steps: float) -> str:
    """`CLOSED` if `auto` is right, `OPEN` if brute force cannot tell in its steps, or the fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", SolverWarning)
        try:
            answer = solve(problem, "auto", OPTIONS)
        except InfeasibleError as error:
            value = math.inf
            if not error.proven:
                return f"said to be infeasible without proof: {error}"
        except (HeteroError, SolverWarning) as error:
            return f"no answer: {error}"
        else:
            value = answer.value
            if answer.status != "optimal":
                return f"not proven: {value!r}, at least {answer.lower_bound!r}"
    try:
        with limited(steps):
            better = optimal_schedule(problem, value * _EQUAL)
    except Exhausted:
        return OPEN
    return CLOSED if better is None else f"auto answers {value!r}, optimal is {better.value!r}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__, first=None)
    parser.add_argument("--steps", type=float, default=1e5)
    args = parser.parse_args(arguments)
    verdicts = Counter[str]()
    for seed in seeds(args):
        found = compare(small_problem(seed), args.steps)
        verdicts[found if found in (CLOSED, OPEN) else "faults"] += 1
        if found not in (CLOSED, OPEN):
            print(f"seed {seed}: {found}", flush=True)
    return conclude(__file__, args.first, verdicts, verdicts["faults"])


if __name__ == "__main__":
    sys.exit(main())
