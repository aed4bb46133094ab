"""What is next to an answer, and whether it is the answer.

    cheaper  the front's most accurate choice that costs less; as the front knows neither the least
             accuracies nor the budget of the question, it may be the more accurate one in the mean
    better   the cheapest choice within the question that is more accurate

A choice that needs a margin to hold its SLO is the best one with that margin. One that needs none
may be as good or better: it is found when more accuracy is asked for, or for the front. So what is
known to hold, keeps to the question and beats the answer becomes it (`settle`); the bound stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest, cost_of
from tvm_hetero.planning.choosing.front import best_choice, points_of
from tvm_hetero.planning.choosing.program import (
    MILLIWATT,
    MONEY,
    ChoiceLimits,
    full_need,
    goal_of,
    milliwatts,
    money,
    whole_units,
)
from tvm_hetero.planning.choosing.request import ChoiceRequest


@dataclass(frozen=True)
class BetterChoice:
    """The cheapest choice that is more accurate, if one was found; else whether none can be."""

    choice: MachineChoice | None
    excluded: bool = False


def settle(
    case: RatedRequest, choice: MachineChoice, front: Sequence[MachineChoice]
) -> tuple[MachineChoice, BetterChoice]:
    """The best choice that is known to hold, and what is better than it."""
    for each in front:
        if keeps_limits(case.request, each):
            choice = _better_of(case, choice, each)
    while True:
        better = find_better(case, choice)
        if better.choice is None:
            return choice, better
        settled = _better_of(case, choice, better.choice)
        if settled is choice:
            return choice, better
        choice = settled


def find_better(case: RatedRequest, choice: MachineChoice) -> BetterChoice:
    """The cheapest choice within the question that is more accurate."""
    cost = "energy" if goal_of(case.request) == "energy" else "price"
    limits = ChoiceLimits(full_need(case.request), least_mean=points_of(case, choice) + 1)
    try:
        return BetterChoice(best_choice(case, cost, limits))
    except InfeasibleError as error:
        return BetterChoice(None, excluded=error.proven)
    except SolverError:
        return BetterChoice(None)


def find_cheaper(
    request: ChoiceRequest, choice: MachineChoice, front: Sequence[MachineChoice]
) -> MachineChoice | None:
    """The most accurate choice of a front that costs less."""
    less = [each for each in front if cost_of(request, each) < cost_of(request, choice)]
    return less[-1] if less else None


def is_cheapest(
    request: ChoiceRequest, choice: MachineChoice, front: Sequence[MachineChoice], *, whole: bool
) -> bool:
    """Whether nothing can be cheaper: the bound of a whole front's first point says so."""
    return whole and bool(front) and front[0].bound >= cost_of(request, choice)


def keeps_limits(request: ChoiceRequest, choice: MachineChoice) -> bool:
    """Whether a choice keeps the least accuracies and the budget of a question."""
    return not floors_below(request, choice) and not is_over_budget(request, choice)


def floors_below(request: ChoiceRequest, choice: MachineChoice) -> list[int]:
    """Classes whose variant is less accurate than they ask for."""
    rows = enumerate(zip(request.classes, choice.accuracies, strict=True))
    return [k for k, (served, accuracy) in rows if accuracy < served.least_accuracy]


def is_over_budget(request: ChoiceRequest, choice: MachineChoice) -> bool:
    """Whether a choice costs or draws more than it may, as the program counts or as played."""
    budget = request.budget
    price = sum(money(rated) * count for rated, count in choice.replicas)
    if budget.price is not None and price > whole_units(budget.price, MONEY):
        return True
    if budget.watts is None:
        return False
    counted = sum(milliwatts(rated) * count for rated, count in choice.replicas)
    return counted > whole_units(budget.watts, MILLIWATT) or choice.watts > budget.watts


def _better_of(case: RatedRequest, choice: MachineChoice, other: MachineChoice) -> MachineChoice:
    """The first one, or the other one as an answer if it is better by the goal."""
    request = case.request
    ranks = [
        (-points_of(case, each), cost_of(request, each))
        if goal_of(request) == "accuracy"
        else (cost_of(request, each), -points_of(case, each))
        for each in (choice, other)
    ]
    if ranks[0] <= ranks[1]:
        return choice
    value = other.accuracy if goal_of(request) == "accuracy" else cost_of(request, other)
    return replace(other, value=value, bound=choice.bound)
