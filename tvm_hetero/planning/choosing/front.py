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

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.choosing.find_choice import MachineChoice, Need, RatedRequest, find_choice
from tvm_hetero.planning.choosing.program import (
    MILLIWATT,
    POINTS,
    ChoiceLimits,
    ProgramAnswer,
    full_need,
    mean_points,
    solve_program,
)

# Points of a front: combinations of variants and classes are many more.
_WALK = 40
# Choices that draw more than the budget when they are played.
_TRIES = 8
# Choices that broke an SLO when they were played, and are ruled out before a margin is asked for.
_RULED_OUT = 20
_BETWEEN = 16


def best_choice(case: RatedRequest, goal: str, limits: ChoiceLimits | None = None) -> MachineChoice:
    """The best choice within limits that keeps the SLO when played (see `find_choice`).

    And the budget of watts: batches are others than those that its shares were rated with, so it
    may draw a little more. Then as much of the budget is kept back.

    Raises
    ------
    InfeasibleError
        If there is none.
    SolverError
        If none was found in the time.
    """
    given = limits or ChoiceLimits(full_need(case.request))
    most = case.request.budget.watts if given.spending else None
    bound = math.nan
    for _ in range(_TRIES):
        choice = find_choice(case, partial(_pick, case, goal, given), goal, given.need, _RULED_OUT)
        bound = choice.bound if math.isnan(bound) else bound
        if most is None or choice.watts <= most:
            return replace(choice, bound=bound)
        over = math.ceil((choice.watts - most) * MILLIWATT)
        given = replace(given, reserve=given.reserve + over)
    raise InfeasibleError(
        f"every choice draws more than the budget of {most:g} W when it is played; raise it"
    )


def _pick(case: RatedRequest, goal: str, limits: ChoiceLimits, need: Need) -> ProgramAnswer:
    """What the program says; infeasible with a reserve is no proof."""
    asked = replace(limits, need=need, refuted=tuple(case.player.refuted))
    try:
        return solve_program(case.request, case.known, asked, case.options, goal)
    except InfeasibleError as error:
        if limits.reserve:
            raise InfeasibleError(str(error)) from error
        raise


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
    if front:  # the first program's bound holds for all, also where its choice is not of the front
        front = (replace(front[0], bound=found[0].bound), *front[1:])
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
            first = solve_program(case.request, case.known, at, case.options, cost)
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
        best = solve_program(case.request, case.known, above, case.options, "accuracy")
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
