"""The front: the cheapest choice of each accuracy, whatever the question's accuracies and budget.

walk     from the cheapest on, each time for a little more accuracy than the last program had: that
         is every point, where there are few
best     where the walk is cut off after `_WALK` programs, the choice of the best accuracy follows,
         so that the front has both ends
between  and from the end of the walk to it choices at even distances of accuracy; the walk is
         thinned to as many

A point whose SLO breaks in every simulation is left out alone: the walk goes on above the accuracy
that its program had. What was left out is told with the front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.choosing.find_choice import MachineChoice, Need, RatedRequest, find_choice
from tvm_hetero.planning.choosing.program import (
    POINTS,
    ChoiceLimits,
    ProgramAnswer,
    full_need,
    mean_points,
    solve_program,
)

# Points of a front: combinations of variants and classes are many more.
_WALK = 40
_BETWEEN = 16


def best_choice(case: RatedRequest, goal: str, limits: ChoiceLimits | None = None) -> MachineChoice:
    """The best choice within limits that keeps the SLO when played (see `find_choice`)."""
    given = limits or ChoiceLimits(full_need(case.request))

    def pick(need: Need) -> ProgramAnswer:
        return solve_program(
            case.request, case.rated, replace(given, need=need), case.options, goal
        )

    return find_choice(case, pick, goal, given.need)


def find_front(case: RatedRequest, cost: str) -> tuple[tuple[MachineChoice, ...], bool]:
    """The front, cheapest first, and whether it has every point (see the head of this file)."""
    everyone = frozenset(range(len(case.request.classes)))
    limits = ChoiceLimits(full_need(case.request), without_floor=everyone, spending=False)
    found, reached, whole = _walk(case, cost, limits)
    end = None if reached is None else _best_points(case, limits, reached)
    if reached is not None and end is not None:
        found, whole = _spread(found) + _between(case, cost, limits, (reached, end)), False
    # One that needs a margin may cost more than a better one.
    front = tuple(
        each for i, each in enumerate(found)
        if all(each.value < other.value for other in found[i + 1 :])
    )  # fmt: skip
    return front, whole


def _walk(
    case: RatedRequest, cost: str, limits: ChoiceLimits
) -> tuple[list[MachineChoice], int | None, bool]:
    """Points one by one; the accuracy to go on from if it was cut off; whether none failed."""
    found: list[MachineChoice] = []
    whole, least = True, 0
    for _ in range(_WALK):
        at = replace(limits, least_mean=least)
        choice = _asked(case, cost, at)
        if choice is not None and choice.need == limits.need:
            found.append(choice)
            least = points_of(case, choice) + 1
            continue
        # With a margin, or none that helped: more accuracy may have been taken than was asked for.
        try:
            first = solve_program(case.request, case.rated, at, case.options, cost)
        except InfeasibleError:
            return found, None, whole  # nothing is more accurate
        except SolverError:
            return found, least, False
        points = mean_points(case.request, first)
        if choice is not None and points_of(case, choice) == points:
            found.append(choice)
        else:
            whole = False
        least = points + 1
    return found, least, whole


def _asked(case: RatedRequest, cost: str, limits: ChoiceLimits) -> MachineChoice | None:
    try:
        return best_choice(case, cost, limits)
    except (InfeasibleError, SolverError):
        return None


def _best_points(case: RatedRequest, limits: ChoiceLimits, least: int) -> int | None:
    """The best accuracy there is, as the program counts it; None: there is none from `least` on."""
    above = replace(limits, least_mean=least)
    try:
        best = solve_program(case.request, case.rated, above, case.options, "accuracy")
    except InfeasibleError:
        return None
    except SolverError:
        return least
    return mean_points(case.request, best)


def _spread(found: Sequence[MachineChoice]) -> list[MachineChoice]:
    """At most `_BETWEEN` of them, the first and the last among these."""
    if len(found) <= _BETWEEN:
        return list(found)
    return [found[i * (len(found) - 1) // (_BETWEEN - 1)] for i in range(_BETWEEN)]


def _between(
    case: RatedRequest, cost: str, limits: ChoiceLimits, ends: tuple[int, int]
) -> list[MachineChoice]:
    """The cheapest choices at even distances of accuracy, both ends among them."""
    first, last = ends
    found: list[MachineChoice] = []
    for i in range(_BETWEEN + 1):
        least = first + (last - first) * i // _BETWEEN
        if found and points_of(case, found[-1]) >= least:
            continue
        choice = _asked(case, cost, replace(limits, least_mean=least))
        if choice is not None:
            found.append(choice)
    return found


def points_of(case: RatedRequest, choice: MachineChoice) -> int:
    """Accuracy of the answers to all requests, summed, as the program counts it."""
    return round(choice.accuracy * POINTS * case.request.count)
