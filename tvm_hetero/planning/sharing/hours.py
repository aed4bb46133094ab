"""Each hour alone: the cheapest machines that carry it, whatever was before.

An hour without what comes before it, its moves free, is a small program. No day pays less for its
machines in an hour than that program's bound, so the sum over hours is a bound of the day, and what
is left above it is the price of moves, which is small beside machines.

Hours are ordered in part: what carries one hour carries another one in which no model is asked for
more. So an hour costs at least what those below it do, and at most what those above it do; where
both are the same it needs no program, and has the machines of the hour above. A day whose models
are asked in proportion is a chain, of which a few hours tell all others: they are looked at from
both ends inwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tvm_hetero.planning.sharing.day_model import DayModel, no_day
from tvm_hetero.planning.sharing.problem import MachineHour, SharingPolicy, SharingProblem
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.util.search_clock import now

Need = tuple[int, ...]


@dataclass(frozen=True)
class HourAlone:
    """An hour's cheapest machines: no plan costs less than `floor`; `plan` costs `value`.

    `value` is infinite and `plan` empty where none was found in the time.
    """

    floor: int
    value: float
    plan: tuple[MachineHour, ...]


@dataclass
class HourTable:
    """What is known of hours by what is needed, for one policy."""

    problem: SharingProblem
    policy: SharingPolicy
    known: dict[Need, HourAlone] = field(default_factory=dict)

    def look_up(self, needs: Sequence[Need], options: Options) -> list[HourAlone]:
        """Each hour alone; `options` has the time of one program.

        Raises
        ------
        InfeasibleError
            If an hour has no plan.
        """
        ordered = sorted(set(needs), key=lambda need: (sum(need), need))
        for n in bisected(len(ordered)):
            need = ordered[n]
            if need not in self.known:
                between = self._between(need)
                tight = between.floor >= between.value
                self.known[need] = between if tight else self._solve(need, between, options)
        return [self._between(need) for need in needs]

    def _between(self, need: Need) -> HourAlone:
        """What other hours say of one, and what is known of it."""
        floor = max((e.floor for n, e in self.known.items() if is_below(n, need)), default=0)
        above = [e for n, e in self.known.items() if is_below(need, n) and e.plan]
        best = min(above, key=lambda each: each.value, default=None)
        return HourAlone(floor, math.inf, ()) if best is None else replace(best, floor=floor)

    def _solve(self, need: Need, between: HourAlone, options: Options) -> HourAlone:
        model = DayModel(replace(self.problem, need=(need,)), self.policy)
        model.limit_hours([between.floor])
        if between.plan:
            model.hint((between.plan,))
        model.model.minimize(model.cost())
        outcome = run(model.model, options, CpsatBudget.of(options, now()), linear=2)
        if outcome.infeasible:
            raise no_day(self.problem, self.policy)
        floor = max(between.floor, math.ceil(outcome.bound - 1e-6))
        if not outcome.found:
            return replace(between, floor=floor)
        value = round(outcome.solver.objective_value)
        if value >= between.value:
            return replace(between, floor=floor)
        return HourAlone(min(floor, value), value, model.plan(outcome.solver)[0])


def is_below(one: Need, other: Need) -> bool:
    """Whether an hour asks for no more of any model than another one."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def bisected(count: int) -> Iterator[int]:
    """Numbers below `count`: last, first, then the middle of every part that is left.

    >>> list(bisected(5))
    [4, 0, 2, 1, 3]
    """
    if count:
        yield count - 1
    if count > 1:
        yield 0
    parts = [(0, count - 1)]
    while parts:
        low, high = parts.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            yield middle
            parts += [(low, middle), (middle, high)]
