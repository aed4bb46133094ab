"""Schedules and bounds of the zoo's problems, as texts.

Searches count their work, which the time limit sets; the clock, which would cut them on a busy
machine, is set to hours (`Options.deadline`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tvm_hetero import zoo
from tvm_hetero.bounds import bound_ladder
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve

HEURISTICS = ("single", "heft", "peft", "cpop", "greedy")
_NEVER = 24 * 3600.0
# Digits of a bound that are the same on every machine: others hang on the order in which its vector
# registers add.
_PORTABLE_DIGITS = 6


@dataclass(frozen=True)
class Effort:
    """How much work solvers may do.

    Attributes
    ----------
    limit : what the work is counted from, s.
    portable : only what is the same on every machine goes into the texts.
    """

    limit: float = 0.1
    portable: bool = False


def of_zoo(
    network: str,
    platforms: Sequence[str],
    objectives: Sequence[Objective],
    solvers: Sequence[str] = HEURISTICS,
    effort: Effort = Effort(),
) -> Iterator[tuple[str, str]]:
    """The bounds of a network's problems and what each solver answers."""
    for platform in platforms:
        for objective in objectives:
            where = f"{network}/{platform}/{_goal(objective)}"
            try:
                problem = zoo.problem(network, platform, objective)
            except HeteroError as error:
                yield f"schedule/{where}", _refusal(error)
                continue
            yield f"bound/{where}", _bounds(problem, effort)
            for solver in solvers:
                yield f"schedule/{where}/{solver}", _answer(problem, solver, effort)


def _goal(objective: Objective) -> str:
    goal = f"{objective.kind}-{objective.batch}"
    return goal + ("-contiguous" if objective.contiguous else "")


def _bounds(problem: Problem, effort: Effort) -> str:
    try:
        rungs = bound_ladder(problem, effort.limit)
    except HeteroError as error:
        return _refusal(error)
    digits = _PORTABLE_DIGITS if effort.portable else 17
    return "".join(f"{rung.name}: {rung.value:.{digits}g}\n" for rung in rungs)


def _answer(problem: Problem, solver: str, effort: Effort) -> str:
    try:
        found = solve(problem, solver, Options(time_limit=effort.limit, deadline=_NEVER))
    except HeteroError as error:
        return _refusal(error)
    return (_unproven(found) if effort.portable else found).dumps(canonical=True)


def _unproven(schedule: Schedule) -> Schedule:
    """The schedule without its proof, whose last digits hang on the machine."""
    return replace(schedule, lower_bound=0.0, status="feasible")


def _refusal(error: HeteroError) -> str:
    return f"{type(error).__name__}: {error}\n"
