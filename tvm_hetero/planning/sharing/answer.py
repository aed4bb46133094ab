"""The answer: a day of each policy, judged and played, the shared one that moves beside the others.

plan, rate   every model on every machine                                `rating.rate_sharing`
solve        the day of a policy, with its bound                         `program.solve_day`
judge        every rule once more                                        `judge.judge`
play         the load of each hour; where a model's SLO breaks in an hour, its need there grows by
             `_STEP` and the day is solved again                         `replay.replay_day`

So a day is the best one for the needs with which its SLOs hold, and the bound is that of the needs
themselves, without any margin.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tvm_hetero.errors import InfeasibleError, SolverError, SolverFault
from tvm_hetero.planning.sharing.hours import HourTable
from tvm_hetero.planning.sharing.judge import judge
from tvm_hetero.planning.sharing.problem import MONEY, POLICIES, RATE, DayPlan, SharingPolicy
from tvm_hetero.planning.sharing.program import SharedDay, solve_day
from tvm_hetero.planning.sharing.rating import RatedSharing, needs, rate_sharing
from tvm_hetero.planning.sharing.replay import PlayedModel, replay_day
from tvm_hetero.planning.sharing.request import SharingRequest
from tvm_hetero.solvers import Deadline, Options

ANSWER = "shared, by the hour"
_STEP = 1.05
_TRIES = 12
_PLAN = Options(0.1, deadline=60.0, gap=0.01)
# Seconds of search for the day of each policy.
_DAY_SECONDS = 10.0


@dataclass(frozen=True)
class PlayedDay:
    """A day of a policy that keeps every SLO.

    Attributes
    ----------
    price : of the day; bound : no day of the program with this policy, without margins, costs less
        (its rated modes, each with one batch of every model).
    margins : by hour and model, by how much more than its load was asked for.
    """

    policy: str
    plan: DayPlan
    price: float
    bound: float
    margins: Mapping[tuple[int, int], float]
    played: tuple[PlayedModel, ...]

    @property
    def gap(self) -> float:
        """How far the price may be from the least one, as a share of it."""
        return (self.price - self.bound) / self.price if self.price else 0.0

    @property
    def strain(self) -> float:
        """The largest part of a limit that was needed in any hour."""
        return max(each.strain for each in self.played)


@dataclass(frozen=True)
class SharingAnswer:
    """What lives where in each hour, and what it costs beside simpler policies.

    Attributes
    ----------
    days : by policy (`POLICIES`); refused : why others have none.
    seconds : that the answer took.
    """

    case: RatedSharing
    days: Mapping[str, PlayedDay]
    refused: Mapping[str, str]
    seconds: float

    @property
    def day(self) -> PlayedDay:
        """The cheapest of all days."""
        return min(self.days.values(), key=lambda day: (day.price, day.policy != ANSWER))

    @property
    def bound(self) -> float:
        """What no day of the program costs less than by any policy: of the one that may do all."""
        return self.days[ANSWER].bound if ANSWER in self.days else math.nan


def share(
    request: SharingRequest,
    plan: Options | None = None,
    program: Options | None = None,
    tell: Callable[[str], None] | None = None,
    ends: Deadline | None = None,
) -> SharingAnswer:
    """Say which models live together on which machines in each hour of a day.

    Parameters
    ----------
    plan, program : time limits, seeds and gaps of each plan, and of each policy's program.
    tell : is told what is being done.
    ends : when all is to be over.

    Raises
    ------
    UsageError
        If the question cannot be answered as it stands.
    InfeasibleError
        If no policy carries the day within every SLO.
    SolverError
        If the time was up, or a search's, before any policy had a day: what is found is kept.
    """
    began = time.monotonic()
    plan = plan or replace(_PLAN, seed=request.seed)
    program = program or Options(_DAY_SECONDS, deadline=6 * _DAY_SECONDS, seed=request.seed)
    if ends is not None:
        plan, program = replace(plan, ends=ends), replace(program, ends=ends)
    case = rate_sharing(request, plan, tell, ends)
    days, refused = dict[str, PlayedDay](), dict[str, str]()
    last: InfeasibleError | SolverError | None = None
    for name, policy in POLICIES.items():
        if tell is not None:
            tell(name)
        try:
            days[name] = find_day(case, name, policy, program, ends)
        except SolverFault:
            raise
        except (InfeasibleError, SolverError) as error:
            refused[name], last = str(error), error
    if not days:
        assert last is not None, "every policy has a day or a reason"
        raise last
    return SharingAnswer(case, days, refused, time.monotonic() - began)


def find_day(
    case: RatedSharing,
    name: str,
    policy: SharingPolicy,
    program: Options,
    ends: Deadline | None = None,
) -> PlayedDay:
    """The cheapest day of a policy that keeps every SLO when it is played.

    Raises
    ------
    InfeasibleError
        If there is none, or an SLO breaks however much more is asked for.
    """
    need = [list(row) for row in needs(case.request)]
    bound, table = math.nan, HourTable(case.problem, policy)
    broken: list[PlayedModel] = []
    for _ in range(_TRIES):
        problem = replace(case.problem, need=tuple(map(tuple, need)))
        try:
            day = solve_day(problem, policy, program, table)
        except InfeasibleError as error:
            if not broken:
                raise
            # What is proven is that there is no room for margins, not that the load is too much.
            raise InfeasibleError(
                f"{_broken_words(case, broken[0])} when played, and no more machines can be kept "
                "ready; raise 'available', relax the SLO, or play more seconds"
            ) from error
        if judge(problem, day.plan, policy) != day.value:
            raise SolverFault("sharing: the program's price is not what the judge adds up")
        bound = day.bound if math.isnan(bound) else bound
        played = replay_day(case, day.plan, ends)
        broken = [each for each in played if not each.holds]
        if not broken:
            return _describe(case, name, day, bound, need, played)
        for each in broken:
            need[each.hour][each.model] = math.ceil(need[each.hour][each.model] * _STEP)
    raise InfeasibleError(
        f"{_broken_words(case, broken[0])} of every day that was played, with {_TRIES} margins; "
        "relax it, or play more seconds"
    )


def _broken_words(case: RatedSharing, played: PlayedModel) -> str:
    return f"model {case.problem.models[played.model]!r}: its SLO breaks in hour {played.hour}"


def _describe(
    case: RatedSharing,
    name: str,
    day: SharedDay,
    bound: float,
    need: list[list[int]],
    played: tuple[PlayedModel, ...],
) -> PlayedDay:
    margins = {
        (t, i): asked / own - 1
        for t, (row, first) in enumerate(zip(need, needs(case.request), strict=True))
        for i, (asked, own) in enumerate(zip(row, first, strict=True))
        if asked > own
    }
    return PlayedDay(
        name, day.plan, day.value / MONEY, min(bound, day.value) / MONEY, margins, played
    )


def answered_rate(case: RatedSharing, t: int, i: int, day: PlayedDay) -> float:
    """Requests of a model a second that the machines of an hour answer."""
    problem = case.problem
    total = sum(
        problem.kinds[problem.machines[each.machine]].modes[each.mode].carries[i]
        * each.parts.get(i, 0)
        for each in day.plan[t]
    )
    return total / problem.parts / RATE
