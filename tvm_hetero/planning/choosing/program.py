"""The choice as an integer program, solved exactly.

    minimise    sum over k, o of  f(o) y[k,o]           f: price, or watts at the rated share
    subject to  sum over o of  c(k,o) y[k,o] >= need(k)    each class is carried     -> `_carry`
                y[k,o] <= most(k,o) z[k,v(o)]              by one variant            -> `_carry`
                sum over v of  z[k,v] = 1                  that is accurate enough   -> `_carry`
                sum over k, o on m of  y[k,o] <= available(m)                        -> `_limits`
                prices and watts within the budget                                   -> `_limits`
                sum over k, v of  w(k) a(v) z[k,v] >= accuracy    for the front      -> `_limits`
                y[k,.] is none of those that broke k's SLO when they were played -> `_rule_out`

w(k) is the number of a class's requests, a(v) a variant's accuracy: their sum over the number of
all requests is the mean accuracy of an answer. For the goal accuracy that is what is maximised. Of
equal choices that of the best accuracy is taken, or of the least price: a second program, in which
the first one's value is a limit.

Everything is an integer: money in millionths, watts in thousandths, accuracy in ten-thousandths,
shares in `UNITS`. So CP-SAT's bound is exact and needs no tolerance. Prices and capacities of
options are rounded against the choice (up and down), for the answer and for the bound alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.replica_plan import price_of
from tvm_hetero.planning.choosing.request import ChoiceRequest, ModelVariant, SpendingLimit
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.util.search_clock import now

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_MOST_SUM = 2**62
MONEY, MILLIWATT, POINTS = 1_000_000, 1_000, 10_000
Replicas = tuple[tuple[RatedOption, int], ...]


@dataclass(frozen=True)
class ChoiceLimits:
    """What a program asks for beside the question itself.

    Attributes
    ----------
    need : share of each class that is to be carried, in `UNITS`.
    least_mean : accuracy of the answers to all requests, summed, in parts of `POINTS`.
    available : machines by name, where another number than the question's.
    without_floor : classes whose least accuracy does not hold; spending : whether the budget does;
        reserve : of its watts, in parts of `MILLIWATT`, that are not to be used.
    refuted : replicas of a class, all that it has, with which its SLO broke in a simulation.
    """

    need: tuple[int, ...]
    least_mean: int = 0
    available: dict[str, int] = field(default_factory=dict)
    without_floor: frozenset[int] = frozenset()
    spending: bool = True
    reserve: int = 0
    refuted: tuple[Replicas, ...] = ()


@dataclass(frozen=True)
class ProgramAnswer:
    """Replicas of rated options (only those in use), and what is proven.

    `value` and `bound` are in the goal's integers: `MONEY`, `MILLIWATT` or `POINTS`.
    """

    replicas: tuple[tuple[RatedOption, int], ...]
    value: int
    bound: int


def unit_of(request: ChoiceRequest, goal: str) -> int:
    """How many of the program's integers are one dollar, watt or part of accuracy."""
    return {"price": MONEY, "energy": MILLIWATT, "accuracy": POINTS * request.count}[goal]


def goal_of(request: ChoiceRequest) -> str:
    """What is minimised or maximised: the front is of prices."""
    return "price" if request.goal == "front" else request.goal


def whole_units(figure: float, unit: int) -> int:
    """So many units, rounded down: what is spent may be that much (8.2 is 8,200,000 millionths)."""
    return math.floor(round(figure * unit, 3))


def money(rated: RatedOption) -> int:
    """The price of a replica, an hour, in millionths."""
    price = price_of(rated.option.machine)
    assert price is not None, "`check_request` has seen to it"
    return math.ceil(round(price * MONEY, 3))


def milliwatts(rated: RatedOption) -> int:
    """What a replica draws with its rated share."""
    return math.ceil(round(rated.watts * MILLIWATT, 3))


def points(variant: ModelVariant) -> int:
    """A variant's accuracy."""
    return round(variant.accuracy * POINTS)


def mean_points(request: ChoiceRequest, answer: ProgramAnswer) -> int:
    """Accuracy of an answer, summed over all requests."""
    variants = {rated.served: rated.option.variant for rated, _ in answer.replicas}
    return sum(len(request.classes[k].requests) * points(v) for k, v in sorted(variants.items()))


def solve_program(
    request: ChoiceRequest,
    rated: Sequence[RatedOption],
    limits: ChoiceLimits,
    options: Options,
    goal: str,
) -> ProgramAnswer:
    """The best choice within limits; the goal is ``price``, ``energy`` or ``accuracy``.

    Raises
    ------
    InfeasibleError
        If there is none.
    SolverError
        If none was found in the time.
    """
    first = _ChoiceProgram(request, rated, limits)
    main = first.accuracy() if goal == "accuracy" else first.cost(goal)
    sign = -1 if goal == "accuracy" else 1
    value, bound, replicas = first.minimise(sign * main, options)
    second = _ChoiceProgram(request, rated, limits)
    if goal == "accuracy":
        second.model.add(second.accuracy() >= -value)
        other = second.cost("price")
    else:
        second.model.add(second.cost(goal) <= value)
        other = -second.accuracy()
    _, _, replicas = second.minimise(other, options, replicas)
    return ProgramAnswer(replicas, sign * value, sign * bound)


class _ChoiceProgram:
    """The model of the head of this file, and its variables."""

    def __init__(
        self, request: ChoiceRequest, rated: Sequence[RatedOption], limits: ChoiceLimits
    ) -> None:
        from ortools.sat.python import cp_model

        self.request, self.limits = request, limits
        self.model = cp_model.CpModel()
        self.rated = [each for each in rated if self._is_allowed(each)]
        self.most = [self._most(each) for each in self.rated]
        self.y = [self.model.new_int_var(0, most, "") for most in self.most]
        self.z: dict[tuple[int, str], cp_model.IntVar] = {}
        self.variants = {variant.name: variant for variant in request.variants}
        for k in range(len(request.classes)):
            self._carry(k)
        self._limits()
        for pool in limits.refuted:
            self._rule_out(dict(pool))

    def _is_allowed(self, rated: RatedOption) -> bool:
        floor = self.request.classes[rated.served].least_accuracy
        return rated.served in self.limits.without_floor or rated.option.variant.accuracy >= floor

    def _available(self, name: str) -> int:
        own = next(each.available for each in self.request.machines if each.name == name)
        return self.limits.available.get(name, own)

    def _most(self, rated: RatedOption) -> int:
        """What is enough, and one more for whatever broke: of more some were cheaper and enough."""
        enough = -(-self.limits.need[rated.served] // rated.capacity)
        enough += sum(pool[0][0].served == rated.served for pool in self.limits.refuted)
        return min(self._available(rated.option.machine.name), enough)

    def _carry(self, k: int) -> None:
        """Class k is carried, by one variant."""
        own = [i for i, each in enumerate(self.rated) if each.served == k]
        names = sorted({self.rated[i].option.variant.name for i in own})
        if not names:
            served = self.request.classes[k]
            floor = "" if k in self.limits.without_floor else _floor_words(served.least_accuracy)
            raise InfeasibleError(
                f"class {served.name!r}: no variant{floor} on any machine keeps its SLO, even "
                "alone; relax it, or offer faster machines",
                proven=True,
            )
        for name in names:
            self.z[k, name] = self.model.new_bool_var("")
        self.model.add_exactly_one(self.z[k, name] for name in names)
        for i in own:
            chosen = self.z[k, self.rated[i].option.variant.name]
            self.model.add(self.y[i] <= self.most[i] * chosen)
        carried = sum(self.rated[i].capacity * self.y[i] for i in own)
        self.model.add(carried >= self.limits.need[k])

    def _rule_out(self, pool: dict[RatedOption, int]) -> None:
        """Some number of the class's replicas is another one; options that are not here have 0."""
        if not set(pool) <= set(self.rated):
            return
        served = next(iter(pool)).served
        others = []
        for y, each, most in zip(self.y, self.rated, self.most, strict=True):
            count = pool.get(each, 0)
            if each.served != served:
                continue
            if count > 0:
                others.append(self.model.new_bool_var(""))
                self.model.add(y < count).only_enforce_if(others[-1])
            if count < most:
                others.append(self.model.new_bool_var(""))
                self.model.add(y > count).only_enforce_if(others[-1])
        self.model.add_bool_or(others)

    def _limits(self) -> None:
        """Machines that can be had, the budget, and the least mean accuracy."""
        for machine in self.request.machines:
            on = [y for y, each in zip(self.y, self.rated, strict=True)
                  if each.option.machine.name == machine.name]  # fmt: skip
            if on:
                self.model.add(sum(on) <= self._available(machine.name))
        budget = self.request.budget
        if self.limits.spending and budget.price is not None:
            self.model.add(self.cost("price") <= min(_MOST_SUM, whole_units(budget.price, MONEY)))
        if self.limits.spending and budget.watts is not None:
            most = whole_units(budget.watts, MILLIWATT) - self.limits.reserve
            self.model.add(self.cost("energy") <= min(_MOST_SUM, most))
        if self.limits.least_mean:
            self.model.add(self.accuracy() >= self.limits.least_mean)

    def cost(self, goal: str) -> cp_model.LinearExprT:
        """Price or watts of all replicas."""
        of = money if goal == "price" else milliwatts
        _check_size(sum(of(each) * n for each, n in zip(self.rated, self.most, strict=True)), goal)
        return sum(of(each) * y for each, y in zip(self.rated, self.y, strict=True))

    def accuracy(self) -> cp_model.LinearExprT:
        """Of the answers to all requests, summed."""
        most = max((points(variant) for variant in self.variants.values()), default=0)
        _check_size(self.request.count * most * len(self.variants), "accuracy")
        return sum(
            len(self.request.classes[k].requests) * points(self.variants[name]) * z
            for (k, name), z in self.z.items()
        )

    def minimise(
        self, goal: cp_model.LinearExprT, options: Options, start: Replicas = ()
    ) -> tuple[int, int, Replicas]:
        """Value, bound and replicas; without a better answer in the time, `start`."""
        self.model.minimize(goal)
        known = dict(start)
        if start:
            for each, y in zip(self.rated, self.y, strict=True):
                self.model.add_hint(y, known.get(each, 0))
        budget = CpsatBudget.of(options, now())
        outcome = run(self.model, options, budget, linear=2)
        if outcome.infeasible:
            # With a margin, a choice that carries less may hold all the same.
            proven = all(need <= UNITS for need in self.limits.need)
            raise InfeasibleError(_why_nothing(self.request), proven=proven)
        if not outcome.found:
            if start:
                return 0, 0, start
            raise SolverError("no choice was found in the time; give it more")
        counts = [outcome.solver.value(y) for y in self.y]
        chosen = [(each, n) for each, n in zip(self.rated, counts, strict=True) if n]
        value = round(outcome.solver.objective_value)
        bound = min(value, math.ceil(outcome.bound - 1e-6))
        return value, bound, tuple(chosen)


def _check_size(most: int, goal: str) -> None:
    """Refuse sums that CP-SAT's 64 bits do not hold."""
    if most >= _MOST_SUM:
        raise UsageError(
            f"the {goal} of all machines or requests together is too large to be counted exactly; "
            "give it in larger units, or fewer machines"
        )


def _floor_words(least: float) -> str:
    return f" with an accuracy of {least:g} or more" if least > 0 else ""


def _why_nothing(request: ChoiceRequest) -> str:
    what = "the machines that can be had carry the load"
    spending = request.budget != SpendingLimit()
    within = " within the budget" if spending else ""
    return (
        f"no choice in which {what}{within} and every class keeps its SLO and accuracy; raise "
        f"'available'{' or the budget' if spending else ''}, or relax an SLO"
    )


def full_need(request: ChoiceRequest) -> tuple[int, ...]:
    """Every class is carried, without a margin."""
    return (UNITS,) * len(request.classes)
