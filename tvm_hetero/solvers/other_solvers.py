"""Whom to ask when a solver refuses: those of the registry that take this very problem.

A refusal of a solver says what is in its own way and names nobody; here it gets its last clause. It
names a solver only if that one takes the objective, the features and the size of the problem, so
that nobody is sent from one to the next:

- `throughput`, and `stages` for contiguous stages, take every throughput problem;
- `memory` goes from placements that overflow to some that do not, for the other objectives;
- `cpsat` searches all placements of what its model can hold, in the time that there is;
- `auto` asks whoever takes the problem.
"""

from __future__ import annotations

from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.registry import knows_energies, knows_teams
from tvm_hetero.views.instance import instance_of

# Tasks times devices up to which CP-SAT finds placements for throughput from scratch.
_PLACES = 10_000


def others(problem: Problem, options: Options, asked: str) -> list[str]:
    """Solvers that take the problem and may find what the one that was asked did not."""
    instance = instance_of(problem)
    if problem.objective.kind == "throughput":
        found = ["stages" if problem.objective.contiguous else "throughput"]
        found += ["cpsat"] if len(instance) * len(instance.names) <= _PLACES else []
    else:
        from tvm_hetero.solvers.cpsat.batch import fits_time

        found = ["cpsat"] if fits_time(instance, options) else []
        found += ["memory"] if any(instance.memory_binds) else []
    able = [name for name in [*found, "auto"] if knows_teams(name, problem)]
    return [name for name in able if name != asked and knows_energies(name, problem)]


def with_others(error: HeteroError, problem: Problem, options: Options, asked: str) -> HeteroError:
    """The error with the solvers to ask instead, unless it is a proof, or names some itself."""
    text = str(error)
    proof = isinstance(error, InfeasibleError) and error.proven
    if proof or "; use " in text or type(error) not in (InfeasibleError, SolverError):
        return error
    if asked == "auto":
        return error
    names = others(problem, options, asked)
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    return type(error)(f"{text}; other solvers that take this problem: {listed}")
