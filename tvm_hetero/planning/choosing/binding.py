"""What binds: limits that are relaxed one at a time, and what the answer were worth then.

    accuracy     a class takes any variant
    machine      one more could be had
    budget       there is none
    SLO          a class's limits are twice as long; what each option carries is simulated anew

The program is solved with the answer's need and not played, so these are what the program says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest
from tvm_hetero.planning.choosing.options import RatedOption, rate_options
from tvm_hetero.planning.choosing.program import (
    MILLIWATT,
    MONEY,
    POINTS,
    ChoiceLimits,
    ProgramAnswer,
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
    for what, answer in _relaxed(case, choice, goal):
        value = answer.value / unit
        if value > choice.value if goal == "accuracy" else value < choice.value:
            found.append(BindingLimit(what, value))
    return tuple(found)


def _relaxed(
    case: RatedRequest, choice: MachineChoice, goal: str
) -> Iterator[tuple[str, ProgramAnswer]]:
    """Each limit, and the program's answer without it."""
    request, limits = case.request, ChoiceLimits(choice.need)

    def solve(given: ChoiceLimits, rated: tuple[RatedOption, ...] = case.rated) -> ProgramAnswer:
        return solve_program(request, rated, given, case.options, goal)

    for k, served in enumerate(request.classes):
        if served.least_accuracy > min(each.accuracy for each in request.variants):
            what = f"accuracy of at least {served.least_accuracy:g} for {served.name}"
            yield what, solve(replace(limits, without_floor=frozenset({k})))
    used: dict[str, int] = {}
    for rated, count in choice.replicas:
        name = rated.option.machine.name
        used[name] = used.get(name, 0) + count
    for machine in request.machines:
        if used.get(machine.name) == machine.available:
            more = {machine.name: machine.available + 1}
            yield f"{machine.available} x {machine.name}", solve(replace(limits, available=more))
    if request.budget != SpendingLimit():
        yield "budget", solve(replace(limits, spending=False))
    for k in range(len(request.classes)):
        yield f"SLO of {request.classes[k].name} (twice as long)", solve(limits, _longer(case, k))


def _longer(case: RatedRequest, k: int) -> tuple[RatedOption, ...]:
    """What options carry if the SLO of class k were longer."""
    request = case.request
    served = request.classes[k]
    slo = tuple(replace(limit, seconds=_LONGER * limit.seconds) for limit in served.slo)
    classes = tuple(replace(e, slo=slo) if i == k else e for i, e in enumerate(request.classes))
    anew, _ = rate_options(replace(request, classes=classes), case.planned, {k})
    return (*(each for each in case.rated if each.served != k), *anew)
