"""What binds: limits that are relaxed one at a time, and what the answer were worth then.

    accuracy     a class takes any variant
    machine      one more of a kind could be had, whether all of them are in use or not
    budget       there is none
    SLO          a class's limits are twice as long; what each option carries is simulated anew

The program is solved with the answer's need, without what was played before and broke an SLO, and
not played, so these are what the program says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest
from tvm_hetero.planning.choosing.options import RatedOption, rate_options
from tvm_hetero.planning.choosing.program import (
    ChoiceLimits,
    ProgramAnswer,
    solve_program,
    unit_of,
)
from tvm_hetero.planning.choosing.request import SpendingLimit

_LONGER = 2.0
# Options of a program, rated when they are asked for.
_Rated = Callable[[], Sequence[RatedOption]]


@dataclass(frozen=True)
class BindingLimit:
    """A limit in words, and the value of the goal without it."""

    what: str
    value: float


def binding_limits(
    case: RatedRequest, choice: MachineChoice, goal: str
) -> tuple[tuple[BindingLimit, ...], tuple[str, ...]]:
    """All limits that bind, as far as each by itself does; and those of which nobody knows.

    Beside what the program says with all limits, which may be better than the answer: it is not
    played. Nothing that was found in the time says nothing of a limit, nor does a value that is no
    better where a better one was not excluded.
    """
    unit = unit_of(case.request, goal)
    sign = -1 if goal == "accuracy" else 1
    found: list[BindingLimit] = []
    unknown: list[str] = []
    refuted = tuple(case.player.refuted)
    with_all = _solve(case, ChoiceLimits(choice.need, refuted=refuted), lambda: case.known, goal)
    for what, limits, rate in _relaxed(case, choice):
        answer = _solve(case, limits, rate, goal)
        if answer is None or with_all is None:
            unknown.append(what)
        elif sign * answer.value < sign * with_all.bound:
            found.append(BindingLimit(what, answer.value / unit))
        elif sign * answer.bound < sign * with_all.value:
            unknown.append(what)
    return tuple(found), tuple(unknown)


def _solve(
    case: RatedRequest, limits: ChoiceLimits, rated: _Rated, goal: str
) -> ProgramAnswer | None:
    try:
        return solve_program(case.request, rated(), limits, case.options, goal)
    except (InfeasibleError, SolverError):
        return None


def _relaxed(
    case: RatedRequest, choice: MachineChoice
) -> Iterator[tuple[str, ChoiceLimits, _Rated]]:
    """Each limit, and what the program is asked without it, of options that are rated then."""
    request = case.request
    limits = ChoiceLimits(choice.need, refuted=tuple(case.player.refuted))
    for k, served in enumerate(request.classes):
        if served.least_accuracy > min(each.accuracy for each in request.variants):
            what = f"accuracy of at least {served.least_accuracy:g} for {served.name}"
            yield what, replace(limits, without_floor=frozenset({k})), lambda: case.known
    for machine in request.machines:
        more = {machine.name: machine.available + 1}
        what = f"{machine.available} x {machine.name}"
        yield what, replace(limits, available=more), lambda: case.known
    if request.budget != SpendingLimit():
        yield "budget", replace(limits, spending=False), lambda: case.known
    for k in range(len(request.classes)):
        what = f"SLO of {request.classes[k].name} (twice as long)"
        yield what, limits, partial(_longer, case, k)


def _longer(case: RatedRequest, k: int) -> tuple[RatedOption, ...]:
    """What options carry if the SLO of class k were longer."""
    request = case.request
    served = request.classes[k]
    slo = tuple(replace(limit, seconds=_LONGER * limit.seconds) for limit in served.slo)
    classes = tuple(replace(e, slo=slo) if i == k else e for i, e in enumerate(request.classes))
    anew, _ = rate_options(replace(request, classes=classes), case.planned, {k}, case.options.ends)
    return (*(each for each in case.known if each.served != k), *anew)
