"""What binds: limits that are relaxed one at a time, and what the answer were worth then.

    accuracy     a class takes any variant
    machine      one more of a kind could be had, whether all of them are in use or not
    budget       there is none
    SLO          a class's limits are twice as long; what each option carries is simulated anew

The program is solved with the answer's need and not played, so these are what the program says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tvm_hetero.errors import SolverError
from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest
from tvm_hetero.planning.choosing.options import RatedOption, rate_options
from tvm_hetero.planning.choosing.program import (
    MILLIWATT,
    MONEY,
    POINTS,
    ChoiceLimits,
    solve_program,
)
from tvm_hetero.planning.choosing.request import SpendingLimit

_LONGER = 2.0


@dataclass(frozen=True)
class BindingLimit:
    """A limit in words, and the value of the goal without it."""

    what: str
    value: float


def binding_limits(
    case: RatedRequest, choice: MachineChoice, goal: str
) -> tuple[BindingLimit, ...]:
    """All limits that bind, as far as each by itself does."""
    unit = {"price": MONEY, "energy": MILLIWATT, "accuracy": POINTS * case.request.count}[goal]
    found = []
    for what, limits, rated in _relaxed(case, choice):
        try:
            answer = solve_program(case.request, rated, limits, case.options, goal)
        except SolverError:
            continue  # nothing in the time says nothing of the limit
        value = answer.value / unit
        if value > choice.value if goal == "accuracy" else value < choice.value:
            found.append(BindingLimit(what, value))
    return tuple(found)


def _relaxed(
    case: RatedRequest, choice: MachineChoice
) -> Iterator[tuple[str, ChoiceLimits, tuple[RatedOption, ...]]]:
    """Each limit, and what the program is asked without it."""
    request, limits = case.request, ChoiceLimits(choice.need)
    for k, served in enumerate(request.classes):
        if served.least_accuracy > min(each.accuracy for each in request.variants):
            what = f"accuracy of at least {served.least_accuracy:g} for {served.name}"
            yield what, replace(limits, without_floor=frozenset({k})), case.rated
    for machine in request.machines:
        more = {machine.name: machine.available + 1}
        what = f"{machine.available} x {machine.name}"
        yield what, replace(limits, available=more), case.rated
    if request.budget != SpendingLimit():
        yield "budget", replace(limits, spending=False), case.rated
    for k in range(len(request.classes)):
        yield f"SLO of {request.classes[k].name} (twice as long)", limits, _longer(case, k)


def _longer(case: RatedRequest, k: int) -> tuple[RatedOption, ...]:
    """What options carry if the SLO of class k were longer."""
    request = case.request
    served = request.classes[k]
    slo = tuple(replace(limit, seconds=_LONGER * limit.seconds) for limit in served.slo)
    classes = tuple(replace(e, slo=slo) if i == k else e for i, e in enumerate(request.classes))
    anew, _ = rate_options(replace(request, classes=classes), case.planned, {k})
    return (*(each for each in case.rated if each.served != k), *anew)
