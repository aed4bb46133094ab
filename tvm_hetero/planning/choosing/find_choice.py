"""One choice, from a program or a rule, that keeps the SLO when it is played.

What is picked for a need is played. Where a class breaks its SLO with its replicas, whoever picks
may know that and picks something else for the same need: so each choice that would be better than
the answer has been played and broke, and the bound is of all that hold. What is left after so many
tries, or is picked by a rule that does not know, gets a margin: the need of the class grows by
`_STEP`, above its load, and it is picked again. Then the answer is the best one for the need with
which the SLO holds, and the bound is that of the last program without any margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.options import CutOption, RatedOption
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer, PlayedClass
from tvm_hetero.planning.choosing.program import (
    MONEY,
    POINTS,
    ProgramAnswer,
    Replicas,
    full_need,
    mean_points,
    money,
    unit_of,
)
from tvm_hetero.planning.choosing.rate import capacity_of
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.choosing.request import ChoiceRequest
from tvm_hetero.solvers import Options

# A class whose SLO breaks has to be carried this much more often.
_STEP = 1.03
_TRIES = 12
Need = tuple[int, ...]


@dataclass(frozen=True)
class RatedRequest:
    """A question with all that is known of its options.

    Whatever uses an option that was cut can use the one that dominates it: but only as long as that
    is not ruled out. So where replicas were played and broke an SLO, what one of them dominates is
    in the program again (`known`).
    """

    request: ChoiceRequest
    planned: tuple[ReplicaOption, ...]
    rated: tuple[RatedOption, ...]
    cut: tuple[CutOption, ...]
    player: ChoicePlayer
    options: Options
    _again: dict[CutOption, RatedOption] = field(default_factory=dict)

    @property
    def known(self) -> tuple[RatedOption, ...]:
        """The options of the program: `rated`, and those that are back."""
        broken = {each for pool in self.player.refuted for each, _ in pool}
        dominant = {(each.served, each.option.name) for each in broken}
        back = []
        more = True
        while more:  # what was cut may have cut others before
            found = [
                cut for cut in self.cut
                if cut not in back and (cut.served, cut.by.option.name) in dominant
            ]  # fmt: skip
            dominant |= {(cut.served, cut.option.name) for cut in found}
            back += found
            more = bool(found)
        return (*self.rated, *(each for each in map(self._rate, back) if each.capacity))

    def _rate(self, cut: CutOption) -> RatedOption:
        if cut not in self._again:
            served, seconds = self.request.classes[cut.served], self.request.seconds
            rated = capacity_of(cut.option, served, seconds, cut.most, self.options.ends)
            self._again[cut] = RatedOption(cut.option, cut.served, *rated)
        return self._again[cut]


@dataclass(frozen=True)
class MachineChoice:
    """Replicas, what they are worth, and what the simulation says of them.

    Attributes
    ----------
    price : an hour; watts : in the mean, as played (NaN: not known); accuracy : of an answer, in
        the mean over all requests.
    value, bound : of what was minimised (or, accuracy, maximised); without a proof NaN.
    need : the share of each class for which it was made, in `UNITS`.
    """

    replicas: Replicas
    price: float
    watts: float
    accuracy: float
    value: float
    bound: float
    need: Need
    played: tuple[PlayedClass, ...]

    @property
    def gap(self) -> float:
        """How far the value may be from the best one, as a share of it."""
        return abs(self.value - self.bound) / abs(self.value) if self.value else 0.0

    @property
    def margins(self) -> dict[int, float]:
        """By how much more than its load was asked for, of each class whose SLO broke before."""
        return {k: need / UNITS - 1 for k, need in enumerate(self.need) if need > UNITS}

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Of the variant of each class."""
        of = {rated.served: rated.option.variant.accuracy for rated, _ in self.replicas}
        return tuple(of[k] for k in sorted(of))


def find_choice(
    case: RatedRequest,
    pick: Callable[[Need], ProgramAnswer],
    goal: str,
    need: Need | None = None,
    again: int = 0,
) -> MachineChoice:
    """What `pick` gives for the least need with which every class keeps its SLO.

    It is asked `again` so many times for the same need: it knows what broke.

    Raises
    ------
    InfeasibleError
        If nothing is picked, or the SLO breaks however much more is needed.
    """
    asked = list(need or full_need(case.request))
    bound, broken = math.nan, list[int]()
    for tried in range(_TRIES + again):
        try:
            answer = pick(tuple(asked))
        except InfeasibleError as error:
            if not broken:
                raise
            if tried <= again:
                raise _nothing_holds(case.request, broken, proven=error.proven) from error
            raise _without_room(case.request, broken, asked) from error
        bound = answer.bound if math.isnan(bound) or tried <= again else bound
        played = case.player.play(answer.replicas)
        broken = [each.served for each in played if not each.holds]
        if not broken:
            return describe_choice(case.request, answer, bound, goal, tuple(asked), played)
        for k in broken if tried >= again else []:
            asked[k] = math.ceil(asked[k] * _STEP)
    raise InfeasibleError(
        f"class {_names(case.request, broken)}: the SLO breaks in the simulation of every "
        f"choice, with {_TRIES} margins; relax it, or let requests arrive for longer"
    )


def _names(request: ChoiceRequest, classes: Sequence[int]) -> str:
    return ", ".join(repr(request.classes[k].name) for k in classes)


def _nothing_holds(
    request: ChoiceRequest, broken: Sequence[int], *, proven: bool
) -> InfeasibleError:
    """All that carries the load was played."""
    return InfeasibleError(
        f"class {_names(request, broken)}: the SLO breaks in the simulation of every choice that "
        "carries the load; raise 'available' or the budget, relax the SLO, or let requests arrive "
        "for longer",
        proven=proven,
    )


def _without_room(
    request: ChoiceRequest, broken: Sequence[int], asked: Sequence[int]
) -> InfeasibleError:
    """Something carries the load, but breaks its SLO when it is played, and nothing carries more.

    No proof: another choice without a margin may hold.
    """
    more = 100 * (max(asked[k] for k in broken) / UNITS - 1)
    return InfeasibleError(
        f"class {_names(request, broken)}: the SLO breaks in the simulation of what carries the "
        f"load, and with a margin of {more:.0f} % no choice is left; raise 'available' or the "
        "budget, or relax the SLO"
    )


def cost_of(request: ChoiceRequest, choice: MachineChoice) -> float:
    """What is set against accuracy: watts as the program counts them, or the price."""
    return choice.value if request.goal == "energy" else choice.price


def describe_choice(
    request: ChoiceRequest,
    answer: ProgramAnswer,
    bound: float,
    goal: str,
    need: Need,
    played: Sequence[PlayedClass],
) -> MachineChoice:
    """An answer of the program in a reader's units."""
    unit = unit_of(request, goal)
    return MachineChoice(
        answer.replicas,
        sum(money(rated) * count for rated, count in answer.replicas) / MONEY,
        math.fsum(each.watts for each in played),
        mean_points(request, answer) / (POINTS * request.count),
        answer.value / unit,
        bound / unit,
        need,
        tuple(played),
    )
