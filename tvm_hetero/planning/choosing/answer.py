"""The answer to a question: the choice, its proof, what binds, its neighbours, and the front.

plan      every variant on every machine                       `options.plan_options`
rate      what each plan carries of each class                 `options.rate_options`
choose    the program, played until the SLO holds              `find_choice`
front     the cheapest choice of every accuracy that is worth its price  `front`
neighbours  what is cheaper and what is better, and whether it is the answer  `neighbours`
binding   each limit in turn is relaxed, and the program solved again
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm_hetero.planning.choosing.binding import BindingLimit, binding_limits
from tvm_hetero.planning.choosing.find_choice import MachineChoice, RatedRequest
from tvm_hetero.planning.choosing.front import best_choice, find_front
from tvm_hetero.planning.choosing.neighbours import find_cheaper, is_cheapest, settle
from tvm_hetero.planning.choosing.options import check_request, plan_options, rate_options
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.program import goal_of
from tvm_hetero.planning.choosing.request import ChoiceRequest
from tvm_hetero.solvers import Deadline, Options

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
        question that is more accurate. None: none was found.
    cheapest : whether nothing can cost less; best : whether nothing within the question can be more
        accurate. Both by the program.
    binding : limits without which the answer were better; untried : those of which the time was
        too short to say it.
    seconds : that the answer took.
    """

    case: RatedRequest
    choice: MachineChoice
    front: tuple[MachineChoice, ...]
    front_whole: bool
    cheaper: MachineChoice | None
    cheapest: bool
    better: MachineChoice | None
    best: bool
    binding: tuple[BindingLimit, ...]
    untried: tuple[str, ...]
    seconds: float


def choose(
    request: ChoiceRequest,
    plan: Options | None = None,
    program: Options | None = None,
    tell: Callable[[str], None] | None = None,
    ends: Deadline | None = None,
) -> ChoiceAnswer:
    """Answer a question.

    Parameters
    ----------
    plan, program : time limits, seeds and gaps of each plan and of each program.
    tell : is told what is being planned.
    ends : when all is to be over. A choice that holds by then is the answer, though its neighbours
        and what binds were not looked for to the end; it says so.

    Raises
    ------
    UsageError
        If the question cannot be answered as it stands.
    InfeasibleError
        If no choice keeps every SLO within the limits.
    SolverError
        If a search found nothing in its time, or no choice was found by `ends`.
    """
    began = time.monotonic()
    case = rate_request(request, plan, program, tell, ends)
    goal = goal_of(request)
    first = best_choice(case, goal)
    front, whole = find_front(case, "energy" if goal == "energy" else "price")
    choice, better = settle(case, first, front)
    binding, untried = binding_limits(case, choice, goal)
    return ChoiceAnswer(
        case,
        choice,
        front,
        whole,
        find_cheaper(request, choice, front),
        is_cheapest(request, choice, front, whole=whole),
        better.choice,
        better.excluded,
        binding,
        untried,
        time.monotonic() - began,
    )


def rate_request(
    request: ChoiceRequest,
    plan: Options | None = None,
    program: Options | None = None,
    tell: Callable[[str], None] | None = None,
    ends: Deadline | None = None,
) -> RatedRequest:
    """Plan and rate all options of a question (see `choose`)."""
    check_request(request)
    plan = plan or Options(_PLAN_SECONDS, deadline=_NET, gap=0.01, seed=request.seed)
    program = program or Options(_PROGRAM_SECONDS, deadline=_NET, seed=request.seed)
    if ends is not None:
        plan, program = replace(plan, ends=ends), replace(program, ends=ends)
    planned = plan_options(request, plan, tell)
    rated, cut = rate_options(request, planned, ends=ends)
    return RatedRequest(request, planned, rated, cut, ChoicePlayer(request, ends), program)
