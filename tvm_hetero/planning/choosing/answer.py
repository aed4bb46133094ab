"""The answer to a question: the choice, its proof, what binds, its neighbours, and the front.

plan      every variant on every machine                       `options.plan_options`
rate      what each plan carries of each class                 `options.rate_options`
choose    the program, played until the SLO holds              `find_choice`
front     the cheapest choice of every accuracy that is worth its price  `front`
neighbours  of the answer: what is cheaper and what is better
binding   each limit in turn is relaxed, and the program solved again
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.choosing.binding import BindingLimit, binding_limits
from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest
from tvm_hetero.planning.choosing.front import best_choice, find_front, points_of
from tvm_hetero.planning.choosing.options import check_request, plan_options, rate_options
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.program import ChoiceLimits, full_need, goal_of
from tvm_hetero.planning.choosing.request import ChoiceRequest
from tvm_hetero.solvers import Options

# What the search for a plan and for a choice may take, s; the net below them is wide, so that a
# busy machine answers the same.
_PLAN_SECONDS, _PROGRAM_SECONDS, _NET = 0.1, 10.0, 60.0


@dataclass(frozen=True)
class ChoiceAnswer:
    """What is to be run on what.

    Attributes
    ----------
    choice : the answer; front : the cheapest choices of each accuracy, with or without the least
        accuracies and the budget of the question, cheapest first; front_whole: whether it has all
        of them (see `find_front`).
    cheaper : the front's most accurate choice that costs less; better : the best one within the
        question that is more accurate. None: there is none.
    binding : limits without which the answer were better.
    seconds : that the answer took.
    """

    case: RatedRequest
    choice: MachineChoice
    front: tuple[MachineChoice, ...]
    front_whole: bool
    cheaper: MachineChoice | None
    better: MachineChoice | None
    binding: tuple[BindingLimit, ...]
    seconds: float


def choose(
    request: ChoiceRequest,
    plan: Options | None = None,
    program: Options | None = None,
    tell: Callable[[str], None] | None = None,
) -> ChoiceAnswer:
    """Answer a question.

    Parameters
    ----------
    plan, program : time limits, seeds and gaps of each plan and of each program.
    tell : is told what is being planned.

    Raises
    ------
    UsageError
        If the question cannot be answered as it stands.
    InfeasibleError
        If no choice keeps every SLO within the limits.
    SolverError
        If a search found nothing in its time.
    """
    began = time.monotonic()
    case = rate_request(request, plan, program, tell)
    goal = goal_of(request)
    choice = best_choice(case, goal)
    cost = "energy" if goal == "energy" else "price"
    front, whole = find_front(case, cost)
    return ChoiceAnswer(
        case,
        choice,
        front,
        whole,
        _cheaper(front, choice, cost),
        _better(case, choice, cost),
        binding_limits(case, choice, goal),
        time.monotonic() - began,
    )


def rate_request(
    request: ChoiceRequest,
    plan: Options | None = None,
    program: Options | None = None,
    tell: Callable[[str], None] | None = None,
) -> RatedRequest:
    """Plan and rate all options of a question (see `choose`)."""
    check_request(request)
    plan = plan or Options(_PLAN_SECONDS, deadline=_NET, gap=0.01, seed=request.seed)
    program = program or Options(_PROGRAM_SECONDS, deadline=_NET, seed=request.seed)
    planned = plan_options(request, plan, tell)
    rated, cut = rate_options(request, planned)
    return RatedRequest(request, planned, rated, cut, ChoicePlayer(request), program)


def _cost(choice: MachineChoice, cost: str) -> float:
    return choice.price if cost == "price" else choice.value


def _cheaper(
    front: tuple[MachineChoice, ...], choice: MachineChoice, cost: str
) -> MachineChoice | None:
    less = [each for each in front if _cost(each, cost) < _cost(choice, cost)]
    return less[-1] if less else None


def _better(case: RatedRequest, choice: MachineChoice, cost: str) -> MachineChoice | None:
    """The cheapest choice within the question whose answers are more accurate."""
    need = full_need(case.request)
    try:
        return best_choice(case, cost, ChoiceLimits(need, least_mean=points_of(case, choice) + 1))
    except (InfeasibleError, SolverError):
        return None
